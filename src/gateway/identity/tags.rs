//! Strict parser for tag lists of DKIM and ARC (RFC 6376 section 3.2). Pure.
//!
//! The library parses them leniently: of a repeated tag it takes the last, an absent algorithm
//! becomes its default, letter case is ignored. A list that two verifiers may read differently
//! proves nothing here.

/// A tag list without repeated names.
pub struct Tags<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Tags<'a> {
    /// Parses a tag list; `None` when it breaks the grammar.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        // A final semicolon is permitted.
        let text = text.trim_matches(is_blank);
        let text = text.strip_suffix(';').unwrap_or(text);
        let mut tags = Self(Vec::new());
        for spec in text.split(';') {
            let (name, value) = spec.split_once('=')?;
            let (name, value) = (name.trim_matches(is_blank), value.trim_matches(is_blank));
            let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            // Beyond ASCII since RFC 8616.
            let is_value = value
                .chars()
                .all(|c| is_blank(c) || !(c.is_control() || c.is_whitespace()));
            if !is_name || !is_value || tags.get(name).is_some() {
                return None;
            }
            tags.0.push((name, value));
        }
        Some(tags)
    }

    /// A value without surrounding blanks.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.0
            .iter()
            .find(|(found, _)| *found == name)
            .map(|(_, value)| *value)
    }

    /// Reports whether all of these tags are present and not empty.
    pub fn have(&self, names: &[&str]) -> bool {
        names
            .iter()
            .all(|name| self.get(name).is_some_and(|value| !value.is_empty()))
    }

    /// The words of a value, separated by colons.
    pub fn words(&self, name: &str) -> Option<impl Iterator<Item = &'a str> + use<'a>> {
        self.get(name)
            .map(|value| value.split(':').map(|word| word.trim_matches(is_blank)))
    }

    /// A value that consists of digits only.
    pub fn number(&self, name: &str) -> Option<u64> {
        let value = self.get(name)?;
        value
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| value.parse().ok())
            .flatten()
    }

    fn first(&self) -> Option<(&'a str, &'a str)> {
        self.0.first().copied()
    }

    /// Reports whether a signature names its algorithm and the algorithm is still permitted (RFC
    /// 8301 section 3.1).
    pub fn has_sound_algorithm(&self) -> bool {
        matches!(self.get("a"), Some("rsa-sha256" | "ed25519-sha256"))
    }

    /// Reports whether a key record is valid for mail signed with SHA-256 (RFC 6376 section 3.6.1).
    pub fn is_mail_key(&self) -> bool {
        let version_ok = match self.get("v") {
            None => true,
            Some(_) => self.first() == Some(("v", "DKIM1")),
        };
        let hash_ok = self
            .words("h")
            .is_none_or(|mut words| words.any(|word| word == "sha256"));
        let service_ok = self
            .words("s")
            .is_none_or(|mut words| words.any(|word| matches!(word, "*" | "email")));
        version_ok && hash_ok && service_ok
    }
}

/// Reports whether a character is folding white space.
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_each_tag_once_under_a_proper_name() {
        let tags = Tags::parse(b" a = rsa-sha256;\r\n\th=From :\r\n To;x_1=;").expect("a list");
        assert_eq!(
            (tags.get("a"), tags.get("x_1"), tags.get("b")),
            (Some("rsa-sha256"), Some(""), None)
        );
        assert_eq!(
            tags.words("h").map(Iterator::collect),
            Some(vec!["From", "To"])
        );
        assert!(tags.have(&["a", "h"]) && !tags.have(&["a", "x_1"]));
        for bad in [
            "",
            ";",
            "a=1;;b=2",
            "a=1; a=1",
            "a",
            "=1",
            "1a=1",
            "a b=1",
            "a=1;b",
            "a=\u{7f}",
            "a=1\u{85}",
        ] {
            assert!(Tags::parse(bad.as_bytes()).is_none(), "{bad:?}");
        }
        assert!(
            Tags::parse(b"a=1;A=2").is_some_and(|tags| tags.get("a") == Some("1")),
            "names have a case"
        );
    }

    #[test]
    fn a_key_says_what_it_is_for() {
        let is_key =
            |text: &str| Tags::parse(text.as_bytes()).is_some_and(|tags| tags.is_mail_key());
        for good in [
            "p=AA",
            "v=DKIM1; p=AA",
            "h=sha1:sha256; p=AA",
            "s=email; p=AA",
            "s=x : *; p=AA",
            "v=DKIM1; n=a b; p=AA;",
        ] {
            assert!(is_key(good), "{good}");
        }
        for bad in [
            "h=sha1; p=AA",
            "h=; p=AA",
            "h=sha512; p=AA",
            "s=tlsrpt; p=AA",
            "p=AA; v=DKIM1",
            "v=DKIM2; p=AA",
            "p=AA; p=BB",
        ] {
            assert!(!is_key(bad), "{bad}");
        }
    }
}
