//! Names of objects.

use std::fmt;

/// Hexadecimal digits of a SHA-256.
const DIGEST_DIGITS: usize = 64;

/// Name of an object below the prefix of its store: `OWNER/ab/SHA256-PUT`. `OWNER` names the database, so that two of them in
/// one bucket do not sweep each other's objects; `ab` begins the SHA-256 of the bytes.
///
/// `PUT` is an id of the put alone. So no two rows ever share an object, and a name that is once without a row stays without
/// one: deleting it can never delete bytes that a transaction commits meanwhile. With names by digest alone, a second letter
/// with the same bytes could commit between the look for a row and the deletion, and would lose them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectName(String);

impl ObjectName {
    /// Makes the name of bytes with this SHA-256. `put`: an id that was never used before.
    pub fn new(owner: &str, sha256: &str, put: &str) -> Self {
        let shard = sha256.get(..2).unwrap_or("00");
        Self(format!("{owner}/{shard}/{sha256}-{put}"))
    }

    /// Takes the name that a row has.
    pub fn of_row(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the SHA-256 of the bytes, in hexadecimal digits; `None`: it is no name of ours.
    pub fn sha256(&self) -> Option<&str> {
        let last = self.0.rsplit('/').next()?;
        let (digest, put) = last.split_at_checked(DIGEST_DIGITS)?;
        let is_hex = digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_hex && put.starts_with('-')).then_some(digest)
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::sha256_hex;

    #[test]
    fn a_name_has_the_digest_of_its_bytes_and_is_never_that_of_another_put() {
        let digest = sha256_hex(&[b"bytes"]);
        let (first, second) = (
            ObjectName::new("cell", &digest, "1"),
            ObjectName::new("cell", &digest, "2"),
        );
        assert_ne!(first, second);
        assert_eq!(first.as_str(), format!("cell/{}/{digest}-1", &digest[..2]));
        assert_eq!(first.sha256(), Some(digest.as_str()));
        assert_eq!(ObjectName::of_row("cell/ab/readme.txt").sha256(), None);
    }
}
