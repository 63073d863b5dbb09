//! `configs/context.json`: named profiles, each an ordered list of resolver steps.

use super::check::Page;
use super::document::child;
use super::load::Desk;
use super::settings::{ContextProfile, ContextStep};
use super::step;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

pub const FILE: &str = "configs/context.json";
/// Profiles that the engine itself asks for.
const REQUIRED: &[&str] = &["thread", "responsibility"];

/// Profile name -> ordered steps. `thread` and `responsibility` must exist.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(title = "configs/context.json")]
pub struct Typed {
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    #[serde(flatten)]
    profiles: BTreeMap<String, Vec<TypedStep>>,
}

/// `name`, `name(arg, …)`, or an object.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum TypedStep {
    Text(String),
    Object(TypedStepObject),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedStepObject {
    /// Resolver name.
    #[serde(rename = "use")]
    resolver: String,
    /// Its arguments; `{persona_id}`, `{thread_id}` and `{trigger}` stand for those of the run.
    args: Option<Vec<String>>,
    /// Most tokens that this step may contribute.
    #[schemars(range(min = 1))]
    budget_tokens: Option<usize>,
    /// A required step that contributes nothing fails the run. Default: false.
    required: Option<bool>,
}

/// What the file means. Problems go to the desk.
pub fn settle(page: &Page<Typed>, desk: &mut Desk<'_>) -> BTreeMap<String, ContextProfile> {
    let mut profiles = BTreeMap::new();
    for (name, steps) in &page.typed.profiles {
        let pointer = child("", name);
        if steps.is_empty() {
            desk.report(page.blame_key(&pointer, "a profile needs at least one step"));
        }
        let settled = steps
            .iter()
            .enumerate()
            .filter_map(|(index, step)| settle_step(page, &child(&pointer, index), step, desk));
        let steps = settled.collect();
        profiles.insert(name.clone(), ContextProfile { steps });
    }
    for name in REQUIRED.iter().filter(|name| !page.has(&child("", name))) {
        let others = profiles.keys().map(String::as_str).filter(|other| !REQUIRED.contains(other));
        let typo = others.min_by_key(|other| strsim::damerau_levenshtein(other, name));
        let problem = page.blame("", format!("profile `{name}` is missing"));
        desk.report(match typo.filter(|other| strsim::damerau_levenshtein(other, name) <= name.len() / 3) {
            Some(other) => problem.hint(format!("is `{other}` a misspelling of it?")),
            None => problem,
        });
    }
    profiles
}

fn settle_step(
    page: &Page<Typed>,
    pointer: &str,
    typed: &TypedStep,
    desk: &mut Desk<'_>,
) -> Option<ContextStep> {
    let step = match typed {
        TypedStep::Text(text) => match step::parse(text) {
            Ok((resolver, args)) => ContextStep { resolver, args, budget_tokens: None, required: false },
            Err(error) => {
                let problem = page.blame(pointer, format!("`{text}` is not a step: {error}"));
                desk.report(problem.hint("write `name` or `name(arg, …)`"));
                return None;
            }
        },
        TypedStep::Object(object) => ContextStep {
            resolver: object.resolver.clone(),
            args: object.args.clone().unwrap_or_default(),
            budget_tokens: object.budget_tokens,
            required: object.required.unwrap_or(false),
        },
    };
    check_resolver(page, pointer, &step, desk);
    for arg in &step.args {
        if let Err(error) = step::check_placeholders(arg) {
            desk.report(page.blame(pointer, error.to_string()));
        }
    }
    Some(step)
}

/// The resolver exists and takes that many arguments.
fn check_resolver(page: &Page<Typed>, pointer: &str, step: &ContextStep, desk: &mut Desk<'_>) {
    let resolvers = &desk.vocabulary.resolvers;
    let Some((name, arity)) = resolvers.iter().find(|(name, _)| *name == step.resolver) else {
        let problem = page.blame(pointer, format!("no resolver `{}`", step.resolver));
        desk.report(problem.did_you_mean(&step.resolver, resolvers.iter().map(|(name, _)| *name)));
        return;
    };
    let given = step.args.len();
    if !arity.contains(&given) {
        let wanted = match (arity.start(), arity.end()) {
            (1, 1) => "1 argument".to_owned(),
            (least, most) if least == most => format!("{least} arguments"),
            (least, most) => format!("{least} to {most} arguments"),
        };
        let message = format!("`{name}` takes {wanted}, not {given}");
        let places = vec!["…"; *arity.start()].join(", ");
        let form = if places.is_empty() { format!("`{name}`") } else { format!("`{name}({places})`") };
        desk.report(page.blame(pointer, message).hint(format!("write {form}")));
    }
}
