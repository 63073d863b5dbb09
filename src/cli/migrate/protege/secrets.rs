//! Keys of the other workspace's `.env`. Names are told, values never.

use super::findings::{FindingKind, MigrationFindings};
use super::source::SourceFolder;
use crate::config::NameCatalog;
use crate::providers::KEY_ALIASES;
use secrecy::SecretString;
use std::collections::BTreeMap;

/// Files with lines `NAME=value`.
const FILES: [&str; 2] = [".env", ".secrets"];

/// Reads the keys of providers, under the names that they have here; every other name is a finding.
pub fn read(
    source: &SourceFolder,
    names: &NameCatalog,
    findings: &mut MigrationFindings,
) -> BTreeMap<String, SecretString> {
    let mut keys = BTreeMap::new();
    for path in FILES {
        // What is wrong with such a file must not repeat a line of it.
        let Ok(Some(text)) = source.text(path) else {
            continue;
        };
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim();
            let exported = line.strip_prefix("export");
            let line = exported
                .filter(|rest| rest.starts_with([' ', '\t']))
                .map_or(line, str::trim_start);
            let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with('#'))
            else {
                continue;
            };
            let name = name.trim();
            let Some(ours) = usual_name(name, names) else {
                let place = (path.to_owned(), Some(number));
                let what = format!("nothing here reads `{}`", crate::text::shortened(name, 60));
                let remedy = "where a setting here needs it, write it into .secrets yourself";
                findings.at(FindingKind::NoCounterpart, place, what, remedy);
                continue;
            };
            let Some(value) = value_of(value) else {
                let place = (path.to_owned(), Some(number));
                let what = format!("the quote of `{ours}` is not closed");
                let remedy = "write the key into .secrets yourself";
                findings.at(FindingKind::Broken, place, what, remedy);
                continue;
            };
            if !value.is_empty() && !value.contains(char::is_control) {
                keys.entry(ours.to_owned())
                    .or_insert_with(|| SecretString::from(value));
            }
        }
    }
    keys
}

/// The name here of a provider's key.
fn usual_name<'n>(name: &str, names: &'n NameCatalog) -> Option<&'n str> {
    let alias = KEY_ALIASES.iter().find(|(_, alias)| *alias == name);
    let known = |(provider, variable): &&(&'static str, &'static str)| {
        *variable == name || alias.is_some_and(|(adapter, _)| adapter == provider)
    };
    names
        .key_variables
        .iter()
        .find(known)
        .map(|(_, variable)| *variable)
}

/// The value of a line as a shell reads it: without quotes, and without a comment. `None`: a quote is not closed.
fn value_of(typed: &str) -> Option<String> {
    let typed = typed.trim_end();
    let start = typed.trim_start();
    // A blank stands before a comment, also where the value is empty.
    if start.starts_with('#') && start.len() < typed.len() {
        return Some(String::new());
    }
    let (mut value, mut quote) = (String::new(), None);
    let mut chars = start.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (None, ' ' | '\t') => break,
            (None, '\\') => value.extend(chars.next()),
            (Some('"'), '\\') if chars.peek().is_some_and(|next| "\"\\$`".contains(*next)) => {
                value.extend(chars.next());
            }
            _ => value.push(c),
        }
    }
    quote.is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_as_a_shell_reads_it() {
        let cases = [
            (r#""sk-ant-abc" # c"#, Some("sk-ant-abc")),
            ("'sk-ant-abc'\t# c", Some("sk-ant-abc")),
            ("sk-ant-abc # c", Some("sk-ant-abc")),
            ("sk-ant#abc", Some("sk-ant#abc")),
            (r#""sk # \"ant\"""#, Some(r#"sk # "ant""#)),
            (r#"'sk\ant'"#, Some(r"sk\ant")),
            (r#"sk-"ant"'-abc'"#, Some("sk-ant-abc")),
            (" sk-ant-abc ", Some("sk-ant-abc")),
            (" # c", Some("")),
            ("", Some("")),
            (r#""sk-ant-abc"#, None),
        ];
        for (typed, wanted) in cases {
            assert_eq!(value_of(typed).as_deref(), wanted, "{typed}");
        }
    }
}
