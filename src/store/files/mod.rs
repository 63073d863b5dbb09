//! Files that agents and tools may change, and those that they may not.
//!
//! - `entry`: one entry of a folder, and names as text.
//! - `agent_files`: what our own tools are expected to change meanwhile.
//! - `guard`: the copy of a persona's folder while an agent works.
//! - `persona_files`: files that the owner edits on a page; `persona_file_versions`: what they were before.
//! - `owner_edits`: what the owner edits meanwhile.
//! - `put_back`: the comparison with that copy, and the restoration.
//! - `workspace`: the folder in which agents may write: making it, listing it, its quota.
//! - `versions`: what runs changed or removed there.
//!
//! Not here: which paths an agent announces (`providers::agents::paths`), and who may read what
//! (`tools::folder`).

pub mod agent_files;
pub mod entry;
pub mod guard;
mod owner_edits;
pub mod persona_files;
pub mod persona_file_versions;
pub mod put_back;
pub mod workspace;
pub mod versions;
