//! Outgoing mail: the queue, outcomes, the health of transports.

pub(in crate::store) mod queue;
pub(in crate::store) mod outcomes;
pub(in crate::store) mod delivery_state;
pub(in crate::store) mod transport;
pub(in crate::store) mod outbox;
