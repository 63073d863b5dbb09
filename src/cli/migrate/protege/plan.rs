//! Everything that would be written, before anything is; and what lies there and would not be.

use super::findings::{FindingKind, MigrationFindings};
use super::personas::{PersonaDomains, SourcePersona};
use super::source::{SourceFolder, below};
use super::{personas, pipeline, responsibilities, secrets, settings};
use crate::cli::init::starter;
use crate::cli::{Exit, Failure, name_catalog};
use crate::config::{Config, ConfigErrors, KeptFiles, load_staged, load_without_secrets};
use crate::domain::Address;
use crate::scheduler::schedule_file::WorkspaceNames;
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeMap;
use std::path::Path;

/// Names of tools there whose names here are written with `_`; prompts speak of them.
const RENAMED_TOOLS: [&str; 7] = [
    "send-email",
    "search-email",
    "read-file",
    "write-file",
    "edit-file",
    "web-fetch",
    "web-search",
];
/// Entries of the other workspace that are read, or whose absence here is plain.
const KNOWN_ENTRIES: [&str; 9] = [
    "configs",
    "personas",
    "memory",
    "prompts",
    "responsibilities",
    "data",
    "db",
    "extensions",
    "logs",
];

/// Folders of prompts inside each other.
const PROMPT_DEPTH_MAX: usize = 4;

/// What will be here.
pub struct MigrationPlan {
    pub personas: Vec<SourcePersona>,
    /// By path below the workspace.
    pub files: BTreeMap<String, Vec<u8>>,
    pub secrets: BTreeMap<String, SecretString>,
}

/// What the command line says of a new workspace.
pub struct OwnerWords<'a> {
    pub domain: Option<&'a str>,
    pub owners: Vec<String>,
}

/// Plans the files. Errors: whose a new workspace would be is not known.
pub fn plan(
    source: &SourceFolder,
    workspace: &Path,
    words: &OwnerWords<'_>,
    findings: &mut MigrationFindings,
) -> anyhow::Result<MigrationPlan> {
    let names = name_catalog();
    let is_new = workspace.join(starter::LAST).symlink_metadata().is_err();
    let here = match is_new {
        true => None,
        false => Some(load_without_secrets(workspace, &names)?),
    };
    let gateway = settings::gateway(source, findings);
    let domain = domain(words, here.as_ref(), gateway.domain.as_deref())?;
    let domains = PersonaDomains {
        here: &domain,
        there: gateway.domain.as_deref(),
    };
    let personas = personas::read(source, domains, here.as_ref(), findings);
    let mut files = BTreeMap::new();
    if personas.is_empty() {
        findings.broken("personas", "no persona can be taken over");
    }
    // A workspace without a persona would be none.
    let is_nothing = is_new && personas.is_empty();
    if is_new && !is_nothing {
        let owners = owners(words, gateway.contact)?;
        let starter = starter::files(&domain, &owners).into_iter();
        files.extend(starter.map(|(path, text)| (path.to_owned(), text.into_owned().into_bytes())));
    }
    for persona in &personas {
        files.extend(personas::files(source, persona, findings));
    }
    if let Some(pipeline) = pipeline::translate(source, &names, &personas, findings) {
        for (path, content) in pipeline.files {
            files.entry(path).or_insert(content);
        }
        files.insert(
            "configs/context.json".to_owned(),
            pipeline.text.into_bytes(),
        );
    }
    let inference = settings::inference(source, &names, findings);
    files.extend(inference.map(|text| ("configs/inference.json".to_owned(), text.into_bytes())));
    let security = settings::security(source, findings);
    files.extend(security.map(|text| ("configs/security.json".to_owned(), text.into_bytes())));
    let mut plan = MigrationPlan {
        secrets: secrets::read(source, &names, findings),
        personas,
        files,
    };
    if is_nothing {
        plan.files.clear();
        plan.secrets.clear();
    } else {
        add_responsibilities(source, workspace, &mut plan, findings)?;
    }
    name_the_rest(source, &plan, findings);
    Ok(plan)
}

fn domain(
    words: &OwnerWords<'_>,
    here: Option<&Config>,
    there: Option<&str>,
) -> Result<String, Failure> {
    let known = words
        .domain
        .or(here.map(|config| config.gateway.mail_domain.as_str()))
        .or(there);
    let Some(domain) = known else {
        let failure = Failure::new(
            Exit::Usage,
            "the mail domain of the personas is not known: no file there says it",
        );
        return Err(failure.hint("name it with --domain DOMAIN"));
    };
    match Address::parse(&format!("a@{domain}")) {
        Ok(address) => Ok(address.domain().to_owned()),
        Err(_) => Err(
            Failure::new(Exit::Usage, format!("`{domain}` is not a mail domain"))
                .hint("name it with --domain DOMAIN"),
        ),
    }
}

fn owners(words: &OwnerWords<'_>, contact: Option<String>) -> Result<Vec<String>, Failure> {
    let named = match words.owners.is_empty() {
        true => contact.into_iter().collect(),
        false => words.owners.clone(),
    };
    if named.is_empty() {
        let failure = Failure::new(
            Exit::Usage,
            "the owner is not known: no file there names an admin contact",
        );
        return Err(failure.hint("name one with --owner ADDRESS"));
    }
    let parsed = named
        .iter()
        .map(|typed| Address::parse(typed).map(|address| address.to_string()));
    parsed.collect::<Result<_, _>>().map_err(|error| {
        Failure::new(Exit::Usage, error.to_string()).hint("name the owner with --owner ADDRESS")
    })
}

impl MigrationPlan {
    /// Reads the workspace as it would be, whether keys are there or not.
    pub fn staged(&self, workspace: &Path, with_keys: bool) -> Result<Config, ConfigErrors> {
        let texts = self
            .files
            .iter()
            .filter(|(path, _)| std::fs::metadata(workspace.join(path)).is_err());
        let texts = texts.filter_map(|(path, content)| {
            let text = std::str::from_utf8(content).ok()?;
            Some((path.clone(), Some(text.into())))
        });
        let texts: KeptFiles = texts.collect();
        let names = name_catalog();
        let known = |name: &str| {
            let given = self
                .secrets
                .get(name)
                .map(|key| key.expose_secret().to_owned());
            let set = crate::config::environment(name).or(given);
            let is_key = names
                .key_variables
                .iter()
                .any(|(_, variable)| *variable == name);
            set.or_else(|| (with_keys && is_key).then(|| "not-known-yet".to_owned()))
        };
        load_staged(workspace, &names, &texts, &known)
    }
}

/// Adds the responsibilities that can fire in the workspace as it would be.
fn add_responsibilities(
    source: &SourceFolder,
    workspace: &Path,
    plan: &mut MigrationPlan,
    findings: &mut MigrationFindings,
) -> anyhow::Result<()> {
    let config = plan.staged(workspace, true)?;
    if let Err(errors) = plan.staged(workspace, false) {
        for problem in errors.problems {
            findings.problem(FindingKind::Changed, problem);
        }
    }
    let names = WorkspaceNames::of(&config, crate::tools::of_config(&config).names());
    for found in responsibilities::translate(source, &plan.personas, findings) {
        let persona = config
            .personas
            .iter()
            .find(|persona| persona.id.as_str() == found.persona);
        if persona.is_some_and(|persona| found.is_usable(persona, &names, findings)) {
            plan.files.insert(found.path, found.text.into_bytes());
        }
    }
    Ok(())
}

/// Names what lies in the other workspace and is not looked at, and words of prompts that mean nothing here.
fn name_the_rest(source: &SourceFolder, plan: &MigrationPlan, findings: &mut MigrationFindings) {
    name_extensions(source, findings);
    for entry in source.entries("") {
        if !KNOWN_ENTRIES.contains(&entry.name.as_str()) {
            findings.add(
                FindingKind::NoCounterpart,
                entry.name,
                "was not looked at",
                "keep it where it is if you need it",
            );
        }
    }
    for folder in ["personas", "memory"] {
        name_links(source, folder, 0, findings);
    }
    name_prompts(source, plan, ("prompts", 0), findings);
    name_tools(plan, findings);
}

/// Names the code of extensions: each, or what lies in the folder itself.
fn name_extensions(source: &SourceFolder, findings: &mut MigrationFindings) {
    let mut places = Vec::new();
    for entry in source.entries("extensions") {
        let place = below("extensions", &entry.name);
        let inside = source.entries(&place);
        match inside.is_empty() {
            true => places.push(place),
            false => places.extend(inside.iter().map(|entry| below(&place, &entry.name))),
        }
    }
    for place in places {
        let remedy =
            "programs of your own are tools or hooks here: see the pages on own tools and on hooks";
        findings.add(
            FindingKind::NoCounterpart,
            place,
            "code of an extension has no counterpart",
            remedy,
        );
    }
}

/// Names links in the folders of personas that lead out, or nowhere.
fn name_links(source: &SourceFolder, folder: &str, depth: usize, findings: &mut MigrationFindings) {
    for entry in source.entries(folder) {
        let path = below(folder, &entry.name);
        if source.is_astray(&path) && !findings.names(&path) {
            findings.broken(
                &path,
                "is a link that leads out of the folder, or nowhere, and is not followed",
            );
        }
        if entry.is_folder && depth == 0 {
            name_links(source, &path, depth + 1, findings);
        }
    }
}

/// Names the prompts that no step reads.
fn name_prompts(
    source: &SourceFolder,
    plan: &MigrationPlan,
    (folder, depth): (&str, usize),
    findings: &mut MigrationFindings,
) {
    for entry in source.entries(folder) {
        let path = below(folder, &entry.name);
        if entry.is_folder && depth < PROMPT_DEPTH_MAX {
            name_prompts(source, plan, (&path, depth + 1), findings);
        } else if !plan.files.contains_key(&path) && !findings.names(&path) {
            let remedy = "copy it by hand, and name it in a step `load-file(PATH)` of configs/context.json, if you need it";
            findings.add(
                FindingKind::NoCounterpart,
                path,
                "no step of configs/context.json reads it",
                remedy,
            );
        }
    }
}

/// Names the words of prompts that are names of tools there.
fn name_tools(plan: &MigrationPlan, findings: &mut MigrationFindings) {
    for (path, content) in &plan.files {
        let is_prompt = path.starts_with("prompts/") || path.starts_with("personas/");
        let Ok(text) = std::str::from_utf8(content) else {
            continue;
        };
        for (line, number) in text
            .lines()
            .zip(1..)
            .filter(|_| is_prompt && !path.ends_with(".json"))
        {
            for tool in RENAMED_TOOLS.iter().filter(|tool| line.contains(**tool)) {
                let what = format!(
                    "speaks of `{tool}`, which is `{}` here",
                    tool.replace('-', "_")
                );
                let place = (path.clone(), Some(number));
                findings.at(
                    FindingKind::Changed,
                    place,
                    what,
                    "write the name that the tool has here into the file of the new workspace",
                );
            }
        }
    }
}
