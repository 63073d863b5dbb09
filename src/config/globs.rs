//! Address patterns: `*` stands for any text, `?` for one character, and case means nothing.

use super::settings::Access;
use crate::domain::Address;

impl Access {
    /// Whether `allow` names this address. Only worth something if the address is known to be the sender's.
    pub fn allows(&self, address: &Address) -> bool {
        matches_any(&self.allow, address)
    }
    /// Whether `deny` names this address.
    pub fn denies(&self, address: &Address) -> bool {
        matches_any(&self.deny, address)
    }
}

fn matches_any(globs: &[String], address: &Address) -> bool {
    let key = address.key();
    globs.iter().any(|glob| glob_matches(&glob.to_ascii_lowercase(), &key))
}

/// Matches `*` (any run) and `?` (any one byte) in time proportional to the product of the lengths at worst.
fn glob_matches(glob: &str, text: &str) -> bool {
    let (glob, text) = (glob.as_bytes(), text.as_bytes());
    let (mut g, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None; // behind the last star, and the text it has swallowed up to
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
