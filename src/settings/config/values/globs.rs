//! Address patterns: `*` stands for any text, `?` for one character; case is ignored.

use crate::config::security::Access;
use crate::domain::Address;
use crate::text::glob_matches;

impl Access {
    /// Reports whether `allow` matches this address. Conclusive only for an authenticated sender.
    pub fn allows(&self, address: &Address) -> bool {
        matches_any(&self.allow, address)
    }
    /// Reports whether `deny` matches this address.
    pub fn denies(&self, address: &Address) -> bool {
        matches_any(&self.deny, address)
    }
}

fn matches_any(globs: &[String], address: &Address) -> bool {
    let key = address.key();
    globs
        .iter()
        .any(|glob| glob_matches(&glob.to_ascii_lowercase(), &key))
}
