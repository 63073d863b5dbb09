//! The keys of a responsibility beside name and time: options of its slots and of its runs.

use super::front::{FileError, FrontEntry, FrontValue, Node, fault};
use super::front_matter::FrontMatter;
use super::names::ParseContext;
use super::nearest::hint;
use super::run_settings;
use super::timing::{PERIOD_MAX, Timing};
use crate::config::spell;
use crate::domain::{
    Address, CatchUp, DeliverTo, OWNER_SCHEDULE_TOOLS, Overlap, PlanMode, ReplyMode, RunId,
    RunOptions, SlotOptions, ThreadId,
};
use std::time::Duration;

/// Minimum window and grace period; the scheduler's resolution is a minute.
const SPAN_MIN: Duration = Duration::from_secs(60);
/// Divisor of the minimum distance between slots that bounds the jitter.
const JITTER_PART: u32 = 10;
const RETRIES_MAX: u32 = 99;
const PEOPLE_MAX: usize = 50;
const MODEL_CHARS_MAX: usize = 200;

/// Parses the options of slots.
pub(super) fn slot_options(
    front_matter: &FrontMatter<'_>,
    timing: &Timing,
) -> Result<SlotOptions, FileError> {
    let usual = SlotOptions::default();
    let at_least = |(line, span): (usize, Duration), key: &str| {
        if (SPAN_MIN..=PERIOD_MAX).contains(&span) {
            return Ok(span);
        }
        let (min, max) = (spell(SPAN_MIN), spell(PERIOD_MAX));
        Err(fault(
            line,
            format!(
                "`{key}` is `{}`; write a duration from `{min}` to `{max}`",
                spell(span)
            ),
        ))
    };
    let window = front_matter
        .span("catch_up_window")?
        .map(|found| at_least(found, "catch_up_window"))
        .transpose()?;
    let grace = front_matter
        .span("grace")?
        .map(|found| at_least(found, "grace"))
        .transpose()?;
    let catch_up = front_matter.word("catch_up", &["latest", "skip", "all"], CatchUp::parse)?;
    let overlap = front_matter.word("overlap", &["skip", "buffer_one"], Overlap::parse)?;
    let jitter = front_matter
        .span("jitter")?
        .map(|found| jitter(found, timing))
        .transpose()?;
    Ok(SlotOptions {
        catch_up: catch_up.unwrap_or(usual.catch_up),
        catch_up_window: window.unwrap_or(usual.catch_up_window),
        overlap: overlap.unwrap_or(usual.overlap),
        jitter: jitter.unwrap_or(usual.jitter),
        grace: grace.unwrap_or(usual.grace),
        proposed_by: front_matter
            .text("proposed_by")?
            .map(|(_, run)| RunId::new(run)),
    })
}

fn jitter((line, jitter): (usize, Duration), timing: &Timing) -> Result<Duration, FileError> {
    if jitter.is_zero() {
        return Ok(jitter);
    }
    let Some(period) = timing.period_min() else {
        return Err(fault(
            line,
            "`jitter` is nothing for `at`: it comes once, at its instant; leave it out",
        ));
    };
    let longest = period / JITTER_PART;
    if jitter > longest {
        let (between, longest) = (spell(period), spell(longest));
        let problem = format!(
            "`jitter` is `{}`, and may be a tenth of the time between two slots: they come {between} apart, so at most \
             `{longest}`",
            spell(jitter)
        );
        return Err(fault(line, problem));
    }
    Ok(jitter)
}

/// Parses the options of runs.
pub(super) fn run_options(
    front_matter: &FrontMatter<'_>,
    bounds: &ParseContext<'_>,
) -> Result<RunOptions, FileError> {
    let known = |key: &str, found: Option<(usize, String)>, names: &[String]| match found {
        Some((line, name)) if !names.contains(&name) => Err(fault(
            line,
            format!(
                "`{key}`: there is no {key} `{}`{}",
                shown(&name),
                hint(&name, names)
            ),
        )),
        found => Ok(found.map(|(_, name)| name)),
    };
    let profile = known(
        "profile",
        front_matter.text("profile")?,
        &bounds.names.profiles,
    )?;
    let provider_line = front_matter.line("provider");
    let provider = known(
        "provider",
        front_matter.text("provider")?,
        &bounds.names.providers,
    )?;
    let model = front_matter.text("model")?;
    if let Some((line, model)) = model
        .as_ref()
        .filter(|(_, model)| model.chars().count() > MODEL_CHARS_MAX)
    {
        return Err(fault(
            *line,
            format!(
                "`model` `{}…` is longer than {MODEL_CHARS_MAX} characters",
                shown(model)
            ),
        ));
    }
    let has_model = |name: &String| bounds.names.with_model.contains(name);
    if let (Some(line), None) = (provider_line, &model)
        && !provider.as_ref().is_some_and(has_model)
    {
        let problem = "`provider` needs a `model` beside it, or in its block: another provider has other models";
        return Err(fault(line, problem));
    }
    Ok(RunOptions {
        profile: profile.unwrap_or_else(|| RunOptions::PROFILE.to_owned()),
        provider,
        model: model.map(|(_, model)| model),
        tools: tools(front_matter, bounds)?,
        deliver_to: front_matter
            .get("deliver_to")
            .map_or(Ok(DeliverTo::Owners), |entry| deliver_to(entry, bounds))?,
        retries: front_matter.number("retries", RETRIES_MAX)?,
        plan: front_matter.word("plan", &["none", "ask"], PlanMode::parse)?,
        settings: run_settings::parse(front_matter)?,
        reply: front_matter.word("reply", &["final", "tool_only", "draft"], ReplyMode::parse)?,
    })
}

fn tools(
    front_matter: &FrontMatter<'_>,
    bounds: &ParseContext<'_>,
) -> Result<Option<Vec<String>>, FileError> {
    let Some(list) = front_matter.texts("tools")? else {
        return Ok(None);
    };
    let all = &bounds.names.tools;
    let own: Vec<String> = all
        .iter()
        .filter(|tool| bounds.tools.is_none_or(|own| own.contains(tool)))
        .cloned()
        .collect();
    let mut chosen = Vec::new();
    for (line, tool) in list {
        let name = shown(&tool);
        if !all.contains(&tool) {
            return Err(fault(
                line,
                format!("`tools`: there is no tool `{name}`{}", hint(&tool, &own)),
            ));
        }
        if !own.contains(&tool) {
            let problem = format!(
                "`tools`: its persona may not use `{name}`{}",
                hint("", &own)
            );
            return Err(fault(line, problem));
        }
        if OWNER_SCHEDULE_TOOLS.contains(&tool.as_str())
            && front_matter.line("proposed_by").is_some()
        {
            let problem = format!(
                "`tools`: `{name}` is for responsibilities of your own: take `proposed_by` out if this is one"
            );
            return Err(fault(line, problem));
        }
        if chosen.contains(&tool) {
            return Err(fault(line, format!("`tools` names `{name}` twice")));
        }
        chosen.push(tool);
    }
    Ok(Some(chosen))
}

const DELIVER_TO: &str =
    "write `mail` (to the owners), `store`, `mail: [ann@example.test]` or `thread: THREAD_ID`";

fn deliver_to(entry: &FrontEntry, bounds: &ParseContext<'_>) -> Result<DeliverTo, FileError> {
    let of_map = |entries: &[FrontEntry]| match entries {
        [to] if to.key == "mail" => people(&to.value, bounds).map(DeliverTo::People),
        [to] if to.key == "thread" => match &to.value.value {
            FrontValue::Text(thread) if is_id(thread.trim()) => {
                Ok(DeliverTo::Thread(ThreadId::new(thread.trim().to_owned())))
            }
            _ => Err(fault(
                to.line,
                "`deliver_to`: `thread` is the id of a thread, as `attache threads list` shows it",
            )),
        },
        [_, second, ..] => Err(fault(
            second.line,
            format!("`deliver_to` has one way; {DELIVER_TO}"),
        )),
        [other] => Err(fault(
            other.line,
            format!("`deliver_to` has no `{}`; {DELIVER_TO}", shown(&other.key)),
        )),
        [] => Err(fault(
            entry.line,
            format!("`deliver_to` has no value; {DELIVER_TO}"),
        )),
    };
    match &entry.value.value {
        FrontValue::Text(word) if word.trim() == "mail" => Ok(DeliverTo::Owners),
        FrontValue::Text(word) if word.trim() == "store" => Ok(DeliverTo::Store),
        FrontValue::Text(word) => Err(fault(
            entry.value.line,
            format!("`deliver_to` is `{}`; {DELIVER_TO}", shown(word)),
        )),
        FrontValue::Map(entries) => of_map(entries),
        FrontValue::List(_) | FrontValue::Nothing => Err(fault(
            entry.line,
            format!("`deliver_to` is a list or nothing; {DELIVER_TO}"),
        )),
    }
}

fn people(value: &Node, bounds: &ParseContext<'_>) -> Result<Vec<Address>, FileError> {
    let nobody = || {
        fault(
            value.line,
            "`deliver_to`: `mail` names nobody; list addresses, or write `deliver_to: mail`",
        )
    };
    let nodes = match &value.value {
        FrontValue::List(nodes) if nodes.is_empty() => return Err(nobody()),
        FrontValue::List(nodes) if nodes.len() > PEOPLE_MAX => {
            return Err(fault(
                value.line,
                format!("`deliver_to`: `mail` names more than {PEOPLE_MAX} people"),
            ));
        }
        FrontValue::List(nodes) => nodes.iter().collect(),
        FrontValue::Text(_) => vec![value],
        FrontValue::Map(_) | FrontValue::Nothing => return Err(nobody()),
    };
    let mut people: Vec<Address> = Vec::new();
    for node in nodes {
        let FrontValue::Text(typed) = &node.value else {
            return Err(nobody());
        };
        let address = Address::parse(typed.trim())
            .map_err(|bad| fault(node.line, format!("`deliver_to`: {bad}")))?;
        if !bounds.names.reaches(&address) {
            let problem = format!(
                "`deliver_to`: `{address}` is no owner and stands not in `send_allow` of `configs/security.json`; add it there"
            );
            return Err(fault(node.line, problem));
        }
        if people.iter().any(|person| person.key() == address.key()) {
            return Err(fault(
                node.line,
                format!("`deliver_to` names `{address}` twice"),
            ));
        }
        people.push(address);
    }
    Ok(people)
}

fn is_id(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

fn shown(text: &str) -> String {
    super::cron::shortened(text.trim())
}
