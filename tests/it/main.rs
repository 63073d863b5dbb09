//! The one integration binary: one module per capability.

mod app;
mod archives;
mod corpora;
mod crashes;
mod kills;
mod isolation;
mod knowledge;
mod mime;
mod providers;
mod road;
mod runs;
mod scheduler;
mod recording_door;
mod smtp;
mod sql;
mod threading;
mod tools;
mod config;
mod cli;
mod outbound;
mod browse;
mod replay;
mod faces;
mod folder;
mod judge;
mod readme;
