//! Problems that would fail the first run, found while there is none: adapters that cannot be
//! built, standing texts that are missing or do not render.
//!
//! Absent on purpose: the network. An unavailable provider shows when it is asked.

use super::budget::unpriced;
use super::provider_health::adapters::{build_provider, build_providers};
use super::provider_health::learnt::{self, LearntModel};
use super::provider_health::status;
use crate::config::{
    Config, ConfigErrors, ContextStep, NameCatalog, Persona, PinnedSkill, Problem, is_untouched,
};
use crate::context::resolvers::knowledge;
use crate::context::resolvers::reads::{BaseFolder, Files, Folders, ReadError};
use crate::context::resolvers::{self, RESOLVERS, StaticFault, StaticStep};
use crate::domain::{ReplyMode, RunOptions, Timestamp};
use crate::providers::embeddings::{self, EmbeddingClient};
use crate::providers::{KEY_ALIASES, Provider, adapters};
use crate::tools::{self, skill_digests};
use cap_std::fs_utf8::Dir;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Returns the names of every provider, resolver and tool of this binary.
pub fn name_catalog() -> NameCatalog {
    let keys = adapters().filter_map(|adapter| adapter.key_variable.map(|key| (adapter.id, key)));
    let keys = keys.chain(KEY_ALIASES.iter().copied());
    NameCatalog {
        providers: adapters().map(|adapter| adapter.id).collect(),
        resolvers: RESOLVERS
            .iter()
            .map(|resolver| (resolver.name(), resolver.arguments()))
            .collect(),
        tools: tools::builtin().names().map(str::to_owned).collect(),
        agents: adapters()
            .filter_map(|adapter| adapter.bounds.map(|bounds| (adapter.id, bounds)))
            .collect(),
        key_variables: keys.collect(),
        embedding_providers: embeddings::adapters().collect(),
        settings: adapters()
            .map(|adapter| (adapter.id, adapter.settings.concat()))
            .collect(),
    }
}

/// Returns everything that can be found without a run: problems, and warnings.
pub fn examine(config: &Config, now: Timestamp) -> (Vec<Problem>, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut adapters = BTreeMap::new();
    for (provider, built) in build_providers(config) {
        match built {
            Ok(adapter) => {
                adapters.insert(provider, adapter);
            }
            Err(error) => {
                let users: Vec<String> = status::users(config, &provider)
                    .into_iter()
                    .map(|user| user.who)
                    .collect();
                let message = format!(
                    "provider `{provider}` ({}) cannot be used: {error}",
                    users.join(", ")
                );
                let hint = "mend what it names in the provider's block; `attache providers check` tries it again";
                problems.push(at_provider(config, &provider, message).hint(hint));
            }
        }
    }
    problems.extend(vectors_problem(config));
    problems.extend(mute_personas(config, &adapters));
    problems.extend(price_problems(config, &adapters, now));
    problems.extend(text_problems(config, now));
    let mut warnings = warnings(config, &adapters, now);
    warnings.extend(unread_knowledge(config));
    warnings.extend(learnt_without_tools(config, now));
    (problems, warnings)
}

/// Reports a maker of vectors that cannot be built.
fn vectors_problem(config: &Config) -> Option<Problem> {
    let of = config.inference.embeddings.as_ref()?;
    let block = config.inference.providers.get(&of.provider);
    let error = EmbeddingClient::new(&of.provider, &block.cloned().unwrap_or_default()).err()?;
    let message = format!(
        "provider `{}` (vectors of letters) cannot be used: {error}",
        of.provider
    );
    let hint = "mend what it names in the provider's block";
    Some(at_provider(config, &of.provider, message).hint(hint))
}

/// Builds a problem at a provider's block, or at the setting that chooses the provider.
fn at_provider(config: &Config, provider: &str, message: String) -> Problem {
    let file = "configs/inference.json";
    let block = format!(
        "/providers/{}",
        provider.replace('~', "~0").replace('/', "~1")
    );
    let problem = config.snapshot.problem_at(file, &block, message.clone());
    if problem.column > Some(1) {
        problem
    } else {
        config.snapshot.problem_at(file, "/provider", message)
    }
}

/// Returns warnings about configurations that work but hardly as meant: a model that does not get
/// the tools of its persona answers without them.
pub fn warnings(
    config: &Config,
    adapters: &BTreeMap<String, Box<dyn Provider>>,
    now: Timestamp,
) -> Vec<Problem> {
    let hint = "set `tools` to `[]` if that is meant, or choose another provider";
    let without_tools = without_tools(config, adapters);
    let answering = without_tools.filter(|(persona, _)| persona.reply != ReplyMode::ToolOnly);
    let toolless = answering.map(|(persona, why)| of_persona(persona, "tools", why).hint(hint));
    let uncounted = unpriced::unpriced_uncounted(config, now, reporting(adapters));
    config
        .warnings
        .iter()
        .cloned()
        .chain(toolless)
        .chain(wordless(config))
        .chain(changed_skills(config))
        .chain(uncounted)
        .collect()
}

/// Reports personas whose model was found to take no tools: it is asked without them, whatever they would be needed for.
fn learnt_without_tools(config: &Config, now: Timestamp) -> Vec<Problem> {
    let mut warnings = Vec::new();
    for learnt in learnt::in_force(config, now) {
        let LearntModel {
            provider, model, ..
        } = &learnt;
        let asks = |persona: &&Persona| {
            let choices = config.inference.choices_for(persona);
            let first = choices.first();
            first.is_some_and(|choice| choice.provider == *provider && choice.model == *model)
                && persona.tools.named().is_none_or(|tools| !tools.is_empty())
        };
        if !learnt.takes_no_tools() {
            continue;
        }
        for persona in config.personas.iter().filter(asks) {
            let why = format!(
                "`{model}` of provider `{provider}` takes no tools, so this persona is offered none"
            );
            let hint = format!(
                "set `tools` to `[]` if that is meant; else start the server with tools and run `attache providers test {provider}`, \
                 or choose another model"
            );
            warnings.push(of_persona(persona, "tools", why).hint(hint));
        }
    }
    warnings
}

/// Reports personas that answer by a tool only, which their model does not get: no letter would
/// ever be answered.
fn mute_personas(config: &Config, adapters: &BTreeMap<String, Box<dyn Provider>>) -> Vec<Problem> {
    let hint = "set `reply` to `final`, or choose another provider";
    let mute =
        without_tools(config, adapters).filter(|(persona, _)| persona.reply == ReplyMode::ToolOnly);
    let problem = |(persona, why): (&Persona, String)| {
        of_persona(
            persona,
            "reply",
            format!("{why}, and `tool_only` lets nothing else answer"),
        )
        .hint(hint)
    };
    mute.map(problem).collect()
}

fn without_tools<'a>(
    config: &'a Config,
    adapters: &BTreeMap<String, Box<dyn Provider>>,
) -> impl Iterator<Item = (&'a Persona, String)> {
    adapters.iter().flat_map(move |(name, adapter)| {
        let personas = status::without_tools(config, name, adapter.as_ref());
        let why = format!("provider `{name}` does not offer this persona's tools to its model");
        personas
            .into_iter()
            .map(move |persona| (persona, why.clone()))
    })
}

fn of_persona(persona: &Persona, path: &str, message: String) -> Problem {
    let file = format!("personas/{}/persona.json", persona.id);
    Problem {
        path: path.to_owned(),
        ..Problem::in_file(&file, message)
    }
}

/// Reports models without a price although a bound on money is configured: it could not be kept.
pub fn price_problems(
    config: &Config,
    adapters: &BTreeMap<String, Box<dyn Provider>>,
    now: Timestamp,
) -> Vec<Problem> {
    unpriced::unpriced(config, now, reporting(adapters))
}

/// Returns a function that reports whether a provider returns the cost of a model's calls.
fn reporting(adapters: &BTreeMap<String, Box<dyn Provider>>) -> impl Fn(&str, &str) -> bool {
    |provider, model| {
        adapters
            .get(provider)
            .is_some_and(|adapter| adapter.capabilities(model).reports_cost)
    }
}

/// Reports files of `knowledge` that no run gets, each with the reason.
fn unread_knowledge(config: &Config) -> Vec<Problem> {
    let unread = config.personas.iter().flat_map(|persona| {
        // A folder that cannot be opened is a problem of its own.
        let survey = knowledge::survey(&persona.folder);
        let left_out = survey.map(|survey| survey.left_out).unwrap_or_default().into_iter();
        left_out.map(|(file, why)| {
            let message = format!("is not read as knowledge: {why}");
            let hint =
                "put it as text into `knowledge`, or elsewhere; `attache persona show` lists what is read";
            Problem::in_file(&format!("personas/{}/{file}", persona.id), message).hint(hint)
        })
    });
    unread.collect()
}

/// Requirements of a responsibility whose runs have options of their own.
pub struct ScheduleRequirements<'a> {
    /// Path relative to the workspace.
    pub file: String,
    pub persona: &'a Persona,
    pub options: RunOptions,
    /// Bound on each run, in micro-dollars.
    pub budget_micros: Option<i64>,
}

/// Reports what would fail the first run of responsibilities that name a model, or set a bound, of
/// their own.
pub fn schedule_problems(
    config: &Config,
    now: Timestamp,
    schedules: &[ScheduleRequirements<'_>],
) -> Vec<Problem> {
    let reports_cost = |provider: &str, model: &str| {
        build_provider(config, provider)
            .is_ok_and(|adapter| adapter.capabilities(model).reports_cost)
    };
    let problems = schedules.iter().flat_map(|schedule| {
        let name = schedule.options.provider.as_ref();
        let broken = name.and_then(|name| {
            build_provider(config, name)
                .err()
                .map(|error| (name, error))
        });
        let broken = broken.map(|(name, error)| {
            Problem::in_file(
                &schedule.file,
                format!("provider `{name}` cannot be used: {error}"),
            )
        });
        [
            broken,
            unpriced::unpriced_schedule(
                config,
                now,
                &schedule.file,
                schedule.persona,
                &schedule.options,
                schedule.budget_micros,
                reports_cost,
            ),
        ]
    });
    problems.flatten().collect()
}

/// Reports problems of the standing texts, for an engine that has built its adapters.
pub fn text_problems(config: &Config, now: Timestamp) -> Vec<Problem> {
    let (workspace, shared) = (opened(&config.workspace), Mutex::default());
    let problems = config
        .personas
        .iter()
        .flat_map(|persona| faults(config, persona, &workspace, &shared, now))
        .collect();
    // Profiles mostly share their files, so a problem of one file is found several times.
    ConfigErrors::from_problems(problems).map_or_else(Vec::new, |errors| errors.problems)
}

/// Texts of the workspace that were read for earlier personas: ten thousand of them have the same prompts.
type SharedTexts = Mutex<HashMap<String, Option<Arc<str>>>>;

/// Files of a persona and of its workspace, of which the latter are read once for all.
struct TextsOnce<'a> {
    folders: Folders<'a>,
    shared: &'a SharedTexts,
}

impl Files for TextsOnce<'_> {
    fn text(
        &self,
        place: BaseFolder,
        path: &str,
        bytes_max: u64,
    ) -> Result<Option<Arc<str>>, ReadError> {
        if place != BaseFolder::Workspace {
            return self.folders.text(place, path, bytes_max);
        }
        let shared = || self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = shared().get(path) {
            return Ok(known.clone());
        }
        let text = self.folders.text(place, path, bytes_max)?;
        shared().insert(path.to_owned(), text.clone());
        Ok(text)
    }
}

fn opened(folder: &Path) -> io::Result<Dir> {
    Dir::open_ambient_dir(folder.display().to_string(), cap_std::ambient_authority())
}

/// Reports problems of the steps of all profiles for this persona.
fn faults(
    config: &Config,
    persona: &Persona,
    workspace: &io::Result<Dir>,
    shared: &SharedTexts,
    now: Timestamp,
) -> Vec<Problem> {
    let folder = opened(&persona.folder);
    let (workspace, folder) = match (workspace, &folder) {
        (Ok(workspace), Ok(folder)) => (workspace, folder),
        (Err(error), _) | (_, Err(error)) => {
            let problem = Problem::in_file(
                &format!("personas/{}", persona.id),
                format!("cannot be opened: {error}"),
            );
            return vec![problem.hint(
                "the engine reads its files for each run: see whose the folder is, by `ls -ld`",
            )];
        }
    };
    let files = TextsOnce {
        folders: Folders {
            workspace,
            persona: folder,
        },
        shared,
    };
    // Profiles mostly have the same steps.
    let mut faultless = HashSet::new();
    let fault = |(profile, index, step): (&String, usize, &ContextStep)| {
        // Without one that is required the first run would fail.
        let is_optional = step.is_optional() && step.required != Some(true);
        let same = (step.resolver.clone(), step.args.clone(), is_optional);
        if faultless.contains(&same) {
            return None;
        }
        let args: Vec<String> = step
            .args
            .iter()
            .map(|arg| arg.replace("{persona_id}", persona.id.as_str()))
            .collect();
        let given = StaticStep {
            args: &args,
            is_optional,
            persona,
            files: &files,
            now,
        };
        let Some(fault) = resolvers::find(&step.resolver)?.fault(given) else {
            faultless.insert(same);
            return None;
        };
        let StaticFault { file, what, hint } = fault;
        let problem = match file {
            Some(file) => Problem::in_file(&file, what),
            None => config.snapshot.problem_at(
                "configs/context.json",
                &format!("/{profile}/{index}"),
                what,
            ),
        };
        Some(hint.into_iter().fold(problem, Problem::hint))
    };
    let steps = config.context.iter().flat_map(|(name, profile)| {
        profile
            .steps
            .iter()
            .enumerate()
            .map(move |(index, step)| (name, index, step))
    });
    steps.filter_map(fault).collect()
}

/// Reports skills that are off because a file of theirs is not as it was approved.
fn changed_skills(config: &Config) -> Vec<Problem> {
    let is_as_approved = |skill: &PinnedSkill| {
        let path = config.workspace.join(&skill.folder);
        let is_folder = path.symlink_metadata().is_ok_and(|data| data.is_dir());
        let folder = path.to_str().filter(|_| is_folder);
        let folder =
            folder.and_then(|path| Dir::open_ambient_dir(path, cap_std::ambient_authority()).ok());
        folder.is_some_and(|folder| skill_digests(&folder).as_ref() == Ok(&skill.files))
    };
    let changed = config.skills.iter().filter(|skill| !is_as_approved(skill));
    let problems = changed.map(|skill| {
        let what = "is not as you approved it, so this skill is off";
        let hint = format!(
            "`attache skills list` shows its state, `attache skills approve {}` approves it as it is",
            skill.name()
        );
        Problem::in_file(&skill.folder, what).hint(hint)
    });
    problems.collect()
}

/// Reports personas whose PERSONA.md is empty, or still the text that asks for one.
fn wordless(config: &Config) -> Vec<Problem> {
    let is_read = config
        .context
        .values()
        .flat_map(|profile| &profile.steps)
        .any(|step| step.resolver == "persona");
    let wordless = config
        .personas
        .iter()
        .filter(|_| is_read)
        .filter_map(|persona| {
            let text = std::fs::read_to_string(persona.folder.join("PERSONA.md")).ok()?;
            let (what, hint) = if text.trim().is_empty() {
                (
                    "is empty: the model is told nothing of the persona",
                    "write into it who the persona is",
                )
            } else if is_untouched(&text) {
                (
                    "still says `Say here who …`, and the model reads it",
                    "replace that sentence by what it asks for",
                )
            } else {
                return None;
            };
            let file = format!("personas/{}/PERSONA.md", persona.id);
            Some(Problem::in_file(&file, what).hint(hint))
        });
    wordless.collect()
}
