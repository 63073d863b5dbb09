//! `configs/context.json`: steps that are written otherwise here, and the files that they read.

use super::findings::{FindingKind, MigrationFindings};
use super::personas::SourcePersona;
use super::settings::{document, pretty};
use super::source::SourceFolder;
use crate::config::{Document, NameCatalog, PLACEHOLDERS};
use serde_json::{Map, Value, json};

const FILE: &str = "configs/context.json";
const CURRENT_INPUT: &str = "current-input";
const LOAD_FILE: &str = "load-file";
/// Files of a persona that have a step of their own here, by their names.
const OWN_STEPS: [(&str, &str); 2] = [("PERSONA.md", "persona"), ("active.md", "active-memory")];
/// Folders in which such a file is a persona's, however its path is written.
const OWN_FOLDERS: [&str; 7] = [
    ".",
    "personas",
    "memory",
    "{persona_id}",
    "{personaId}",
    "{persona}",
    "{id}",
];
/// The rules about hostile mail; a schedule reads mail too, by its search.
const SECURITY_POLICY: &str = "load-file(prompts/security-policy.md)";

/// The translated file, and the other files that its steps read.
pub struct TranslatedPipeline {
    pub text: String,
    pub files: Vec<(String, Vec<u8>)>,
}

struct PipelineReader<'a> {
    source: &'a SourceFolder,
    document: &'a Document,
    names: &'a NameCatalog,
    personas: &'a [SourcePersona],
    files: Vec<(String, Vec<u8>)>,
}

/// Translates the file. `None`: there is no usable one, and the usual pipeline is in force.
pub fn translate(
    source: &SourceFolder,
    names: &NameCatalog,
    personas: &[SourcePersona],
    findings: &mut MigrationFindings,
) -> Option<TranslatedPipeline> {
    let document = &document(source, FILE, findings)?;
    let mut reader = PipelineReader {
        source,
        document,
        names,
        personas,
        files: Vec::new(),
    };
    let mut profiles = Map::new();
    profiles.insert("$schema".to_owned(), json!("schema/context.json"));
    for (name, steps) in document.value.as_object()? {
        if name == "$schema" {
            continue;
        }
        let Some(steps) = steps.as_array() else {
            let problem = document.problem_at(&format!("/{name}"), "is no list of steps");
            findings.problem(FindingKind::Broken, problem);
            continue;
        };
        let mut made = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            made.extend(reader.step(&format!("/{name}/{index}"), step, findings));
        }
        if !made.iter().any(is_current_input) {
            made.push(json!({ "use": CURRENT_INPUT, "required": true }));
        }
        profiles.insert(name.clone(), Value::Array(made));
    }
    for name in ["thread", "responsibility"] {
        if !profiles.contains_key(name) {
            let problem = document.problem_at("", format!("has no chain `{name}`"));
            findings.problem(
                FindingKind::Broken,
                problem.hint("the usual pipeline is in force"),
            );
            return None;
        }
    }
    guard_schedules(document, &mut profiles, findings);
    Some(TranslatedPipeline {
        text: pretty(&Value::Object(profiles)),
        files: reader.files,
    })
}

fn is_current_input(step: &Value) -> bool {
    step["use"] == CURRENT_INPUT
}

/// Gives schedules the rules about hostile mail that letters have.
fn guard_schedules(
    document: &Document,
    profiles: &mut Map<String, Value>,
    findings: &mut MigrationFindings,
) {
    let has = |profile: &str| {
        let steps = profiles.get(profile).and_then(Value::as_array);
        steps.is_some_and(|steps| steps.iter().any(|step| step == SECURITY_POLICY))
    };
    if !has("thread") || has("responsibility") {
        return;
    }
    if let Some(Value::Array(steps)) = profiles.get_mut("responsibility") {
        steps.insert(steps.len().min(1), json!(SECURITY_POLICY));
        let what = "schedules are told prompts/security-policy.md too: they can read hostile mail by a search";
        let problem = document.problem_at_key("/responsibility", what);
        findings.problem(
            FindingKind::Changed,
            problem.hint("take the step out of configs/context.json if you do not want it"),
        );
    }
}

impl PipelineReader<'_> {
    /// The step as it is written here; `None`: it is left out, and named.
    fn step(
        &mut self,
        pointer: &str,
        typed: &Value,
        findings: &mut MigrationFindings,
    ) -> Option<Value> {
        let Some(text) = typed.as_str() else {
            let problem = self
                .document
                .problem_at(pointer, "is no step: a text such as `thread-history`");
            findings.problem(FindingKind::Broken, problem);
            return None;
        };
        let (name, argument) = match text.trim().split_once('(') {
            Some((name, rest)) => (
                name.trim(),
                rest.trim_end().strip_suffix(')').map(str::trim),
            ),
            None => (text.trim(), Some("")),
        };
        let Some(argument) = argument else {
            let problem = self
                .document
                .problem_at(pointer, format!("`{text}` has no closing parenthesis"));
            findings.problem(FindingKind::Broken, problem.hint("the step was left out"));
            return None;
        };
        match name {
            CURRENT_INPUT => Some(json!({ "use": CURRENT_INPUT, "required": true })),
            "thread-memory-state" => {
                Some(json!({ "use": "thread-summary", "budget_tokens": 2000 }))
            }
            LOAD_FILE => self.load_file(pointer, argument, findings),
            _ => self.other(pointer, (name, argument), findings),
        }
    }

    fn other(
        &self,
        pointer: &str,
        (name, argument): (&str, &str),
        findings: &mut MigrationFindings,
    ) -> Option<Value> {
        let given = usize::from(!argument.is_empty());
        let known = self
            .names
            .resolvers
            .iter()
            .find(|(known, _)| *known == name);
        if known.is_some_and(|(_, arity)| arity.contains(&given)) {
            return Some(match argument {
                "" => json!(name),
                argument => json!(format!("{name}({argument})")),
            });
        }
        let problem = self
            .document
            .problem_at(pointer, format!("there is no resolver `{name}` here"));
        let remedy = "the step was left out; put what it says into a file and read it with `load-file(PATH)`";
        findings.problem(FindingKind::NoCounterpart, problem.hint(remedy));
        None
    }

    fn load_file(
        &mut self,
        pointer: &str,
        path: &str,
        findings: &mut MigrationFindings,
    ) -> Option<Value> {
        let path = path.trim_matches(['"', '\'', '`']).trim();
        if let Some(step) = own_step(path).filter(|_| !self.source.is_file(path)) {
            return Some(json!(step));
        }
        let path = path.strip_prefix("./").unwrap_or(path);
        if let Some(what) = refusal(path) {
            let problem = self
                .document
                .problem_at(pointer, format!("`{path}` {what}"));
            let remedy = "the step was left out; move the text into prompts/ there, and say the command again";
            findings.problem(FindingKind::Broken, problem.hint(remedy));
            return None;
        }
        let is_found = match path.contains("{persona_id}") {
            true => {
                let personas = self.personas.iter();
                let paths: Vec<(String, String)> = personas
                    .map(|persona| {
                        (
                            path.replace("{persona_id}", &persona.folder),
                            path.replace("{persona_id}", persona.id.as_str()),
                        )
                    })
                    .collect();
                for (from, to) in paths {
                    self.take(&from, to, findings);
                }
                true
            }
            // Other placeholders stand for values that only a run has.
            false if path.contains('{') => true,
            false => self.take(path, path.to_owned(), findings),
        };
        if !is_found {
            let problem = self
                .document
                .problem_at(pointer, format!("there is no file `{path}`"));
            let remedy = "it contributed nothing there; the step was left out";
            findings.problem(FindingKind::Changed, problem.hint(remedy));
            return None;
        }
        Some(json!(format!("{LOAD_FILE}({path})")))
    }

    /// Takes a file over; reports whether there is one.
    fn take(&mut self, from: &str, to: String, findings: &mut MigrationFindings) -> bool {
        let text = findings.readable(from, self.source.text(from));
        let is_there = text.is_some();
        self.files.extend(text.map(|text| (to, text.into_bytes())));
        is_there
    }
}

/// The step of a persona's own file, such as `personas/{persona_id}/PERSONA.md` or `PERSONA.md` alone.
fn own_step(path: &str) -> Option<&'static str> {
    let (folder, file) = path.rsplit_once('/').unwrap_or((".", path));
    let is_own = folder.split('/').all(|part| OWN_FOLDERS.contains(&part));
    let step = OWN_STEPS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(file));
    step.filter(|_| is_own).map(|(_, step)| *step)
}

/// Why a path cannot be read by a step here, or must not be written.
fn refusal(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').collect();
    let is_hidden = |part: &&str| part.is_empty() || part.starts_with('.') || *part == "data";
    if parts.iter().any(is_hidden) || path.contains('\\') {
        return Some("leads out of the workspace, or to hidden files or data".to_owned());
    }
    if parts[0] == "configs" {
        return Some("is a file of settings here".to_owned());
    }
    let braced = path.split('{').skip(1);
    for name in braced.map(|rest| rest.split_once('}').map(|(name, _)| name)) {
        if !name.is_some_and(|name| PLACEHOLDERS.contains(&name)) {
            let known = PLACEHOLDERS.join("}, {");
            return Some(format!(
                "has a placeholder that is not known here; there are {{{known}}}"
            ));
        }
    }
    None
}
