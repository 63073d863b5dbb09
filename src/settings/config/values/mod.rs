//! Values and helpers that several sections share. In reading order:
//!
//! - `name_catalog`: names that higher units define; `check_context`: the checks of all files, and a place in one
//! - `section`: what the modules of most sections import
//! - `net`, `zones`, `globs`, `words`: host names and URLs, time zones, patterns of addresses, settings of one word
//! - `answer_schema`: schemas of answers

pub mod answer_schema;
pub mod check_context;
pub mod globs;
pub mod name_catalog;
pub mod net;
pub mod section;
pub mod words;
pub mod zones;
