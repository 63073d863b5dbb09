//! What a package installs beside the binary, made from the command line itself.
//!
//! - `completions`: completion of a shell
//! - `man`: pages of the manual
//!
//! Absent on purpose: where a package puts them; `packaging/` says that.

mod completions;
mod man;

pub use completions::Completions;
pub use man::Man;
