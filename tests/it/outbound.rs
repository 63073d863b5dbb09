//! Outbound mail over real sockets and a real database: a scripted smarthost, a clock that stands still.

mod folder;
mod check;
mod faults;
mod flow;
mod garbage;
pub mod world;
mod operators;
mod recovery;
mod resting;
mod security;
pub mod server;
mod unknown;
