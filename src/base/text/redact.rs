//! Masks keys in texts of providers: some quote the key that they refuse.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use std::ops::Range;

pub const MASK: &str = "[redacted]";
/// Beginnings of the vendors' keys, and the text before a key in a header.
const KEY_STARTS: &[&str] = &["sk-", "AIza", "xai-", "gsk_", "Bearer "];
/// Shortest key; shorter runs are words such as `sk-abc`.
pub const KEY_LEN_MIN: usize = 8;
/// Shortest beginning of a secret that is no ordinary word.
const PART_LEN_MIN: usize = 10;

/// Masks everything that looks like a key.
pub fn key_shapes(text: &str) -> String {
    KEY_STARTS
        .iter()
        .fold(text.to_owned(), |text, start| mask_runs(&text, start))
}

/// Masks one secret, also as encoded in URLs and base64, and its longest prefix in the text: a text
/// may have been cut inside it. An empty or very short secret is left alone: it would mask ordinary
/// letters.
pub fn exact(text: &str, secret: &str) -> String {
    if secret.len() < KEY_LEN_MIN {
        return text.to_owned();
    }
    let formatted = [in_a_url(secret), STANDARD_NO_PAD.encode(secret)];
    let text = formatted
        .iter()
        .fold(text.to_owned(), |text, form| text.replace(form, MASK));
    // A short secret is only masked whole.
    let telling = if secret.len() >= 2 * PART_LEN_MIN {
        secret.get(..PART_LEN_MIN)
    } else {
        None
    };
    mask_beginnings(&text, secret, telling.unwrap_or(secret))
}

fn mask_beginnings(text: &str, secret: &str, telling: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(telling) {
        let (before, found) = rest.split_at(at);
        let same = found
            .bytes()
            .zip(secret.bytes())
            .take_while(|(a, b)| a == b)
            .count();
        out.push_str(before);
        out.push_str(MASK);
        rest = &found[found.floor_char_boundary(same)..];
    }
    out + rest
}

/// Encodes for a URL. RFC 3986, section 2.3: everything but the unreserved characters is escaped.
fn in_a_url(secret: &str) -> String {
    let unreserved = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    let spell = |byte: u8| {
        if unreserved(&byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    secret.bytes().map(spell).collect()
}

/// Reports whether a text holds anything that looks like a key.
pub fn has_key(text: &str) -> bool {
    !key_places(text.as_bytes()).is_empty()
}

/// Words for a password, as people write them in letters.
const PASSWORD_WORDS: [&str; 14] = [
    "password",
    "passwort",
    "passcode",
    "passphrase",
    "kennwort",
    "pin",
    "pin-code",
    "passwd",
    "pwd",
    "contraseña",
    "wachtwoord",
    "lösenord",
    "heslo",
    "hasło",
];

/// Words that stand between a word for a password and the password.
const COPULAS: [&str; 14] = [
    "is", "was", "ist", "lautet", "war", "est", "es", "è", "jest", "now", "jetzt", "still",
    "again", "wieder",
];

/// Reports whether a text tells a password: a word for one, and behind it, or behind `is`, a word that is no usual one: in quotation
/// marks, or with a digit or a sign in it. After a colon or an equals sign every word counts.
pub fn names_password(text: &str) -> bool {
    let lower = text.to_lowercase().replace("mot de passe", "password");
    let lower = lower.replace("=", " = ").replace("código pin", "pin");
    let words: Vec<&str> = lower.split_whitespace().collect();
    let bare = |word: &str| -> String {
        let edges = |c: char| !c.is_alphanumeric() && c != '-';
        word.trim_matches(edges).to_owned()
    };
    let is_unusual = |word: &str| {
        let inner = word.trim_matches(|c: char| "\"'`«»„“”.,;!?()".contains(c));
        let is_quoted = word.starts_with(['"', '\'', '`', '«', '„', '“']);
        inner.chars().count() >= 3
            && (is_quoted
                || inner.contains(|c: char| c.is_ascii_digit() || "_#$%&*+@^!".contains(c)))
    };
    words.iter().enumerate().any(|(at, word)| {
        if !PASSWORD_WORDS.contains(&bare(word).as_str()) {
            return false;
        }
        let next: Vec<&str> = words[at + 1..].iter().take(7).copied().collect();
        let is_sign = |word: &&str| word.ends_with(':') || *word == "=";
        // `password for the network: …`
        let after_sign = match word.ends_with(':') {
            true => Some(0),
            false => next.iter().position(is_sign).map(|sign| sign + 1),
        };
        let is_copula = |word: &&str| COPULAS.contains(word);
        let after_copula = match next.iter().position(is_copula) {
            Some(first) => {
                first
                    + next[first..]
                        .iter()
                        .take_while(|word| is_copula(word))
                        .count()
            }
            None => 0,
        };
        after_sign.is_some_and(|at| next.get(at).is_some())
            || next.get(after_copula).is_some_and(|word| is_unusual(word))
    })
}

/// Returns the ranges of everything that looks like a key; ranges may overlap.
pub fn key_places(bytes: &[u8]) -> Vec<Range<usize>> {
    KEY_STARTS
        .iter()
        .flat_map(|start| runs(bytes, start))
        .collect()
}

fn mask_runs(text: &str, start: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    // A range begins and ends next to ASCII, so that every piece is whole.
    for place in runs(text.as_bytes(), start) {
        out.push_str(text.get(at..place.start).unwrap_or_default());
        out.push_str(MASK);
        at = place.end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

fn runs(bytes: &[u8], start: &str) -> Vec<Range<usize>> {
    let in_key = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.*".contains(byte);
    let (mut places, mut at) = (Vec::new(), 0);
    while let Some(offset) = bytes[at..]
        .windows(start.len())
        .position(|window| window == start.as_bytes())
    {
        let (begin, inside) = (at + offset, at + offset + start.len());
        let length = bytes[inside..]
            .iter()
            .take_while(|byte| in_key(byte))
            .count();
        let in_word = start != "Bearer " && begin > 0 && bytes[begin - 1].is_ascii_alphanumeric();
        at = inside;
        if length >= KEY_LEN_MIN && !in_word {
            at += length;
            places.push(begin..at);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_masked_and_words_are_not() {
        let cases = [
            (
                "Incorrect API key provided: sk-proj-abc***xyz1. See",
                "Incorrect API key provided: [redacted] See",
            ),
            ("got `Bearer abcdef123456`", "got `[redacted]`"),
            (
                "AIzaSyA1234567890, sk-ant-api03-xxxxxxxx",
                "[redacted], [redacted]",
            ),
            (
                "a risk-assessment of task-management",
                "a risk-assessment of task-management",
            ),
            ("sk-short and Bearer of news", "sk-short and Bearer of news"),
            ("ünï sk-", "ünï sk-"),
        ];
        for (text, expected) in cases {
            assert_eq!(key_shapes(text), expected);
        }
        assert_eq!(
            exact("key hunter2hunter2!", "hunter2hunter2"),
            "key [redacted]!"
        );
        assert_eq!(exact("abc", ""), "abc");
    }

    #[test]
    fn a_password_in_words_is_seen_and_words_about_passwords_are_not() {
        for given in [
            "My password is hunter2-XyZ-9981",
            "The password for the guest network is Sommer2026!",
            "PIN 4711",
            "Carol's PIN is now 48-22-11.",
            "Passwort: Apfelbaum",
            "Das Kennwort lautet zebra_7",
            "Le mot de passe est soleil99",
            "La contraseña es luna#12",
            "wifi password = cheese",
            "The passphrase is \"correct horse battery\"",
            "passcode for the door: maple",
        ] {
            assert!(names_password(given), "{given}");
        }
        for about in [
            "Carol forgot her password.",
            "The password is changed every 90 days.",
            "Prefers a password manager.",
            "The PIN pad is in room 4711.",
            "He asked how to reset a password in 2026.",
            "Wants a pin with the logo of 1994.",
        ] {
            assert!(!names_password(about), "{about}");
        }
    }

    #[test]
    fn a_secret_is_masked_however_spelt_and_wherever_a_text_ends() {
        let secret = "zq9hunter2+secret/KEY==";
        for text in [
            secret,
            "zq9hunter2%2Bsecret%2FKEY%3D%3D",
            "enE5aHVudGVyMitzZWNyZXQvS0VZPT0=",
            "zq9hunter2+s***",
        ] {
            let clean = exact(&format!("got {text} ü"), secret);
            assert!(
                clean.starts_with("got [redacted]") && clean.len() < 27,
                "{clean}"
            );
        }
        for end in PART_LEN_MIN..=secret.len() {
            assert_eq!(
                exact(&format!("got {}", &secret[..end]), secret),
                "got [redacted]"
            );
        }
        assert_eq!(
            exact("zq9hunter, hunter2hunter", "hunter2hunter2"),
            "zq9hunter, hunter2hunter"
        );
    }
}
