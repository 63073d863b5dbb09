//! Responsibilities: cron in time zones, files to rows, due slots to runs.

mod calendar;
mod command;
mod downtime;
mod fair;
mod cron;
mod files;
mod front;
mod inbox;
mod oracle;
mod overlap;
mod pauses;
mod races;
mod slots;
mod timing;
pub mod world;
