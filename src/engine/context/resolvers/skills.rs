//! `skills`: names and descriptions of the persona's approved skills. The model opens one with `use_skill`.

use super::reads::{BaseFolder, ReadError};
use super::{Contribution, Piece, ResolveError, Resolver, ResolverCall, estimate_tokens};
use crate::config::{PinnedSkill, SKILL_FILE, SKILL_FILE_BYTES_MAX, SKILLS_FOLDER};
use crate::domain::sha256_hex;
use futures_util::future::BoxFuture;
use std::collections::BTreeSet;

const INTRODUCTION: &str = "Skills are instructions of your owner for kinds of work. Before work that one of them is about, call `use_skill` \
     with its name, and follow what it says:";
const CHANGED: &str = "it is not as it was approved, and off: see `attache skills list`";

pub struct Skills;

impl Resolver for Skills {
    fn name(&self) -> &'static str {
        "skills"
    }

    fn resolve<'a>(
        &'a self,
        call: ResolverCall<'a>,
    ) -> BoxFuture<'a, Result<Contribution, ResolveError>> {
        Box::pin(async move { resolved(&call) })
    }
}

fn resolved(call: &ResolverCall<'_>) -> Result<Contribution, ResolveError> {
    let mut text = INTRODUCTION.to_owned();
    let (mut left_out, mut listed) = (Vec::new(), BTreeSet::new());
    // A persona's own skill stands before one of all.
    let (own, shared): (Vec<_>, Vec<_>) =
        (call.persona.skills.iter()).partition(|skill| skill.persona().is_some());
    for skill in own.into_iter().chain(shared) {
        if !listed.insert(skill.name()) {
            left_out.push((
                skill.folder.clone(),
                "the persona has its own of that name".to_owned(),
            ));
            continue;
        }
        if !is_unchanged(call, skill)? {
            left_out.push((skill.folder.clone(), CHANGED.to_owned()));
            continue;
        }
        let line = format!("\n- `{}`: {}", skill.name(), skill.description);
        if estimate_tokens(&text) + estimate_tokens(&line) > call.budget_tokens {
            left_out.push((skill.folder.clone(), "the budget is used up".to_owned()));
            continue;
        }
        text.push_str(&line);
    }
    let mut contribution = match text.len() > INTRODUCTION.len() {
        true => Contribution::one(
            SKILLS_FOLDER,
            Piece::System {
                text,
                required: false,
            },
        ),
        false => Contribution::nothing("the persona has no approved skills"),
    };
    contribution.left_out = left_out;
    Ok(contribution)
}

/// Reports whether `SKILL.md` is as it was approved. The other files are compared when the skill is used.
fn is_unchanged(call: &ResolverCall<'_>, skill: &PinnedSkill) -> Result<bool, ResolveError> {
    let place = match skill.persona() {
        Some(_) => BaseFolder::Persona,
        None => BaseFolder::Workspace,
    };
    let path = format!("{SKILLS_FOLDER}/{}/{SKILL_FILE}", skill.name());
    let text = match call.reads.text(place, &path, SKILL_FILE_BYTES_MAX) {
        Ok(text) => text,
        // A file that cannot be used is not what was approved.
        Err(ReadError::File(_)) => None,
        Err(error) => return Err(error.of("skills", &path)),
    };
    let pinned = skill.sha256_of(SKILL_FILE);
    Ok(text.is_some_and(|text| pinned == Some(sha256_hex(&[text.as_bytes()]).as_str())))
}
