//! Named instances of an adapter: `claude:strict` beside `claude`, `compat:groq`. Each has a block,
//! and with it a key, a server and settings of its own.
//!
//! Without an `api_key_variable`, an instance has the key of its adapter.

use crate::config::file::{INFERENCE_FILE, Problem};
use crate::config::values::check_context::{COMPAT, CheckContext, CheckPlace, adapter_of};

/// Longest part of a name after the colon.
const NAME_LEN_MAX: usize = 40;

/// Reports whether a name is that of an instance, as a block may introduce it.
pub fn is_name(name: &str, ctx: &CheckContext<'_>) -> bool {
    instance_of(name, ctx).is_some_and(is_instance)
}

/// Reports whether there is a provider of that name; an unknown one is a problem.
pub fn is_provider(name: &str, path: &str, place: &mut CheckPlace<'_, '_>) -> bool {
    let is_known = place.ctx.knows_provider(name);
    if !is_known {
        let problem = place
            .file
            .problem_at(&place.at(path), format!("no provider `{name}`"));
        let problem = explained(problem, name, place.ctx);
        place.ctx.report(problem);
    }
    is_known
}

/// Adds a hint to the problem of an unknown provider.
pub fn explained(problem: Problem, name: &str, ctx: &CheckContext<'_>) -> Problem {
    let adapter = adapter_of(name);
    let names = ctx.provider_names();
    let relatives = names.iter().map(String::as_str);
    let relatives: Vec<_> = relatives.filter(|n| adapter_of(n) == adapter).collect();
    match instance_of(name, ctx) {
        Some(instance) if !is_instance(instance) => problem.hint(format!(
            "the name after `{adapter}:` has 1 to {NAME_LEN_MAX} of a-z 0-9 `-` `_`"
        )),
        Some(_) => {
            let settings = match adapter {
                COMPAT => "\"base_url\": \"…\"",
                _ => "",
            };
            let others = match relatives.as_slice() {
                [] => String::new(),
                relatives => format!("; of `{adapter}` there are: {}", relatives.join(", ")),
            };
            let block = format!(
                "describe it in `providers` of `{INFERENCE_FILE}`: `\"{name}\": {{{settings}}}`{others}"
            );
            problem.did_you_mean_or(name, &relatives, &block)
        }
        None => problem.did_you_mean(name, names.iter().map(String::as_str)),
    }
}

/// Returns the part of a name after the colon; `None`: there is none, or no such adapter.
fn instance_of<'n>(name: &'n str, ctx: &CheckContext<'_>) -> Option<&'n str> {
    let (adapter, instance) = name.split_once(':')?;
    let is_known = adapter == COMPAT || ctx.names.providers.contains(&adapter);
    is_known.then_some(instance)
}

/// Checks the name of an instance; it appears in listings, rows and logs.
fn is_instance(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    !name.is_empty() && name.len() <= NAME_LEN_MAX && name.chars().all(legal)
}
