//! `configs/context.json`: named profiles, each an ordered list of resolver steps.

use crate::config::step;
use crate::config::values::section::*;

/// Profiles that the engine itself uses.
const REQUIRED: &[&str] = &["thread", "responsibility"];

/// Profiles by name, each with its ordered steps. `thread` and `responsibility` must exist.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(title = "configs/context.json")]
pub struct TypedContext {
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    #[serde(flatten)]
    profiles: BTreeMap<String, Vec<TypedStep>>,
}

/// A step: `name`, `name(arg, …)`, or an object.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum TypedStep {
    Text(String),
    Object(TypedStepObject),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedStepObject {
    /// Name of the resolver.
    #[serde(rename = "use")]
    resolver: String,
    /// Arguments of the resolver; `{persona_id}`, `{thread_id}` and `{trigger}` stand for the
    /// values of the run.
    args: Option<Vec<String>>,
    /// Maximum tokens that this step may contribute.
    #[schemars(range(min = 1))]
    budget_tokens: Option<usize>,
    /// `true`: the run fails when this step contributes nothing. `false`: the file of a `load-file` may be missing. Runs wait
    /// for any other file, also with `true`; with `true` they fail without one whose path has a placeholder.
    required: Option<bool>,
}

/// Tokens of the longest letter that is answered together with the next one (`store/mail/together.rs`), generously counted.
const LETTER_TOKENS: usize = 1000;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct ContextProfile {
    pub steps: Vec<ContextStep>,
}

impl ContextProfile {
    /// Step that contributes the summary of a thread; without it no summaries are made.
    const SUMMARY: &str = "thread-summary";

    /// Reports whether threads are summarised for runs of this profile.
    pub fn has_summaries(&self) -> bool {
        self.steps.iter().any(|step| step.resolver == Self::SUMMARY)
    }

    /// Returns how many letters a run of this profile can answer, at most `max`: those before its own stand in the history, which
    /// keeps the newest within its budget.
    pub fn letters_at_once(&self, max: usize) -> usize {
        let mut steps = self.steps.iter();
        let history = steps.find(|step| step.resolver == "thread-history");
        let tokens = history.map(|step| step.budget_tokens.unwrap_or(usize::MAX));
        tokens.map_or(1, |tokens| max.min(1 + tokens / LETTER_TOKENS))
    }

    /// Returns the profile of the runs that summarise threads for this one. No file has it: what they are told is the
    /// engine's.
    pub fn summary_profile(&self) -> Self {
        let history = self
            .steps
            .iter()
            .find(|step| step.resolver == "thread-history");
        let tokens = history.and_then(|step| step.budget_tokens);
        Self {
            steps: vec![ContextStep {
                resolver: "summary-request".to_owned(),
                args: tokens.iter().map(usize::to_string).collect(),
                budget_tokens: None,
                required: None,
            }],
        }
    }
}

/// One step of the pipeline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContextStep {
    /// Name of the resolver.
    #[serde(rename = "use")]
    pub resolver: String,
    /// Arguments, with unreplaced placeholders such as `{persona_id}`.
    pub args: Vec<String>,
    pub budget_tokens: Option<usize>,
    /// `true`: the run fails when this step contributes nothing.
    pub required: Option<bool>,
}

impl ContextStep {
    /// Reports whether no run waits for a file that it names: the owner says so, or it is of one trigger, thread or persona,
    /// for which it may never be there.
    pub fn is_optional(&self) -> bool {
        self.required == Some(false) || self.args.iter().any(|arg| arg.contains('{'))
    }
}

/// Resolves the file. Problems go to the context.
pub fn resolve(
    file: &ConfigFile<TypedContext>,
    ctx: &mut CheckContext<'_>,
) -> BTreeMap<String, ContextProfile> {
    let mut profiles = BTreeMap::new();
    for (name, steps) in &file.typed.profiles {
        let place = &mut ctx.place(file, child("", name));
        if steps.is_empty() {
            place.refuse_key("", "a profile needs at least one step", "");
        }
        let resolved = steps.iter().enumerate();
        let resolved =
            resolved.filter_map(|(index, step)| resolve_step(step, &mut place.under(index)));
        let steps = resolved.collect();
        profiles.insert(name.clone(), ContextProfile { steps });
    }
    for name in REQUIRED.iter().filter(|name| !file.has(&child("", name))) {
        let others = profiles
            .keys()
            .map(String::as_str)
            .filter(|other| !REQUIRED.contains(other));
        let typo = others.min_by_key(|other| strsim::damerau_levenshtein(other, name));
        let problem = file.problem_at("", format!("profile `{name}` is missing"));
        ctx.report(
            match typo.filter(|other| strsim::damerau_levenshtein(other, name) <= name.len() / 3) {
                Some(other) => problem.hint(format!("is `{other}` a misspelling of it?")),
                None => problem,
            },
        );
    }
    profiles
}

fn resolve_step(typed: &TypedStep, place: &mut CheckPlace<'_, '_>) -> Option<ContextStep> {
    let step = match typed {
        TypedStep::Text(text) => match step::parse(text) {
            Ok((resolver, args)) => ContextStep {
                resolver,
                args,
                budget_tokens: None,
                required: None,
            },
            Err(error) => {
                let message = format!("`{text}` is not a step: {error}");
                place.refuse("", message, "write `name` or `name(arg, …)`");
                return None;
            }
        },
        TypedStep::Object(object) => ContextStep {
            resolver: object.resolver.clone(),
            args: object.args.clone().unwrap_or_default(),
            budget_tokens: object.budget_tokens,
            required: object.required,
        },
    };
    check_resolver(&step, place);
    for arg in &step.args {
        if let Err(error) = step::check_placeholders(arg) {
            place.complain("", error.to_string());
        }
    }
    Some(step)
}

/// Checks that the resolver exists and takes that many arguments.
fn check_resolver(step: &ContextStep, place: &mut CheckPlace<'_, '_>) {
    let names = place.ctx.names;
    let resolvers = &names.resolvers;
    let Some((name, arity)) = resolvers.iter().find(|(name, _)| *name == step.resolver) else {
        let message = format!("no resolver `{}`", step.resolver);
        let known = resolvers.iter().map(|(name, _)| *name);
        return place.unknown("", message, &step.resolver, known);
    };
    let given = step.args.len();
    if !arity.contains(&given) {
        let wanted = match (arity.start(), arity.end()) {
            (1, 1) => "1 argument".to_owned(),
            (least, most) if least == most => format!("{least} arguments"),
            (least, most) => format!("{least} to {most} arguments"),
        };
        let places = vec!["…"; *arity.start()].join(", ");
        let form = match places.as_str() {
            "" => format!("write `{name}`"),
            places => format!("write `{name}({places})`"),
        };
        place.refuse("", format!("`{name}` takes {wanted}, not {given}"), form);
    }
}
