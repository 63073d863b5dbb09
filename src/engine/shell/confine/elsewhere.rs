//! No second layer: a system on which no command is run.

use crate::shell::limits::CommandLimits;
use std::io;
use std::path::Path;

/// Errors: always.
pub fn confine(
    _limits: &CommandLimits,
    _writable: &[&Path],
    _removable: &[&Path],
) -> io::Result<bool> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}
