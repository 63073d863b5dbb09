//! Agents, whose loop is their own: what they do is recorded, bounded, stopped, and never silently done twice.

pub mod agent;
mod bounds;
mod failures;
mod files;
mod owner_edits;
mod sessions;
mod workspace;
