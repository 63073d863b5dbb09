//! The personas of a workspace: their list, their files, and those that are out of service.

use crate::config::file::{ConfigErrors, ConfigFile, Problem, persona_file, persona_policy_file};
use crate::config::persona;
use crate::config::persona::{Persona, TypedPersona};
use crate::config::personas::OutOfService;
use crate::config::policy::{self, TypedPolicy};
use crate::config::skills::PinnedSkill;
use crate::config::values::check_context::CheckContext;
use crate::domain::PersonaId;
use crate::policy::PolicyRule;
use std::path::{Path, PathBuf};

/// Maximum number of folders read below `personas/`; more are reported as a problem.
const PERSONAS_MAX: usize = 10_000;

/// The ids of all personas: the folders below `personas/`, sorted. Plain files and dot folders are
/// no personas.
pub fn list(ctx: &mut CheckContext<'_>) -> Vec<PersonaId> {
    let mut names = match ctx.source.persona_folders() {
        Ok(names) => names,
        Err(error) => {
            ctx.report(Problem::in_file(
                "personas",
                format!("cannot be read: {error}"),
            ));
            return Vec::new();
        }
    };
    if let Some(target) = target_elsewhere(ctx.workspace) {
        let message = format!(
            "is a link to `{}`, and runs open no file outside of the workspace",
            target.display()
        );
        let problem = Problem::in_file("personas", message);
        ctx.report(problem.hint("mount that folder at `personas` instead, or move it there"));
    }
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    if names.len() > PERSONAS_MAX {
        ctx.report(Problem::in_file(
            "personas",
            format!("holds more than {PERSONAS_MAX} folders"),
        ));
        names.truncate(PERSONAS_MAX);
    }
    let mut ids = Vec::new();
    for name in names {
        match PersonaId::parse(&name) {
            Ok(id) => ids.push(id),
            Err(error) => {
                let problem = Problem::in_file(&format!("personas/{name}"), error.to_string());
                ctx.of_personas.insert(
                    name,
                    vec![problem.hint("rename the folder, or take it out of `personas/`")],
                );
            }
        }
    }
    ids
}

/// Returns where `personas` leads, if it is a link out of the workspace.
fn target_elsewhere(workspace: &Path) -> Option<PathBuf> {
    let personas = workspace.join("personas");
    if !personas.is_symlink() {
        return None;
    }
    let (target, workspace) = (
        personas.canonicalize().ok()?,
        workspace.canonicalize().ok()?,
    );
    (!target.starts_with(workspace)).then_some(target)
}

/// Reads the file of every persona, and its policy, whose rules stand behind `rules`; a faulty one is left out.
pub fn read(
    domain: &str,
    (rules, skills): (&[PolicyRule], &[PinnedSkill]),
    ctx: &mut CheckContext<'_>,
) -> Vec<(ConfigFile<TypedPersona>, Persona)> {
    let mut read = Vec::new();
    for id in ctx.persona_ids.clone() {
        read.extend(ctx.on_behalf_of(id.as_str(), |ctx| {
            let file = ctx.read::<TypedPersona>(&persona_file(id.as_str()))?;
            let mut resolved = persona::resolve(&file, &id, domain, ctx)?;
            let policy = ctx.read_if_there::<TypedPolicy>(&persona_policy_file(id.as_str()));
            resolved.rules = policy.map_or_else(Vec::new, |file| {
                policy::resolve_of_persona(&file, &id, rules, ctx)
            });
            let has = |skill: &&PinnedSkill| skill.is_for(&id);
            resolved.skills = skills.iter().filter(has).cloned().collect();
            Some((file, resolved))
        }));
    }
    read
}

/// Splits the personas into usable ones and those out of service. Errors: another problem
/// exists, or no persona is usable.
pub fn split(
    files: Vec<(ConfigFile<TypedPersona>, Persona)>,
    mail_domain: &str,
    ctx: &mut CheckContext<'_>,
) -> Result<(Vec<Persona>, Vec<OutOfService>), ConfigErrors> {
    let (broken, well): (Vec<_>, Vec<_>) = files
        .into_iter()
        .map(|(_, persona)| persona)
        .partition(|persona| ctx.of_personas.contains_key(persona.id.as_str()));
    let mut problems = std::mem::take(&mut ctx.problems);
    if !problems.is_empty() || (well.is_empty() && !ctx.of_personas.is_empty()) {
        problems.extend(std::mem::take(&mut ctx.of_personas).into_values().flatten());
    }
    if let Some(errors) = ConfigErrors::from_problems(problems) {
        return Err(errors);
    }
    let out = std::mem::take(&mut ctx.of_personas)
        .into_iter()
        .map(|(name, mut problems)| {
            problems.sort();
            problems.dedup();
            // A file that could be resolved names all its addresses; in any other file each word
            // may be one.
            let is_known = broken.iter().any(|persona| persona.id.as_str() == name);
            let text = ctx.source.read(&persona_file(&name)).unwrap_or_default();
            let addresses = persona::possible_addresses(&text, mail_domain);
            OutOfService {
                name,
                problems,
                addresses,
                is_known,
            }
        });
    let out = out.collect();
    Ok((well, out))
}
