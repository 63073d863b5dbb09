//! Checks the responsibility files for `attache config check`: problems of unusable files,
//! requirements of the others, and warnings about values that are valid but probably unintended.
//! Touches no row. Blocking.

use super::FileProblem;
use super::scan::{FOLDER, FileKey, Known, ScheduleFileText, scan};
use crate::config::Persona;
use crate::domain::{PersonaId, RunOptions, Timestamp};
use crate::schedule_file::WorkspaceNames;
use crate::schedule_file::timing::{Timing, local_text};
use std::collections::BTreeMap;

/// Result of the check.
#[derive(Debug, Default)]
pub struct Survey {
    pub problems: Vec<FileProblem>,
    pub warnings: Vec<FileProblem>,
    pub asks: Vec<Asks>,
}

/// Requirements of a usable file beyond the persona's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asks {
    pub persona: PersonaId,
    /// Path below the workspace.
    pub file: String,
    pub run_options: RunOptions,
    /// Maximum micro-dollars of each of its runs.
    pub budget_micros: Option<i64>,
}

/// Checks every responsibility file of these personas.
pub fn survey<'a>(
    personas: impl Iterator<Item = &'a Persona>,
    names: &WorkspaceNames,
    now: Timestamp,
) -> Survey {
    let (personas, mut found) = (personas.collect::<Vec<_>>(), Survey::default());
    let scan = scan(personas.iter().copied(), names, &Known::new(), now);
    let folders = scan.unreadable.into_iter();
    found.problems = folders
        .map(|(id, problem)| FileProblem {
            file: format!("personas/{id}/{FOLDER}"),
            problem,
        })
        .collect();
    found.warnings = personas
        .iter()
        .flat_map(|persona| unread(persona))
        .collect();
    found.warnings.extend(doubled(&scan.read));
    for ((persona, path), read) in scan.read {
        let file = format!("personas/{persona}/{path}");
        match read {
            Err(problem) => found.problems.push(FileProblem { file, problem }),
            Ok(read) => {
                let problem = never_due(&read, now);
                found.warnings.extend(problem.map(|problem| FileProblem {
                    file: file.clone(),
                    problem,
                }));
                let (run_options, budget_micros) = (
                    read.responsibility.run_options,
                    read.responsibility.budget_micros,
                );
                found.asks.push(Asks {
                    persona,
                    file,
                    run_options,
                    budget_micros,
                });
            }
        }
    }
    found
}

/// Warns about files and folders in a folder of responsibilities that are never read.
fn unread(persona: &Persona) -> Vec<FileProblem> {
    let entries = std::fs::read_dir(persona.folder.join(FOLDER))
        .into_iter()
        .flatten()
        .flatten();
    let unread = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let (stem, extension) = name.rsplit_once('.').unwrap_or((&name, ""));
        // Temporary files of other programs, and JSON Schemas that a responsibility may name.
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
                "is a folder, and folders in here are not looked into; move its files one level up"
                    .to_owned()
            }
            false => format!(
                "is not read, because its name does not end in `.md`; rename it to `{stem}.md`"
            ),
        };
        Some(FileProblem {
            file: format!("personas/{}/{FOLDER}/{name}", persona.id),
            problem,
        })
    });
    let mut unread = unread.collect::<Vec<_>>();
    unread.sort_by(|one, other| one.file.cmp(&other.file));
    unread
}

/// Warns about responsibilities of one persona with one name: commands and notices could not tell
/// them apart.
fn doubled(read: &BTreeMap<FileKey, Result<ScheduleFileText, String>>) -> Vec<FileProblem> {
    let (mut first, mut doubled) = (BTreeMap::new(), Vec::new());
    for ((persona, path), found) in read {
        let Ok(ScheduleFileText { responsibility, .. }) = found else {
            continue;
        };
        let name = &responsibility.name;
        match first.get(&(persona, name)) {
            None => drop(first.insert((persona, name), path)),
            Some(other) => doubled.push(FileProblem {
                file: format!("personas/{persona}/{path}"),
                problem: format!(
                    "has the name `{name}`, as `{other}` has; give one of the two another `name`"
                ),
            }),
        }
    }
    doubled
}

/// Warns about a one-shot whose file was written after its instant.
fn never_due(found: &ScheduleFileText, now: Timestamp) -> Option<String> {
    let schedule = &found.responsibility;
    let Timing::At(instant) = schedule.timing else {
        return None;
    };
    let is_late = instant <= now && found.modified_at.is_none_or(|written| written >= instant);
    let at = local_text(instant, schedule.timezone);
    (is_late && schedule.enabled).then(|| {
        format!("`at`: {at} was past when the file was written, so it never comes due; write a time to come")
    })
}
