//! Webhooks: other programs are told what happens, by Standard Webhooks 1.0.0.
//!
//! - `payload`: the body of an event: its kind, its instant and ids
//! - `signature`: the header by which a receiver knows us
//! - `schedule`: when a failed attempt is made again
//! - `sender`: one request, behind the guard of the web
//! - `worker`: from the feed to rows, from rows to requests
//!
//! Absent on purpose: texts of letters. A receiver looks up what the ids name, with a key of its own (decision D-112).

mod payload;
mod signature;
mod schedule;
mod sender;
mod worker;

pub use payload::{TEST_EVENT, delivery_of, test_body};
pub use sender::{WebhookAnswer, WebhookSender};
pub use worker::{Webhooks, test_webhook};
