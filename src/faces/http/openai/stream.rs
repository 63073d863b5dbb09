//! Answers that show while they are made, as server-sent events.
//!
//! The body is asked for its next piece when the connection has room for one, so a slow reader holds back nothing but itself,
//! and is cut as any other. One that goes away leaves the run as it is.

use super::ask::AskedQuestion;
use super::error::ClientError;
use super::outcome::{self, ClientAnswer};
use crate::runs::chat::program_wait::WaitStep;
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::stream::unfold;
use serde::Serialize;
use std::convert::Infallible;

/// Seconds of silence after which a client that reads a stream hears that it goes on.
const KEEP_ALIVE: u32 = 15;
/// Most characters of one delta of an answer that is there already.
const DELTA_CHARS: usize = 400;

/// Form of the events of a stream.
pub(super) trait EventForm: Send + 'static {
    /// Events before the first text.
    fn begin(&mut self) -> String;
    fn text(&mut self, delta: &str) -> String;
    /// Events after the last text.
    fn end(&mut self, answer: &ClientAnswer) -> String;
    fn fail(&mut self, error: &ClientError) -> String;
}

/// Formats one event.
pub(super) fn event(name: Option<&str>, data: &impl Serialize) -> String {
    // Texts and numbers always have a JSON form.
    let data = serde_json::to_string(data).unwrap_or_default();
    match name {
        Some(name) => format!("event: {name}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    }
}

enum StreamPhase {
    Begins,
    Waits,
    Ended,
}

/// Returns an answer whose body is the events of a question.
pub(super) fn response(asked: AskedQuestion, form: impl EventForm) -> Response {
    let state = (asked, form, StreamPhase::Begins);
    let events = unfold(state, |(mut asked, mut form, phase)| async move {
        let (text, phase) = match phase {
            StreamPhase::Begins => (form.begin(), StreamPhase::Waits),
            StreamPhase::Waits => next(&mut asked, &mut form).await,
            StreamPhase::Ended => return None,
        };
        Some((Ok::<_, Infallible>(Bytes::from(text)), (asked, form, phase)))
    });
    of_body(Body::from_stream(events))
}

/// Returns an answer whose events are all there.
pub(super) fn at_once(mut form: impl EventForm, answer: &ClientAnswer) -> Response {
    let mut events = form.begin();
    add_deltas(&mut events, &mut form, &answer.text);
    events.push_str(&form.end(answer));
    of_body(Body::from(events))
}

fn of_body(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, kind);
    // nginx would keep the events until it has many.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

async fn next(asked: &mut AskedQuestion, form: &mut impl EventForm) -> (String, StreamPhase) {
    let mut step = asked.next().await;
    for _ in 1..KEEP_ALIVE {
        if !matches!(step, Ok(WaitStep::Quiet)) {
            break;
        }
        step = asked.next().await;
    }
    let error = match step {
        Ok(WaitStep::Text(text)) => return (form.text(&text), StreamPhase::Waits),
        Ok(WaitStep::Quiet) => return (": keep-alive\n\n".to_owned(), StreamPhase::Waits),
        Ok(WaitStep::OutOfTime) => outcome::out_of_time(&asked.run),
        Ok(WaitStep::Settled(settled)) => match outcome::of(&asked.store, &settled).await {
            Ok(answer) => match answer.text.strip_prefix(asked.shown().trim_end()) {
                Some(rest) => {
                    let mut events = String::new();
                    // The blanks at the end of what was shown may be gone from the answer.
                    let shown = asked.shown();
                    let blanks = shown.len() - shown.trim_end().len();
                    let rest = rest.get(blanks..).unwrap_or_default();
                    add_deltas(&mut events, form, rest);
                    events.push_str(&form.end(&answer));
                    return (events, StreamPhase::Ended);
                }
                None => outcome::replaced(&asked.run),
            },
            Err(error) => error,
        },
        Err(error) => error,
    };
    (form.fail(&error), StreamPhase::Ended)
}

fn add_deltas(events: &mut String, form: &mut impl EventForm, text: &str) {
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest
            .char_indices()
            .nth(DELTA_CHARS)
            .map_or(rest.len(), |(at, _)| at);
        let (delta, after) = rest.split_at(end);
        events.push_str(&form.text(delta));
        rest = after;
    }
}
