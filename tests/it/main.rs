//! The one integration binary: one module per capability.
mod knowledge;
mod providers;
mod tools;
mod mime;
mod scheduler;
mod recording_door;
mod smtp;
