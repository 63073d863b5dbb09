//! Outgoing mail: the queue, outcomes, the health of transports.

pub mod queue;
pub mod outcomes;
pub mod delivery_state;
pub mod transport;
pub mod outbox;
