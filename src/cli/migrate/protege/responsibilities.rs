//! Responsibility files: front matter written anew in the form that is read here.

use super::findings::{FindingKind, MEND_THERE, MigrationFindings};
use super::personas::SourcePersona;
use super::source::{SourceFolder, below};
use crate::config::Persona;
use crate::scheduler::schedule_file::{ParseContext, WorkspaceNames, file};
use crate::text::inside_quotes;

/// A responsibility file as it will stand here.
pub struct TranslatedResponsibility {
    /// Its file there.
    pub place: String,
    /// Path here.
    pub path: String,
    pub text: String,
    /// Id of its persona.
    pub persona: String,
    /// Line there of the schedule.
    line: usize,
}

/// A line of front matter there.
struct SourceLine {
    number: usize,
    key: String,
    value: String,
}

/// Reads the responsibilities of every persona.
pub fn translate(
    source: &SourceFolder,
    personas: &[SourcePersona],
    findings: &mut MigrationFindings,
) -> Vec<TranslatedResponsibility> {
    let mut found = Vec::new();
    for persona in personas {
        let own = [
            format!("personas/{}/responsibilities", persona.folder),
            format!("responsibilities/{}", persona.folder),
        ];
        for folder in own {
            for entry in source.entries(&folder) {
                let place = below(&folder, &entry.name);
                let is_read = !entry.is_folder
                    && entry.name.ends_with(".md")
                    && !entry.name.eq_ignore_ascii_case("README.md");
                if is_read {
                    found.extend(one(
                        source,
                        (&place, &entry.name),
                        persona.id.as_str(),
                        findings,
                    ));
                }
            }
        }
    }
    for entry in source.entries("responsibilities") {
        let is_read = entry.name.ends_with(".md") && !entry.name.eq_ignore_ascii_case("README.md");
        if !entry.is_folder && is_read {
            shared(source, &entry.name, personas, &mut found, findings);
        }
    }
    found
}

/// Reads a file that lies in no persona's folder and names its persona.
fn shared(
    source: &SourceFolder,
    name: &str,
    personas: &[SourcePersona],
    found: &mut Vec<TranslatedResponsibility>,
    findings: &mut MigrationFindings,
) {
    let place = below("responsibilities", name);
    let text = source.text(&place).ok().flatten().unwrap_or_default();
    let lines = split(&text).map(|(lines, _)| lines).unwrap_or_default();
    let named = lines
        .iter()
        .find(|line| matches!(line.key.as_str(), "persona_id" | "persona"));
    let persona = match (named, personas) {
        (Some(line), _) => personas.iter().find(|persona| persona.folder == line.value),
        (None, [only]) => Some(only),
        (None, _) => None,
    };
    match persona {
        Some(persona) => found.extend(one(source, (&place, name), persona.id.as_str(), findings)),
        None => findings.broken(&place, "names no persona that came over"),
    }
}

fn one(
    source: &SourceFolder,
    (place, name): (&str, &str),
    persona: &str,
    findings: &mut MigrationFindings,
) -> Option<TranslatedResponsibility> {
    let text = findings.readable(place, source.text(place))?;
    let (lines, body) = match split(&text) {
        Ok(parts) => parts,
        Err((line, what)) => {
            findings.at(
                FindingKind::Broken,
                (place.to_owned(), Some(line)),
                what,
                MEND_THERE,
            );
            return None;
        }
    };
    let (front, schedule_line) = front_matter(&lines, (place, name), findings);
    Some(TranslatedResponsibility {
        place: place.to_owned(),
        path: format!("personas/{persona}/responsibilities/{name}"),
        text: format!("---\n{front}---\n{}", literal(body)),
        persona: persona.to_owned(),
        line: schedule_line,
    })
}

/// Writes the front matter anew, and gives the line there of the schedule.
fn front_matter(
    lines: &[SourceLine],
    (place, name): (&str, &str),
    findings: &mut MigrationFindings,
) -> (String, usize) {
    let mut front = String::new();
    let (mut schedule_line, mut is_named) = (1, false);
    for SourceLine { number, key, value } in lines {
        let key = match key.as_str() {
            "schedule" | "cron" => {
                schedule_line = *number;
                "schedule"
            }
            "name" => {
                is_named = true;
                "name"
            }
            "timezone" | "tz" => "timezone",
            "enabled" => "enabled",
            "persona" | "persona_id" | "id" => continue,
            other => {
                let place = (place.to_owned(), Some(*number));
                let what = format!("`{other}` has no counterpart");
                let remedy = "see the keys of a responsibility on the page on schedules";
                findings.at(FindingKind::NoCounterpart, place, what, remedy);
                continue;
            }
        };
        let value = match key {
            "enabled" => value.clone(),
            _ => format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")),
        };
        front.push_str(&format!("{key}: {value}\n"));
    }
    if !is_named {
        let stem = name.trim_end_matches(".md").replace(['"', '\\'], "");
        front.insert_str(0, &format!("name: \"{stem}\"\n"));
    }
    (front, schedule_line)
}

/// Splits a file into the lines of its front matter and the prompt. Errors: a line and what is wrong there.
fn split(text: &str) -> Result<(Vec<SourceLine>, String), (usize, String)> {
    let text = text.replace("\r\n", "\n");
    let mut lines = text.lines().zip(1..);
    let is_fence = |line: &str| line.trim_end() == "---";
    if !lines.next().is_some_and(|(first, _)| is_fence(first)) {
        return Err((1, "begins with no line `---`".to_owned()));
    }
    let mut front = Vec::new();
    loop {
        let Some((line, number)) = lines.next() else {
            return Err((
                1,
                "the front matter is not closed by a second line `---`".to_owned(),
            ));
        };
        if is_fence(line) {
            break;
        }
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let Some((key, value)) = line
            .split_once(':')
            .filter(|_| !line.starts_with([' ', '\t', '-']))
        else {
            return Err((number, "is no line `key: value`".to_owned()));
        };
        front.push(SourceLine {
            number,
            key: key.trim().to_owned(),
            value: unquoted(value.trim()).to_owned(),
        });
    }
    let body: Vec<&str> = lines.map(|(line, _)| line).collect();
    Ok((front, body.join("\n") + "\n"))
}

fn unquoted(value: &str) -> &str {
    inside_quotes(value).unwrap_or_else(|| {
        // A comment behind a plain value is none of it.
        value.split(" #").next().unwrap_or_default().trim_end()
    })
}

/// Keeps braces of a prompt from being read as code.
fn literal(body: String) -> String {
    let is_code = ["{{", "{%", "{#"].iter().any(|open| body.contains(open));
    match is_code && !body.contains("endraw") {
        true => format!("{{% raw %}}{body}{{% endraw %}}\n"),
        false => body,
    }
}

impl TranslatedResponsibility {
    /// Checks that the file can fire here; else names what is wrong with it.
    pub fn is_usable(
        &self,
        persona: &Persona,
        names: &WorkspaceNames,
        findings: &mut MigrationFindings,
    ) -> bool {
        match file::parse(self.text.as_bytes(), &ParseContext::of(persona, names)) {
            Ok(_) => true,
            Err(error) => {
                let place = (self.place.clone(), Some(self.line));
                let remedy =
                    "it was not taken over: mend the file there, and say the command again";
                findings.at(FindingKind::Broken, place, error.problem, remedy);
                false
            }
        }
    }
}
