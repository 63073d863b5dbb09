//! No lock: a system on which nothing is decoded.

use crate::extract::limits::ExtractLimits;
use std::io;

/// Does nothing; [`lock`] refuses.
pub fn bound(_limits: &ExtractLimits) -> io::Result<()> {
    Ok(())
}

/// Errors: always.
pub fn lock() -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}
