//! `attache migrate`: rows go to a server and back.

mod database;
pub mod every_table;
