//! Folds the events of one call into its [`Response`], and enforces the contract's invariants for
//! every adapter.

use crate::domain::ErrorClass;
use crate::providers::contract::traits::{
    CallContext, Event, Phase, Provider, ProviderError, Response,
};
use futures_util::StreamExt;
use serde_json::Value;

/// Makes one call and waits for its end. Errors: the adapter's, or class `Protocol` when its stream
/// broke the contract; text that came before an error is discarded.
pub async fn complete(
    provider: &dyn Provider,
    encoded: &str,
    context: CallContext,
) -> Result<Response, ProviderError> {
    complete_seen(provider, encoded, context, |_| {}).await
}

/// Makes one call as [`complete`] does; `see` is given every event as it comes.
pub async fn complete_seen(
    provider: &dyn Provider,
    encoded: &str,
    context: CallContext,
    see: impl Fn(&Event) + Send,
) -> Result<Response, ProviderError> {
    let mut events = provider.stream(encoded, context);
    let mut accumulator = Accumulator::default();
    while let Some(event) = events.next().await {
        let event = event?;
        see(&event);
        accumulator.push(event)?;
        crate::crash::crash_point!("R4");
    }
    accumulator.finish()
}

/// Checks the order of events: `Started` first and once, one `Finished`, nothing after it.
#[derive(Default)]
pub struct Accumulator {
    started: bool,
    finished: Option<Response>,
}

impl Accumulator {
    /// Adds an event. Errors: class `Protocol`, when the event may not come now.
    pub fn push(&mut self, event: Event) -> Result<(), ProviderError> {
        if self.finished.is_some() {
            return Err(broken("an event came after the end of the answer"));
        }
        match (event, self.started) {
            (Event::Started { .. }, false) => self.started = true,
            (Event::Started { .. }, true) => return Err(broken("the answer started twice")),
            (_, false) => return Err(broken("the answer did not begin with its start")),
            (Event::Finished(response), true) => self.finished = Some(response),
            (_, true) => {}
        }
        Ok(())
    }

    /// Returns the response. Errors: class `Transient`, when the stream ended without a terminal
    /// event.
    pub fn finish(self) -> Result<Response, ProviderError> {
        self.finished.ok_or_else(ended_early)
    }
}

/// Returns the error of a connection that closed before the answer was complete.
pub fn ended_early() -> ProviderError {
    let message = "the answer ended before the provider said that it was complete";
    ProviderError::new(ErrorClass::Transient, Phase::MidStream, message)
}

/// Returns the error of a message that the protocol does not allow.
pub fn broken(message: impl Into<String>) -> ProviderError {
    ProviderError::new(ErrorClass::Protocol, Phase::MidStream, message)
}

/// Returns the id of a tool call, generated where the provider gave none or gave a duplicate: ids
/// are unique inside an answer.
pub fn call_id(given: &str, position: u64, is_taken: impl Fn(&str) -> bool) -> String {
    if !given.is_empty() && !is_taken(given) {
        return given.to_owned();
    }
    let mut id = format!("call_{position}");
    while is_taken(&id) {
        id.push('x');
    }
    id
}

/// Reads a token count as a provider wrote it: negative is 0, and nothing exceeds what an SQLite
/// integer holds.
pub fn token_count(value: Option<&Value>) -> Option<u64> {
    const MAX: u64 = i64::MAX.unsigned_abs();
    let number = value?.as_number()?;
    if let Some(count) = number.as_u64() {
        return Some(count.min(MAX));
    }
    let float = number.as_f64()?;
    // `as` saturates: negative and NaN give 0.
    Some((float as u64).min(MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::contract::traits::{FinishReason, TokenUsage};

    fn started() -> Event {
        Event::Started {
            provider_request_id: None,
            model: "m".into(),
        }
    }
    fn finished() -> Event {
        Event::Finished(Response {
            blocks: vec![],
            stop: FinishReason::EndTurn,
            usage: TokenUsage::default(),
            model_served: "m".into(),
            provider_request_id: None,
            breakdown: Vec::new(),
            session_usage: None,
        })
    }
    fn fold(events: Vec<Event>) -> Result<Response, ErrorClass> {
        let mut accumulator = Accumulator::default();
        for event in events {
            accumulator.push(event).map_err(|e| e.class)?;
        }
        accumulator.finish().map_err(|e| e.class)
    }

    #[test]
    fn a_stream_that_breaks_the_order_of_events_is_an_error() {
        let text = || Event::TextDelta("hi".into());
        assert!(fold(vec![started(), text(), finished()]).is_ok());
        assert_eq!(fold(vec![]), Err(ErrorClass::Transient));
        assert_eq!(fold(vec![started(), text()]), Err(ErrorClass::Transient));
        assert_eq!(fold(vec![text(), finished()]), Err(ErrorClass::Protocol));
        assert_eq!(fold(vec![finished()]), Err(ErrorClass::Protocol));
        assert_eq!(fold(vec![started(), started()]), Err(ErrorClass::Protocol));
        assert_eq!(
            fold(vec![started(), finished(), text()]),
            Err(ErrorClass::Protocol)
        );
        assert_eq!(
            fold(vec![started(), finished(), finished()]),
            Err(ErrorClass::Protocol)
        );
    }

    #[test]
    fn nonsense_token_counts_saturate() {
        let read = |text: &str| token_count(serde_json::from_str::<Value>(text).ok().as_ref());
        assert_eq!(read("12"), Some(12));
        assert_eq!(read("-4"), Some(0));
        assert_eq!(read("7.9"), Some(7));
        assert_eq!(read("1e300"), Some(i64::MAX.unsigned_abs()));
        assert_eq!(read("18446744073709551615"), Some(i64::MAX.unsigned_abs()));
        assert_eq!(read("null"), None);
        assert_eq!(read("\"12\""), None);
        assert_eq!(token_count(None), None);
    }
}
