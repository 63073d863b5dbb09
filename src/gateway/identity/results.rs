//! `Authentication-Results` (RFC 8601): parses received fields, writes ours. Pure.

use std::fmt::Write;

/// Maximum bytes of a field that are parsed.
const FIELD_BYTES_MAX: usize = 16 * 1024;
/// Maximum methods of one field that are parsed.
const METHODS_MAX: usize = 100;

/// One parsed field.
#[derive(Debug, PartialEq, Eq)]
pub struct Results {
    /// Lower case.
    pub authserv_id: String,
    /// `None`: the text after the id breaks the grammar, so that none of it counts.
    pub methods: Option<Vec<Method>>,
}

/// `method=result` with its `ptype.property=value`s, all in lower case.
#[derive(Debug, PartialEq, Eq)]
pub struct Method {
    pub name: String,
    pub result: String,
    pub properties: Vec<(String, String)>,
}

impl Method {
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}

impl Results {
    /// Parses a field's value; `None` when even its id cannot be parsed.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let words = words(value.get(..FIELD_BYTES_MAX).unwrap_or(value))?;
        let mut sections = words.split(|word| *word == ResultWord::Semicolon);
        let id = sections.next()?;
        let (ResultWord::Text(id), version) = (id.first()?, &id[1..]) else {
            return None;
        };
        let version_ok =
            matches!(version, []) || matches!(version, [ResultWord::Text(v)] if v == "1");
        let is_whole = version_ok && value.len() <= FIELD_BYTES_MAX;
        let methods = sections
            .take(METHODS_MAX)
            .filter(|section| !section.is_empty())
            .map(method);
        let methods = methods.collect::<Option<Vec<_>>>().filter(|_| is_whole);
        let methods = methods.map(|methods| methods.into_iter().flatten().collect());
        Some(Self {
            authserv_id: id.to_ascii_lowercase(),
            methods,
        })
    }
}

/// `Some(None)` is the word `none`: no check was made.
fn method(section: &[ResultWord]) -> Option<Option<Method>> {
    if let [ResultWord::Text(none)] = section {
        return none.eq_ignore_ascii_case("none").then_some(None);
    }
    let [
        ResultWord::Text(name),
        ResultWord::Equals,
        ResultWord::Text(result),
        rest @ ..,
    ] = section
    else {
        return None;
    };
    // `method/version`
    let name = name
        .split('/')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let mut properties = Vec::new();
    let mut rest = rest;
    while let [
        ResultWord::Text(key),
        ResultWord::Equals,
        ResultWord::Text(value),
        after @ ..,
    ] = rest
    {
        properties.push((key.to_ascii_lowercase(), value.to_ascii_lowercase()));
        rest = after;
    }
    rest.is_empty().then(|| {
        Some(Method {
            name,
            result: result.to_ascii_lowercase(),
            properties,
        })
    })
}

#[derive(Debug, PartialEq, Eq)]
enum ResultWord {
    Text(String),
    Equals,
    Semicolon,
}

/// Splits a value into words, without comments and folding; `None` for an unterminated quote or
/// comment, or a control character.
fn words(value: &[u8]) -> Option<Vec<ResultWord>> {
    let text = std::str::from_utf8(value).ok()?;
    let (mut words, mut chars) = (Vec::new(), text.chars().peekable());
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\r' | '\n' => {}
            ';' => words.push(ResultWord::Semicolon),
            '=' => words.push(ResultWord::Equals),
            '(' => skip_comment(&mut chars)?,
            '"' => {
                let mut quoted = String::new();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '\\' => quoted.push(chars.next()?),
                        other => quoted.push(other),
                    }
                }
                words.push(ResultWord::Text(quoted));
            }
            c if c.is_control() => return None,
            first => {
                let mut word = String::from(first);
                while let Some(next) = chars.next_if(|c| {
                    !c.is_whitespace() && !c.is_control() && !matches!(c, ';' | '=' | '(' | '"')
                }) {
                    word.push(next);
                }
                words.push(ResultWord::Text(word));
            }
        }
    }
    Some(words)
}

fn skip_comment(chars: &mut impl Iterator<Item = char>) -> Option<()> {
    let mut depth = 1;
    while depth > 0 {
        match chars.next()? {
            '(' => depth += 1,
            ')' => depth -= 1,
            '\\' => _ = chars.next()?,
            _ => {}
        }
    }
    Some(())
}

/// Our own results, one method after the other.
#[derive(Debug, Default)]
pub struct AuthenticationReport(String);

impl AuthenticationReport {
    /// Adds `method=result (reason) key=value …`. Reasons are ours; values may come from the
    /// letter.
    pub fn add(&mut self, method: &str, result: &str, reason: &str, properties: &[(&str, &str)]) {
        if !self.0.is_empty() {
            self.0.push_str("; ");
        }
        // Writing into a String cannot fail.
        let _ = write!(self.0, "{method}={result}");
        if !reason.is_empty() {
            let _ = write!(self.0, " ({reason})");
        }
        for (key, value) in properties {
            let _ = write!(self.0, " {key}={}", bare(value));
        }
    }
    /// The field's value, which begins with our authserv-id.
    pub fn signed(self, authserv_id: &str) -> String {
        if self.0.is_empty() {
            String::new()
        } else {
            format!("{authserv_id}; {}", self.0)
        }
    }
}

/// Characters that a value may have without quotes, truncated to the maximum length of a name.
fn bare(value: &str) -> String {
    let legal =
        |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '@' | '+' | ':');
    value.chars().filter(legal).take(253).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Vec<String>> {
        let results = Results::parse(text.as_bytes())?;
        let shown = |m: &Method| {
            let properties = m
                .properties
                .iter()
                .map(|(k, v)| format!(" {k}={v}"))
                .collect::<String>();
            format!("{}={}{properties}", m.name, m.result)
        };
        results
            .methods
            .map(|methods| methods.iter().map(shown).collect())
    }

    #[test]
    fn fields_of_other_programs_are_read() {
        let opendmarc = "MX.example; dmarc=pass (p=reject dis=none) header.from=partner.test";
        assert_eq!(
            read(opendmarc),
            Some(vec!["dmarc=pass header.from=partner.test".to_owned()])
        );
        let opendkim = "mx.example;\r\n\tdkim=pass (2048-bit key; unprotected) header.d=partner.test \
            header.i=@partner.test header.a=rsa-sha256 header.s=s1 header.b=\"a;b\"";
        let wanted = "dkim=pass header.d=partner.test header.i=@partner.test header.a=rsa-sha256 header.s=s1 \
            header.b=a;b";
        assert_eq!(read(opendkim), Some(vec![wanted.to_owned()]));
        assert_eq!(read("mx.example 1; none"), Some(vec![]));
        assert_eq!(
            read("mx.example; dkim=none"),
            Some(vec!["dkim=none".to_owned()])
        );
    }

    #[test]
    fn what_is_not_the_grammar_says_nothing() {
        for bad in [
            "mx.example; dkim",
            "mx.example; dkim=pass header.d",
            "mx.example 2; dkim=pass",
            "mx.example; =pass",
        ] {
            assert_eq!(read(bad), None, "{bad}");
            assert!(
                Results::parse(bad.as_bytes()).is_some_and(|r| r.authserv_id == "mx.example"),
                "{bad}"
            );
        }
        for unreadable in [
            "",
            ";",
            "mx.example; dkim=pass (open",
            "mx.example; dkim=\"pass",
            "mx\0.example; none",
        ] {
            assert_eq!(Results::parse(unreadable.as_bytes()), None, "{unreadable}");
        }
        // Text in a comment or in quotes is no result.
        assert_eq!(
            read("mx.example; spf=fail (; dkim=pass)"),
            Some(vec!["spf=fail".to_owned()])
        );
        assert_eq!(
            read("mx.example; spf=fail reason=\"; dkim=pass\""),
            Some(vec!["spf=fail reason=; dkim=pass".to_owned()])
        );
    }

    #[test]
    fn a_strangers_value_cannot_add_a_result() {
        let mut report = AuthenticationReport::default();
        report.add(
            "dkim",
            "fail",
            "",
            &[(
                "header.d",
                "x.test; dmarc=pass header.from=owner.test\r\nBcc: y",
            )],
        );
        let text = report.signed("mx.engine.test");
        let methods = Results::parse(text.as_bytes()).and_then(|results| results.methods);
        assert_eq!(methods.map(|methods| methods.len()), Some(1));
        assert!(!text.contains('\n'));
    }
}
