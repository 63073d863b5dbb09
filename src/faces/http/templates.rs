//! Templates of the pages, in the binary, and the filters by which values become text.
//!
//! Every value is escaped. What others wrote goes through `foreign` (one line) or `visible` (a text), which write out the
//! characters that hide or reorder others; `foreign` sets it apart from the direction of the page, `people` a name from its address.

use super::assets::ASSETS;
use super::words;
use chrono_tz::Tz;
use minijinja::{AutoEscape, Environment, Error, HtmlEscape, State, UndefinedBehavior, Value};
use serde::Serialize;

/// Every template, by the name that handlers use.
const TEMPLATES: &[(&str, &str)] = &[
    ("base.html", include_str!("templates/base.html")),
    ("parts.html", include_str!("templates/parts.html")),
    ("login.html", include_str!("templates/login.html")),
    ("error.html", include_str!("templates/error.html")),
    ("strip.html", include_str!("templates/strip.html")),
    ("inbox.html", include_str!("templates/inbox.html")),
    ("thread.html", include_str!("templates/thread.html")),
    ("run.html", include_str!("templates/run.html")),
    ("context.html", include_str!("templates/context.html")),
    ("letter.html", include_str!("templates/letter.html")),
    ("approvals.html", include_str!("templates/approvals.html")),
    (
        "approval_rule.html",
        include_str!("templates/approval_rule.html"),
    ),
    ("outbox.html", include_str!("templates/outbox.html")),
    ("notices.html", include_str!("templates/notices.html")),
    ("usage.html", include_str!("templates/usage.html")),
    ("memory.html", include_str!("templates/memory.html")),
    (
        "memory_erasure.html",
        include_str!("templates/memory_erasure.html"),
    ),
    ("schedule.html", include_str!("templates/schedule.html")),
    ("personas.html", include_str!("templates/personas.html")),
    ("persona.html", include_str!("templates/persona.html")),
    (
        "persona_file.html",
        include_str!("templates/persona_file.html"),
    ),
    (
        "persona_file_versions.html",
        include_str!("templates/persona_file_versions.html"),
    ),
    ("access.html", include_str!("templates/access.html")),
    ("doctor.html", include_str!("templates/doctor.html")),
    ("config.html", include_str!("templates/config.html")),
    ("search.html", include_str!("templates/search.html")),
];

/// Builds the environment of all pages.
pub(super) fn environment() -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_filter("foreign", foreign);
    environment.add_filter("visible", |text: Option<String>| {
        crate::text::visible(&text.unwrap_or_default())
    });
    environment.add_filter("people", people);
    environment.add_filter("grouped", grouped);
    environment.add_filter("sentence", sentence);
    environment.add_filter("when", when);
    environment.add_filter("typed", typed);
    environment.add_filter("titled", titled);
    environment.add_filter("money", words::money);
    environment.add_filter("count", |count: u64, noun: &str| {
        crate::text::plural(count, noun)
    });
    environment.add_filter("short", words::short_id);
    environment.add_filter("size", words::size);
    environment.add_filter("span", words::span);
    for (name, source) in TEMPLATES {
        environment.add_template(name, source)?;
    }
    Ok(environment)
}

/// Names of style and script.
pub(super) fn assets() -> AssetNames {
    let [style, script] = &*ASSETS;
    AssetNames {
        style: &style.name,
        script: &script.name,
    }
}

/// Names of the files that every page links.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct AssetNames {
    style: &'static str,
    script: &'static str,
}

/// Returns a line that somebody else wrote, as markup that holds nothing of theirs.
fn foreign(text: Option<String>) -> Value {
    let line = crate::text::visible(&crate::text::one_line(&text.unwrap_or_default()));
    Value::from_safe_string(format!("<bdi>{}</bdi>", HtmlEscape(&line)))
}

/// Returns people as a letter names them, `Name <address>` or a list of these: each name and each address is set apart from the
/// other's direction, and an address is read from the left.
fn people(text: Option<String>) -> Value {
    let line = crate::text::one_line(&text.unwrap_or_default());
    let shown: Vec<String> = apart(&line).into_iter().map(person).collect();
    Value::from_safe_string(shown.join(", "))
}

fn person(text: &str) -> String {
    let set = |direction: &str, text: &str| {
        let text = crate::text::visible(text);
        format!("<bdi{direction}>{}</bdi>", HtmlEscape(&text))
    };
    let address = text
        .strip_suffix('>')
        .and_then(|text| text.rsplit_once('<'));
    match address {
        Some((name, address)) => {
            let address = set(" dir=\"ltr\"", &format!("<{address}>"));
            match name.trim() {
                "" => address,
                name => format!("{} {address}", set("", name)),
            }
        }
        None if text.contains('@') && !text.contains(' ') => set(" dir=\"ltr\"", text),
        None => set("", text),
    }
}

/// Splits a list of people at the commas behind addresses: a name may have commas of its own.
fn apart(line: &str) -> Vec<&str> {
    let (mut found, mut from) = (Vec::new(), 0);
    for (at, _) in line.match_indices(", ") {
        let one = line[from..at].trim();
        if one.ends_with('>') || one.contains('@') && !one.contains([' ', '<', '"']) {
            found.push(one);
            from = at + 2;
        }
    }
    found.push(line[from..].trim());
    found
}

/// Formats a number with commas between its thousands.
pub(super) fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number < 0 {
        text.insert(0, '-');
    }
    text
}

/// Returns the summary of a notice as a heading: without the backticks that keep the words of others apart in a mail.
fn titled(text: String) -> String {
    let text = text.replace('`', "");
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}

/// Returns words of an error as a sentence of its own.
fn sentence(text: String) -> String {
    let mut chars = text.trim().chars();
    let Some(first) = chars.next() else {
        return String::new();
    };
    let end = if text.trim().ends_with(['.', '!', '?']) {
        ""
    } else {
        "."
    };
    format!("{}{}{end}", first.to_uppercase(), chars.as_str())
}

/// Returns the text of a mail without the marks of its dialect, as its recipients read it.
fn typed(text: Option<String>) -> String {
    let plain = crate::mime::letter_to_plain(&text.unwrap_or_default());
    plain.trim_end().to_owned()
}

/// Returns an instant as people read it in the zone of the page, which is named, with the exact one beside it.
fn when(state: &State, at: Option<String>) -> Value {
    let Some(at) = at.filter(|at| !at.is_empty()) else {
        return Value::from_safe_string("<span class=\"faint\">–</span>".to_owned());
    };
    let zone = state.lookup("zone");
    let zone = zone.as_ref().and_then(|zone| zone.as_str()?.parse().ok());
    let shown = words::minute(&at, zone.unwrap_or(Tz::UTC));
    Value::from_safe_string(format!(
        "<time datetime=\"{at}\" title=\"{at}\">{shown}</time>",
        at = HtmlEscape(&at),
        shown = HtmlEscape(&shown)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use minijinja::context;

    #[test]
    fn names_and_addresses_are_set_apart_and_addresses_read_from_the_left() {
        let shown = |text: &str| people(Some(text.to_owned())).to_string();
        let name = "\u{5d0}\u{5d1}";
        for (text, read) in [
            (
                format!("{name} <a@x.test>"),
                format!("<bdi>{name}</bdi> <bdi dir=\"ltr\">&lt;a@x.test&gt;</bdi>"),
            ),
            (
                "Lee, Ann <a@x.test>, b@x.test".to_owned(),
                "<bdi>Lee, Ann</bdi> <bdi dir=\"ltr\">&lt;a@x.test&gt;</bdi>, <bdi dir=\"ltr\">b@x.test</bdi>".to_owned(),
            ),
            ("a@x.test".to_owned(), "<bdi dir=\"ltr\">a@x.test</bdi>".to_owned()),
            ("everybody".to_owned(), "<bdi>everybody</bdi>".to_owned()),
            (
                "b@x.test <a@x.test>".to_owned(),
                "<bdi>b@x.test</bdi> <bdi dir=\"ltr\">&lt;a@x.test&gt;</bdi>".to_owned(),
            ),
            (
                "\u{202e}<i> <a@x.test>".to_owned(),
                "<bdi>⟨U+202E⟩&lt;i&gt;</bdi> <bdi dir=\"ltr\">&lt;a@x.test&gt;</bdi>".to_owned(),
            ),
            (String::new(), "<bdi></bdi>".to_owned()),
        ] {
            assert_eq!(shown(&text), read, "{text}");
        }
    }

    #[test]
    fn thousands_are_set_apart() {
        let numbers = [0, 999, 1_000, 1_234_567, -1_234].map(grouped);
        assert_eq!(numbers, ["0", "999", "1,000", "1,234,567", "-1,234"]);
    }

    #[test]
    fn errors_are_sentences() {
        for (text, read) in [
            ("nothing is there", "Nothing is there."),
            ("`x` is no state?", "`x` is no state?"),
            ("", ""),
        ] {
            assert_eq!(sentence(text.to_owned()), read);
        }
    }

    #[test]
    fn every_template_escapes_and_no_template_says_that_a_value_is_safe() {
        let environment = environment().expect("templates");
        for (name, source) in TEMPLATES {
            assert!(name.ends_with(".html"), "{name}");
            for word in [
                "|safe",
                "| safe",
                "autoescape",
                "style=",
                "<script>",
                "javascript:",
            ] {
                assert!(!source.contains(word), "{name} has `{word}`");
            }
            for (at, _) in source.match_indices(" on") {
                let rest = &source[at + 3..];
                let word: String = rest.chars().take_while(char::is_ascii_lowercase).collect();
                assert!(
                    !rest[word.len()..].starts_with("=\""),
                    "{name} has a handler `on{word}`"
                );
            }
        }
        let hostile = "<script>\u{202e}\"'&\n</script>";
        let page = environment.render_named_str(
            "x.html",
            "{{ a }}{{ a|foreign }}{{ a|visible }}",
            context! { a => hostile },
        );
        let page = page.expect("a page");
        assert!(
            !page.contains("<script") && !page.contains('\u{202e}')
                || page.matches('\u{202e}').count() == 1,
            "{page}"
        );
        assert!(page.contains("<bdi>&lt;script&gt;⟨U+202E⟩"), "{page}");
    }
}
