//! Hosts that a text names.

use super::entities::decoded;
use super::links::{is_between_words, named_place};
use std::collections::BTreeSet;

/// Most hosts that are found in one text.
const HOSTS_MAX: usize = 1_000;

/// Returns the hosts that a text, or the HTML beside it, names by a link or by name, in lower case.
pub fn named_hosts(text: &str, html: Option<&str>) -> BTreeSet<String> {
    let html = html.map(decoded).unwrap_or_default();
    let words = text.split(is_between_words);
    let words = words.chain(html.split(is_between_words));
    let hosts = words.map(without_scheme).filter_map(named_place);
    let mut found = BTreeSet::new();
    for host in hosts.filter(|host| !host.is_empty() && !host.contains('@')) {
        if found.len() == HOSTS_MAX {
            break;
        }
        found.insert(host);
    }
    found
}

/// Returns a reference without a scheme (`//host/path`, RFC 3986 section 4.2) from its host on.
fn without_scheme(word: &str) -> &str {
    match word.split_once("//") {
        Some((before, rest)) if !before.ends_with(':') => rest,
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_that_a_text_names_is_found() {
        let text = "See https://click.evil.test/t/1?x=a@b and (www.other.test), not eve@mail.test.\nHTTP://UP.test:80";
        let html = "<a href=\"https&#58;//hidden.test\">x</a><img src='//cdn.test/p.gif'><a href=http://bare.test/y>";
        let found: Vec<_> = named_hosts(text, Some(html)).into_iter().collect();
        let known = [
            "bare.test",
            "cdn.test",
            "click.evil.test",
            "hidden.test",
            "up.test",
            "www.other.test",
        ];
        assert_eq!(found, known);
    }
}
