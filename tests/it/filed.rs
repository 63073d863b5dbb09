//! What became of a letter is said: in the log, by the commands, and what can be done about it.

mod commands;
mod last;
mod log;
