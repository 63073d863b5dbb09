//! Pages about the workspace: personas, the schedule, the configuration, the state of the engine, who has access.

pub(in crate::http) mod access;
pub(in crate::http) mod configuration;
pub(in crate::http) mod doctor;
pub(in crate::http) mod persona_file;
pub(in crate::http) mod persona_file_versions;
pub(in crate::http) mod personas;
pub(in crate::http) mod schedule;
