//! A responsibility file: front matter between `---`, then the prompt. Every name in it is checked
//! here, so that an accepted file can fire.

use super::cron::{CronSchedule, shortened};
use super::front::{self, FrontEntry, fault};
use super::front_matter::FrontMatter;
use super::names::ParseContext;
use super::timing::{Timing, local_text};
use super::{options, prompt};
use crate::config::answer_schema::path_breach;
use crate::config::{micros_of, zone_hint};
use crate::domain::{DeliverTo, RunOptions, SlotOptions, Timestamp};
use chrono_tz::Tz;

pub use super::front::FileError;

/// Maximum bytes of a responsibility file.
pub const FILE_BYTES_MAX: usize = 64 * 1024;
const NAME_CHARS_MAX: usize = 100;

/// A parsed responsibility file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Responsibility {
    pub name: String,
    pub timing: Timing,
    /// Its own time zone, or the persona's.
    pub timezone: Tz,
    pub enabled: bool,
    /// Maximum micro-dollars of each of its runs.
    pub budget_micros: Option<i64>,
    /// Path of the JSON Schema for its answers; the file is not read here.
    pub output_schema: Option<SchemaPath>,
    pub slot_options: SlotOptions,
    pub run_options: RunOptions,
    /// Line of `deliver_to`, for the error about a missing thread; else the first line.
    pub deliver_to_line: usize,
    /// The body, a template.
    pub prompt: String,
}

/// A file below the persona's folder, and the line that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaPath {
    pub line: usize,
    pub path: String,
}

impl Responsibility {
    /// The first `count` slots after an instant, whether enabled or not, in local time:
    /// `2026-03-29T09:00:00+02:00`.
    pub fn upcoming(&self, after: Timestamp, count: usize) -> Vec<String> {
        let slots = self.timing.upcoming(after, count);
        slots
            .into_iter()
            .map(|slot| local_text(slot, self.timezone))
            .collect()
    }
}

/// Parses a whole file.
pub fn parse(bytes: &[u8], bounds: &ParseContext<'_>) -> Result<Responsibility, FileError> {
    if bytes.len() > FILE_BYTES_MAX {
        return Err(fault(
            1,
            format!("the file is larger than {FILE_BYTES_MAX} bytes"),
        ));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()]
            .iter()
            .filter(|b| **b == b'\n')
            .count()
            + 1;
        fault(line, "the file is not UTF-8")
    })?;
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let mut lines = text.split('\n').zip(1..);
    if !matches!(lines.next(), Some((first, _)) if is_fence(first)) {
        return Err(fault(
            1,
            "a responsibility begins with a line `---`, then its `name` and `schedule`",
        ));
    }
    let mut typed = String::new();
    let end = loop {
        match lines.next() {
            Some((line, number)) if is_fence(line) => break number,
            Some((line, _)) => typed.extend([line, "\n"]),
            None => {
                return Err(fault(
                    1,
                    "the front matter is not closed by a second line `---`",
                ));
            }
        }
    };
    let body: Vec<&str> = lines.map(|(line, _)| line).collect();
    let entries = front::read(&typed, 2)?;
    assemble(
        &FrontMatter::from_entries(&entries)?,
        end,
        &body.join("\n"),
        bounds,
    )
}

fn is_fence(line: &str) -> bool {
    line.trim_end() == "---"
}

fn assemble(
    front_matter: &FrontMatter<'_>,
    end: usize,
    body: &str,
    bounds: &ParseContext<'_>,
) -> Result<Responsibility, FileError> {
    let missing = |key: &str| {
        fault(
            end,
            format!("`{key}` is missing; write `{key}: …` above this line"),
        )
    };
    let (name_line, name) = front_matter.text("name")?.ok_or_else(|| missing("name"))?;
    if name.chars().count() > NAME_CHARS_MAX {
        return Err(fault(
            name_line,
            format!("`name` is longer than {NAME_CHARS_MAX} characters"),
        ));
    }
    let timezone = front_matter
        .text("timezone")?
        .map_or(Ok(bounds.zone), |typed| zone(&typed))?;
    let timing = timing(front_matter, timezone, end)?;
    let slot_options = options::slot_options(front_matter, &timing)?;
    let responsibility = Responsibility {
        name,
        timing,
        timezone,
        enabled: front_matter.flag("enabled")?.unwrap_or(true),
        budget_micros: budget(front_matter)?,
        output_schema: front_matter
            .text("output_schema")?
            .map(schema_path)
            .transpose()?,
        slot_options,
        run_options: options::run_options(front_matter, bounds)?,
        deliver_to_line: front_matter.line("deliver_to").unwrap_or(1),
        prompt: body.trim().to_owned(),
    };
    let to_owners = responsibility.run_options.deliver_to == DeliverTo::Owners;
    if responsibility.enabled && to_owners && bounds.mails_answers && bounds.names.owners.is_empty()
    {
        let problem = "its answers go to the owners, and there are none; name one in `owners` of `configs/gateway.json`, or write \
                       `deliver_to: store`";
        return Err(fault(
            front_matter.line("deliver_to").unwrap_or(end),
            problem,
        ));
    }
    if responsibility.prompt.is_empty() {
        return Err(fault(
            end,
            "the prompt below the front matter is empty; write there what is to be done",
        ));
    }
    let skipped = body[..body.len() - body.trim_start().len()]
        .matches('\n')
        .count();
    prompt::check(&responsibility.prompt)
        .map_err(|error| fault(end + skipped + error.line.unwrap_or(1), error.problem))?;
    Ok(responsibility)
}

/// Parses exactly one of `schedule`, `at` and `every`.
fn timing(front_matter: &FrontMatter<'_>, zone: Tz, end: usize) -> Result<Timing, FileError> {
    let said: Vec<&FrontEntry> = ["schedule", "at", "every"]
        .iter()
        .filter_map(|key| front_matter.get(key))
        .collect();
    let entry = match said.as_slice() {
        [entry] => *entry,
        [] => {
            let problem = "`schedule` is missing; say when by one of `schedule: 0 9 * * mon-fri`, \
                `at: 2026-12-24 18:00` and `every: 90m`";
            return Err(fault(end, problem));
        }
        several => {
            let keys: Vec<String> = several
                .iter()
                .map(|entry| format!("`{}`", entry.key))
                .collect();
            let line = several.iter().map(|entry| entry.line).max().unwrap_or(end);
            return Err(fault(
                line,
                format!(
                    "{} all say when it comes due; keep one of them",
                    keys.join(", ")
                ),
            ));
        }
    };
    let key = entry.key.as_str();
    let Some((line, typed)) = front_matter.text(key)? else {
        return Err(fault(end, "`schedule` is missing"));
    };
    let timing = match key {
        "at" => Timing::at(&typed, zone),
        "every" => Timing::every(&typed),
        _ => CronSchedule::parse(&typed)
            .map(|schedule| Timing::Cron(schedule, zone))
            .map_err(Into::into),
    };
    timing.map_err(|error| {
        let other = ["at", "every"].into_iter().find_map(|other| {
            let rest = typed.strip_prefix(other)?.strip_prefix(' ')?;
            let is_one = match other {
                "at" => Timing::at(rest, zone).is_ok(),
                _ => Timing::every(rest).is_ok(),
            };
            (key == "schedule" && is_one).then(|| format!("; write `{other}: {}`", shortened(rest)))
        });
        fault(
            line,
            format!("`{key}`: {error}{}", other.unwrap_or_default()),
        )
    })
}

/// Parses a path such as `schemas/report.json`. The opened folder prevents leaving it; here such a
/// path is refused with a message.
fn schema_path((line, path): (usize, String)) -> Result<SchemaPath, FileError> {
    let Some(breach) = path_breach(&path) else {
        return Ok(SchemaPath { line, path });
    };
    let problem = format!(
        "`output_schema`: `{}` {breach}; write the path of a `.json` file below the persona's folder, such as \
         `schemas/report.json`",
        shortened(&path)
    );
    Err(fault(line, problem))
}

/// Parses US dollars, such as `0.25`, into micro-dollars. `budget_usd` is the older name of
/// `budget`.
fn budget(front_matter: &FrontMatter<'_>) -> Result<Option<i64>, FileError> {
    if let (Some(one), Some(other)) = (front_matter.line("budget"), front_matter.line("budget_usd"))
    {
        return Err(fault(
            one.max(other),
            "`budget` and `budget_usd` are the same; keep `budget`",
        ));
    }
    let key = if front_matter.get("budget").is_some() {
        "budget"
    } else {
        "budget_usd"
    };
    let Some((line, typed)) = front_matter.text(key)? else {
        return Ok(None);
    };
    let problem = || {
        format!(
            "`{key}` is `{}`; write US dollars such as `0.25`",
            shortened(&typed)
        )
    };
    micros_of(&typed)
        .map(Some)
        .ok_or_else(|| fault(line, problem()))
}

fn zone((line, typed): &(usize, String)) -> Result<Tz, FileError> {
    let unknown = || {
        format!(
            "unknown time zone `{}`; {}",
            shortened(typed),
            zone_hint(typed)
        )
    };
    typed.parse().map_err(|_| fault(*line, unknown()))
}
