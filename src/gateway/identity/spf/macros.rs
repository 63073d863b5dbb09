//! Macro strings of SPF (RFC 7208 section 7). Pure.

/// A well-formed macro string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MacroString(Vec<MacroPart>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum MacroPart {
    Literal(String),
    Macro(Macro),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Macro {
    /// Lower case.
    letter: char,
    /// `true`: written in upper case, so that the value is URL-escaped.
    escape: bool,
    /// Number of parts to keep, counted from the right; 0 keeps all.
    keep: usize,
    reverse: bool,
    delimiters: String,
}

/// Values of the macro letters.
pub struct Values<'a> {
    /// `s`: the sender.
    pub sender: &'a str,
    /// `d`: the domain whose record is evaluated.
    pub domain: &'a str,
    /// `i`: the client's address in the format used in names.
    pub ip: &'a str,
    /// `v`: `in-addr` or `ip6`.
    pub family: &'a str,
    /// `h`: the client's HELO name.
    pub helo: &'a str,
    /// `p`: the client's validated name, or `unknown`.
    pub validated: &'a str,
}

impl MacroString {
    pub fn parse(text: &str) -> Option<Self> {
        let (mut pieces, mut literal) = (Vec::new(), String::new());
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            if c != '%' {
                if !c.is_ascii_graphic() {
                    return None;
                }
                literal.push(c);
                continue;
            }
            let kind = rest.chars().next()?;
            rest = &rest[kind.len_utf8()..];
            match kind {
                '%' => literal.push('%'),
                '_' => literal.push(' '),
                '-' => literal.push_str("%20"),
                '{' => {
                    let (inside, after) = rest.split_once('}')?;
                    if !literal.is_empty() {
                        pieces.push(MacroPart::Literal(std::mem::take(&mut literal)));
                    }
                    pieces.push(MacroPart::Macro(Macro::parse(inside)?));
                    rest = after;
                }
                _ => return None,
            }
        }
        if !literal.is_empty() {
            pieces.push(MacroPart::Literal(literal));
        }
        Some(Self(pieces))
    }

    /// Parses a `domain-spec`: it ends in a macro or in a dot and a name that can be a top-level
    /// domain.
    pub fn domain(text: &str) -> Option<Self> {
        let parsed = Self::parse(text)?;
        match parsed.0.last()? {
            MacroPart::Macro(_) => Some(parsed),
            MacroPart::Literal(literal) => {
                let literal = literal.strip_suffix('.').unwrap_or(literal);
                let (_, top) = literal.rsplit_once('.')?;
                is_top_label(top).then_some(parsed)
            }
        }
    }

    pub fn uses_validated_name(&self) -> bool {
        self.0
            .iter()
            .any(|piece| matches!(piece, MacroPart::Macro(Macro { letter: 'p', .. })))
    }

    /// Expands to a name to look up, without a final dot, truncated on the left to 253 octets
    /// (section 7.3).
    pub fn name(&self, values: &Values<'_>) -> String {
        let mut name = String::new();
        for piece in &self.0 {
            match piece {
                MacroPart::Literal(literal) => name.push_str(literal),
                MacroPart::Macro(inside) => name.push_str(&inside.expand(values)),
            }
        }
        let mut name = name.strip_suffix('.').unwrap_or(&name);
        while name.len() > 253 {
            match name.split_once('.') {
                Some((_, shorter)) => name = shorter,
                None => break,
            }
        }
        name.to_owned()
    }
}

/// Reports whether a label is a `toplabel`: letters, digits and hyphens, not all digits, no hyphen
/// at either end.
fn is_top_label(label: &str) -> bool {
    !label.is_empty()
        && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        && !label.chars().all(|c| c.is_ascii_digit())
        && !label.starts_with('-')
        && !label.ends_with('-')
}

impl Macro {
    fn parse(inside: &str) -> Option<Self> {
        let first = inside.chars().next()?;
        let letter = first.to_ascii_lowercase();
        // `c`, `r` and `t` are for explanations, which are not evaluated here.
        if !matches!(letter, 's' | 'l' | 'o' | 'd' | 'i' | 'p' | 'h' | 'v') {
            return None;
        }
        let rest = &inside[1..];
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (count, rest) = rest.split_at(digits);
        let keep = match count {
            "" => 0,
            // No name has more labels; a larger number keeps all.
            count => Some(count.parse::<usize>().unwrap_or(usize::MAX)).filter(|n| *n > 0)?,
        };
        let reverse = rest.starts_with(['r', 'R']);
        let delimiters = if reverse { &rest[1..] } else { rest };
        let legal = |c: char| matches!(c, '.' | '-' | '+' | ',' | '/' | '_' | '=');
        delimiters.chars().all(legal).then(|| Self {
            letter,
            escape: first.is_ascii_uppercase(),
            keep,
            reverse,
            delimiters: if delimiters.is_empty() {
                ".".to_owned()
            } else {
                delimiters.to_owned()
            },
        })
    }

    fn expand(&self, values: &Values<'_>) -> String {
        let (local, sender_domain) = values
            .sender
            .rsplit_once('@')
            .unwrap_or(("postmaster", values.sender));
        let value = match self.letter {
            's' => values.sender,
            'l' => local,
            'o' => sender_domain,
            'd' => values.domain,
            'i' => values.ip,
            'v' => values.family,
            'h' => values.helo,
            _ => values.validated,
        };
        let mut parts: Vec<&str> = value.split(|c| self.delimiters.contains(c)).collect();
        if self.reverse {
            parts.reverse();
        }
        let dropped = if self.keep == 0 {
            0
        } else {
            parts.len().saturating_sub(self.keep)
        };
        let joined = parts[dropped..].join(".");
        if self.escape {
            url_escaped(&joined)
        } else {
            joined
        }
    }
}

fn url_escaped(text: &str) -> String {
    let is_unreserved = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~');
    let escape = |b: u8| {
        if is_unreserved(b) {
            char::from(b).to_string()
        } else {
            format!("%{b:02X}")
        }
    };
    text.bytes().map(escape).collect()
}
