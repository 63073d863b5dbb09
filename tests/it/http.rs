//! The pages and the API: who may see them, what they show, and that a letter never becomes part of them.

mod actions;
mod agent_reads;
mod agents;
mod api;
mod approvals;
mod description;
mod door;
mod file_versions;
mod files;
mod hostile_letters;
mod inbox;
mod ingest;
mod live;
mod login;
mod matrix;
mod memory;
mod openai;
mod openai_clients;
mod openai_options;
mod openai_streams;
mod reader;
mod plainness;
pub mod site;
mod slow_readers;
mod socket;
mod threads;
mod workspace;
