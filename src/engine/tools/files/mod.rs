//! Tools on the persona's folder. In reading order:
//!
//! - `folder`: the folder as tools may use it
//! - `list_files`: the smallest tool; copy it to start a new one
//! - `read_file`
//! - `walk`: all files of the folder, bounded
//! - `glob`, `grep`
//! - `change`: a change of one file, which survives a crash
//! - `write_file`, `edit_file`
//!
//! Not here: the versions and the quota of the workspace (`store::files`).

pub mod folder;
pub mod walk;
pub mod change;
pub mod edit_file;
pub mod glob;
pub mod grep;
pub mod list_files;
pub mod read_file;
pub mod write_file;
