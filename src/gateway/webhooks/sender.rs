//! One request to a webhook, behind the guard of the web: every address that its name has is looked at before one is connected
//! to. Redirects are not followed.

use super::schedule::retry_after;
use super::signature::signatures;
use crate::config::Webhook;
use crate::domain::Timestamp;
use crate::web::{ApiRequest, FetchLimits, Lookup, SystemLookup, WebFetcher, own_target};
use std::sync::Arc;
use std::time::Duration;

/// Time for a receiver to answer (Standard Webhooks 1.0.0: 15 to 30 seconds).
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// Answer of a receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookAnswer {
    /// Status of HTTP; `None`: there was no answer.
    pub status: Option<u16>,
    /// Time that it asks us to wait.
    pub retry_after: Option<Duration>,
    /// Why it counts as no success; `None`: it is one.
    pub error: Option<String>,
}

impl WebhookAnswer {
    /// Reports whether the receiver wants no more events.
    pub fn is_gone(&self) -> bool {
        self.status == Some(410)
    }

    /// Reports whether the receiver's server is busy or away, so that other events would fare alike.
    pub fn is_busy(&self) -> bool {
        matches!(self.status, None | Some(429 | 502 | 503 | 504))
    }
}

/// Sends events. A clone is cheap.
#[derive(Clone)]
pub struct WebhookSender {
    lookup: Arc<dyn Lookup>,
    answer_max: Duration,
}

impl WebhookSender {
    pub fn new(lookup: Arc<dyn Lookup>, answer_max: Duration) -> Self {
        Self { lookup, answer_max }
    }

    /// Makes one attempt. The instant is that of the attempt: a receiver refuses what is old.
    pub async fn send(
        &self,
        webhook: &Webhook,
        (id, body): (&str, &str),
        now: Timestamp,
    ) -> WebhookAnswer {
        let timestamp_s = now.as_millis().div_euclid(1000);
        let signed = signatures(&webhook.keys, id, timestamp_s, body);
        let request = ApiRequest::post_text(&webhook.url, body)
            .with_field("webhook-id", id.to_owned().into())
            .with_field("webhook-timestamp", timestamp_s.to_string().into())
            .with_field("webhook-signature", signed.into());
        let limits = FetchLimits::default();
        let opened: Vec<String> = opened(webhook).into_iter().collect();
        let fetcher = WebFetcher::new(&opened, self.lookup.clone(), limits);
        let failed = |error: String| WebhookAnswer {
            status: None,
            retry_after: None,
            error: Some(error),
        };
        // What stands in the body of an answer has no meaning, so none is read.
        let answered = tokio::time::timeout(self.answer_max, fetcher.open_api(request)).await;
        let answer = match answered {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) if error.code == "address_not_allowed" => {
                return failed(
                    "its name leads to an address that is not public; only `private_target` in configs/gateway.json opens it"
                        .to_owned(),
                );
            }
            Ok(Err(error)) => return failed(error.message),
            Err(_) => {
                let seconds = self.answer_max.as_secs();
                return failed(format!("it did not answer within {seconds} s"));
            }
        };
        let status = answer.status();
        let asked = answer.field("retry-after").and_then(retry_after);
        WebhookAnswer {
            status: Some(status),
            retry_after: asked,
            error: match status {
                200..=299 => None,
                300..=399 => Some(format!("it answered {status}: redirects are not followed")),
                _ => Some(format!("it answered {status}")),
            },
        }
    }
}

impl Default for WebhookSender {
    fn default() -> Self {
        Self::new(Arc::new(SystemLookup), ANSWER_MAX)
    }
}

/// Returns the private target that the operator has opened by naming it.
fn opened(webhook: &Webhook) -> Option<String> {
    own_target(&webhook.url).filter(|_| webhook.private_target)
}
