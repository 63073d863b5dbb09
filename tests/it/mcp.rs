//! `attache mcp serve`: the engine's tools for an agent, by the real program over real pipes.

pub mod client;
mod calls;
mod fences;
mod once;
