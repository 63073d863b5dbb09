//! Address patterns: `*` stands for any text, `?` for one character; case is ignored.

use crate::config::security::Access;
use crate::domain::Address;

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

/// Matches `*` (any run of bytes) and `?` (any one byte); worst-case time is proportional to the
/// product of the lengths.
fn glob_matches(glob: &str, text: &str) -> bool {
    let (glob, text) = (glob.as_bytes(), text.as_bytes());
    let (mut g, mut t) = (0, 0);
    // Offset after the last star, and the end of the text that the star matches.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match glob.get(g) {
            Some(b'*') => {
                retry = Some((g + 1, t));
                g += 1;
            }
            Some(&c) if c == b'?' || c == text[t] => {
                g += 1;
                t += 1;
            }
            _ => match retry {
                None => return false,
                Some((behind, swallowed)) => {
                    retry = Some((behind, swallowed + 1));
                    (g, t) = (behind, swallowed + 1);
                }
            },
        }
    }
    glob[g..].iter().all(|&c| c == b'*')
}
