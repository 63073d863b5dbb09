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
            let line = line.strip_prefix("export ").unwrap_or(line);
            let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with('#'))
            else {
                continue;
            };
            let (name, value) = (name.trim(), value.trim());
            let Some(ours) = usual_name(name, names) else {
                let place = (path.to_owned(), Some(number));
                let what = format!("nothing here reads `{}`", crate::text::shortened(name, 60));
                let remedy = "where a setting here needs it, write it into .secrets yourself";
                findings.at(FindingKind::NoCounterpart, place, what, remedy);
                continue;
            };
            let inside = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
            let value = inside('"').or_else(|| inside('\'')).unwrap_or(value);
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
