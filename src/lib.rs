#![doc = include_str!("ARCHITECTURE.md")]

pub mod crash;
pub mod domain;
pub mod clock;
pub mod mime;
pub mod config;
pub mod store;
pub mod tools;
pub mod gateway;
pub mod scheduler;
pub mod providers;
pub mod context;
pub mod runs;
pub mod mcp;
pub mod replay;
pub mod app;
pub mod cli;
