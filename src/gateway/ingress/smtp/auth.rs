//! AUTH PLAIN and LOGIN (RFC 4616, draft-murchison-sasl-login): decodes a client's messages and
//! looks up its credentials. Pure.

use crate::config::Submitter;
use crate::domain::Address;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

/// A user name and a password from a client.
pub struct Credentials {
    pub user: Vec<u8>,
    pub password: Vec<u8>,
}

/// Decodes one line of an exchange. `None`: not Base64.
pub fn decode(line: &[u8]) -> Option<Vec<u8>> {
    STANDARD.decode(line).ok()
}

/// Parses a PLAIN message, `authzid NUL authcid NUL password`. `None`: malformed, or with an
/// authzid of another user.
pub fn plain(message: &[u8]) -> Option<Credentials> {
    let mut parts = message.split(|byte| *byte == 0);
    let (acting_as, user, password) = (parts.next()?, parts.next()?, parts.next()?);
    let is_whole = parts.next().is_none() && !user.is_empty();
    let is_self = acting_as.is_empty() || acting_as == user;
    (is_whole && is_self).then(|| Credentials {
        user: user.to_vec(),
        password: password.to_vec(),
    })
}

/// All users that may log in.
pub struct Submitters {
    /// Digest of user and password, and the address of the user.
    known: Vec<([u8; 32], Address)>,
}

impl Submitters {
    pub fn new(submission: &[Submitter]) -> Self {
        let known = submission.iter().map(|one| {
            let password = one.password.expose_secret().as_bytes();
            (digest(one.user.as_bytes(), password), one.address.clone())
        });
        Self {
            known: known.collect(),
        }
    }

    /// Finds the address of credentials. Every entry is compared completely: the time reveals
    /// neither a user's name nor the number of correct characters of a password.
    pub fn find(&self, credentials: &Credentials) -> Option<&Address> {
        let typed = digest(&credentials.user, &credentials.password);
        let mut found = None;
        for (known, address) in &self.known {
            let is_equal: Choice = known.ct_eq(&typed);
            if is_equal.into() {
                found = Some(address);
            }
        }
        found
    }
}

/// One digest of both, preceded by the length of the user name, so that no two pairs have the same
/// text.
fn digest(user: &[u8], password: &[u8]) -> [u8; 32] {
    let length = u64::try_from(user.len()).unwrap_or(u64::MAX).to_be_bytes();
    Sha256::new()
        .chain_update(length)
        .chain_update(user)
        .chain_update(password)
        .finalize()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(message: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        plain(message).map(|credentials| (credentials.user, credentials.password))
    }

    #[test]
    fn a_plain_message_has_three_parts_and_speaks_for_its_own_user() {
        assert_eq!(
            read(b"\0olga\0pa ss"),
            Some((b"olga".to_vec(), b"pa ss".to_vec()))
        );
        assert_eq!(
            read(b"olga\0olga\0x"),
            Some((b"olga".to_vec(), b"x".to_vec()))
        );
        for bad in [
            b"".as_slice(),
            b"\0",
            b"olga\0x",
            b"\0\0x",
            b"bob\0olga\0x",
            b"\0olga\0x\0",
            b"\0olga\0x\0y",
        ] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn only_the_whole_pair_is_somebody() {
        let one = |user: &str, password: &str| Submitter {
            user: user.to_owned(),
            address: Address::parse(&format!("{}@home.test", user.to_lowercase())).unwrap(),
            password: password.to_owned().into(),
        };
        let submitters = Submitters::new(&[one("olga", "secret"), one("Pia", "")]);
        let find = |user: &[u8], password: &[u8]| {
            let credentials = Credentials {
                user: user.to_vec(),
                password: password.to_vec(),
            };
            submitters.find(&credentials).map(Address::to_string)
        };
        assert_eq!(find(b"olga", b"secret"), Some("olga@home.test".to_owned()));
        let wrong: [(&[u8], &[u8]); 7] = [
            (b"olga", b"Secret"),
            (b"olga", b"secre"),
            (b"olga", b""),
            (b"olgas", b"ecret"),
            (b"Olga", b"secret"),
            (b"", b"olgasecret"),
            (b"pia", b"secret"),
        ];
        for (user, password) in wrong {
            assert_eq!(find(user, password), None, "{user:?} {password:?}");
        }
    }
}
