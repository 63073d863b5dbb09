//! What programs that watch over the engine are sent: spans of runs, a ping as long as letters are taken, a log of sizes.
//!
//! - `spans`: a run that has ended, as spans of OpenTelemetry, in its conventions for generative AI; `otlp`: their JSON
//! - `audit_log`: a line for each event, with kinds, ids and sizes
//! - `worker`: follows the feed and sends
//!
//! Absent on purpose: texts, subjects and addresses. Everything here is made from committed rows, so a run is not slower for
//! it, and a collector that is away delays nothing.

mod audit_log;
mod otlp;
mod spans;
mod worker;

pub use worker::TelemetryWorker;
