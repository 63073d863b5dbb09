//! Pages about the workspace: personas, the schedule, the configuration, the state of the engine, who has access.
//!
//! - `personas`, with `persona_file` and `persona_file_versions`: who lives here, and the files of each
//! - `schedule`: what is due, and what past slots became; `configuration`: what is wrong in the files
//! - `doctor`: how the engine is, with what `installation` finds
//! - `access`: sessions of browsers and keys of programs

pub(in crate::http) mod access;
pub(in crate::http) mod configuration;
pub(in crate::http) mod installation;
pub(in crate::http) mod doctor;
pub(in crate::http) mod persona_file;
pub(in crate::http) mod persona_file_versions;
pub(in crate::http) mod personas;
pub(in crate::http) mod schedule;
