//! Templates of the pages, in the binary, and the filters by which values become text.
//!
//! Every value is escaped. What others wrote goes through `foreign` (one line) or `visible` (a text), which write out the
//! characters that hide or reorder others; `foreign` sets it apart from the direction of the page.

use super::assets::ASSETS;
use super::words;
use minijinja::{AutoEscape, Environment, Error, HtmlEscape, UndefinedBehavior, Value};
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
    environment.add_filter("when", when);
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

/// Returns an instant as people read it, with the exact one beside it.
fn when(at: Option<String>) -> Value {
    let Some(at) = at.filter(|at| !at.is_empty()) else {
        return Value::from_safe_string("<span class=\"faint\">–</span>".to_owned());
    };
    let shown = words::minute(&at);
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
