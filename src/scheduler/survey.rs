//! The responsibility files as `attache config check` looks at them: why some cannot be used, what the others ask for, and
//! what is legal and surely unmeant. Touches no row. Blocking.

use super::Problem;
use super::duty::Offer;
use super::duty::timing::{Timing, local_text};
use super::scan::{FOLDER, Found, Key, Known, scan};
use crate::config::Persona;
use crate::domain::{PersonaId, RunTerms, Timestamp};
use std::collections::BTreeMap;

/// What was found.
#[derive(Debug, Default)]
pub struct Survey {
    pub problems: Vec<Problem>,
    pub warnings: Vec<Problem>,
    pub asks: Vec<Asks>,
}

/// What a usable file asks for beside the persona's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asks {
    pub persona: PersonaId,
    /// Below the workspace.
    pub file: String,
    pub run_terms: RunTerms,
    /// Micro-dollars that each of its runs may cost.
    pub budget_micros: Option<i64>,
}

/// Looks at every responsibility file of these personas.
pub fn survey<'a>(personas: impl Iterator<Item = &'a Persona>, offer: &Offer, now: Timestamp) -> Survey {
    let (personas, mut found) = (personas.collect::<Vec<_>>(), Survey::default());
    let scan = scan(personas.iter().copied(), offer, &Known::new(), now);
    let folders = scan.unreadable.into_iter();
    found.problems =
        folders.map(|(id, problem)| Problem { file: format!("personas/{id}/{FOLDER}"), problem }).collect();
    found.warnings = personas.iter().flat_map(|persona| unread(persona)).collect();
    found.warnings.extend(doubled(&scan.read));
    for ((persona, path), read) in scan.read {
        let file = format!("personas/{persona}/{path}");
        match read {
            Err(problem) => found.problems.push(Problem { file, problem }),
            Ok(read) => {
                let problem = never_due(&read, now);
                found.warnings.extend(problem.map(|problem| Problem { file: file.clone(), problem }));
                let (run_terms, budget_micros) =
                    (read.responsibility.run_terms, read.responsibility.budget_micros);
                found.asks.push(Asks { persona, file, run_terms, budget_micros });
            }
        }
    }
    found
}

/// Files and folders in a folder of responsibilities that nothing reads.
fn unread(persona: &Persona) -> Vec<Problem> {
    let entries = std::fs::read_dir(persona.folder.join(FOLDER)).into_iter().flatten().flatten();
    let unread = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let (stem, extension) = name.rsplit_once('.').unwrap_or((&name, ""));
        // Other programs' leavings, and the form of an answer, which a responsibility may name.
        if name.starts_with('.')
            || name.ends_with('~')
            || matches!(extension, "json" | "bak" | "swp" | "orig")
        {
            return None;
        }
        let is_folder = entry.path().is_dir();
        if stem.eq_ignore_ascii_case("readme") || (extension == "md" && !is_folder) {
            return None;
        }
        let problem = match is_folder {
            true => {
                "is a folder, and folders in here are not looked into; move its files one level up".to_owned()
            }
            false => format!("is not read, because its name does not end in `.md`; rename it to `{stem}.md`"),
        };
        Some(Problem { file: format!("personas/{}/{FOLDER}/{name}", persona.id), problem })
    });
    let mut unread = unread.collect::<Vec<_>>();
    unread.sort_by(|one, other| one.file.cmp(&other.file));
    unread
}

/// Responsibilities of one persona under one name: commands and notices could not tell them apart.
fn doubled(read: &BTreeMap<Key, Result<Found, String>>) -> Vec<Problem> {
    let (mut first, mut doubled) = (BTreeMap::new(), Vec::new());
    for ((persona, path), found) in read {
        let Ok(Found { responsibility, .. }) = found else { continue };
        let name = &responsibility.name;
        match first.get(&(persona, name)) {
            None => drop(first.insert((persona, name), path)),
            Some(other) => doubled.push(Problem {
                file: format!("personas/{persona}/{path}"),
                problem: format!(
                    "has the name `{name}`, as `{other}` has; give one of the two another `name`"
                ),
            }),
        }
    }
    doubled
}

/// A one-shot whose file was written when its instant had passed.
fn never_due(found: &Found, now: Timestamp) -> Option<String> {
    let duty = &found.responsibility;
    let Timing::At(instant) = duty.timing else { return None };
    let is_late = instant <= now && found.modified_at.is_none_or(|written| written >= instant);
    let at = local_text(instant, duty.timezone);
    (is_late && duty.enabled).then(|| {
        format!("`at`: {at} was past when the file was written, so it never comes due; write a time to come")
    })
}
