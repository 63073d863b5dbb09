//! Skills: folders of the owner with instructions and files, shown in three stages (agentskills.io).
//!
//! - `skill_file`: `SKILL.md`, and what the format asks of it
//! - `skill_folder`: all files of a skill with their digests
//! - `skill_reader`: the approved skills of a persona as a capability
//! - `use_skill`: the tool
//!
//! The first stage, names and descriptions in the context, is a resolver (`context::resolvers::skills`).

pub mod skill_file;
pub mod skill_folder;
pub mod skill_reader;
pub mod use_skill;
