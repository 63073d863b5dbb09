//! Compares the target of a link with its text.

/// Returns the place that a link leads to, when its text names another: a host, or for `mailto:` an
/// address. `None` when the text names no place, or only that one.
pub(in crate::mime) fn hidden_place(text: &str, target: &str) -> Option<String> {
    let place = place_of(target)?;
    let named: Vec<String> = text
        .split(is_between_words)
        .filter_map(named_place)
        .collect();
    let is_same = |named: &String| {
        bare(named) == bare(&place)
            || place
                .rsplit_once('@')
                .is_some_and(|(_, host)| named == host)
    };
    (!named.iter().all(is_same)).then_some(place)
}

pub(super) fn is_between_words(c: char) -> bool {
    c.is_whitespace() || matches!(c, '<' | '>' | '(' | ')' | '"' | '\'' | ',')
}

/// Returns the host or address of a target, lower case.
fn place_of(target: &str) -> Option<String> {
    let lower = target.trim().to_lowercase();
    if let Some(address) = lower.strip_prefix("mailto:") {
        return address.split('?').next().map(str::to_owned);
    }
    match lower.split_once("://") {
        Some((_, rest)) => Some(host(rest).to_owned()),
        // The target of `<m@x.test>` is its address.
        None => Some(lower),
    }
}

/// Returns the host of the text after `://`, as browsers read it: a backslash ends it too (URL
/// standard, authority state).
fn host(rest: &str) -> &str {
    let authority = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    host.rsplit_once(':')
        .filter(|(_, port)| is_port(port))
        .map_or(host, |(host, _)| host)
        .trim_end_matches('.')
}

/// Returns the place that a reader may see in a word: a URL, a host name, a mail address.
pub(super) fn named_place(word: &str) -> Option<String> {
    let word = word.to_lowercase();
    if let Some((_, rest)) = word.split_once("://") {
        return Some(host(rest).to_owned()).filter(|host| !host.is_empty());
    }
    let word = word.strip_prefix("mailto:").unwrap_or(&word);
    let is_address = word
        .split_once('@')
        .is_some_and(|(local, domain)| !local.is_empty() && is_name(domain));
    if is_address {
        return Some(word.trim_end_matches('.').to_owned());
    }
    let host = host(word);
    is_name(host).then(|| host.to_owned())
}

/// Reports whether a text has two labels or more, the last of letters.
fn is_name(text: &str) -> bool {
    let text = text.trim_end_matches(['.', '!', ':', ';']);
    let is_label = |label: &str| {
        !label.is_empty()
            && label
                .chars()
                .all(|c| c.is_alphanumeric() || c == '-' || c == '_')
    };
    let is_top = |label: &str| {
        label.chars().count() > 1 && label.chars().all(char::is_alphabetic)
            || label.starts_with("xn--")
    };
    text.rsplit_once('.')
        .is_some_and(|(front, top)| is_top(top) && front.split('.').all(is_label))
}

fn bare(host: &str) -> &str {
    let host = host.trim_end_matches(['.', '!', ':', ';']);
    host.strip_prefix("www.").unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_names_another_place_is_found_out() {
        let cases = [
            (
                "https://bank.example",
                "https://evil.test/phish",
                Some("evil.test"),
            ),
            (
                "bank.example",
                "https://bank.example@evil.test/",
                Some("evil.test"),
            ),
            (
                "see www.bank.example/login!",
                "http://evil.test:8080",
                Some("evil.test"),
            ),
            (
                "bank.example",
                "https://evil.test\\@bank.example/",
                Some("evil.test"),
            ),
            (
                "b\u{430}nk.example",
                "https://bank.example/",
                Some("bank.example"),
            ),
            (
                "bank.example",
                "https://login.bank.example/",
                Some("login.bank.example"),
            ),
            (
                "bank.example and bank.test",
                "https://bank.test",
                Some("bank.test"),
            ),
            (
                "ada@bank.example",
                "mailto:eve@evil.test?subject=x",
                Some("eve@evil.test"),
            ),
            ("https://bank.example", "https://BANK.example/x", None),
            ("www.bank.example.", "https://bank.example", None),
            ("bank.example:443/x", "https://bank.example/y", None),
            ("ada@bank.example", "mailto:Ada@bank.example", None),
            ("bank.example", "mailto:ada@bank.example", None),
            ("m@x.test", "m@x.test", None),
            ("the terms, as of 1.5.2026", "https://evil.test", None),
            ("click here", "https://evil.test", None),
        ];
        for (text, target, place) in cases {
            assert_eq!(
                hidden_place(text, target).as_deref(),
                place,
                "{text} -> {target}"
            );
        }
    }
}
