//! Responsibilities: cron in time zones, files to rows, due slots to runs.

mod calendar;
mod command;
mod cron;
mod files;
mod front;
mod inbox;
mod oracle;
mod slots;
mod timing;
mod world;
