//! Values and helpers that several sections share.

pub mod answer_schema;
pub mod check_context;
pub mod globs;
pub mod name_catalog;
pub mod net;
pub mod words;
pub mod zones;
