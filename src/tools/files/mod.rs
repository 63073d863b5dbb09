//! Tools on the persona's folder. In reading order:
//!
//! - `folder`: the folder as tools may use it
//! - `list_files`: the smallest tool; copy it to start a new one
//! - `read_file`

pub mod folder;
pub mod list_files;
pub mod read_file;
