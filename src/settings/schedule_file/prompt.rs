//! A responsibility's body as a template: checked when its file is read, rendered when its slot
//! fires.
//!
//! The template may read four names and recent letters (`inbox.rs`), and branch or loop over them.
//! Absent on purpose: `set`, macros, includes, and every operation that can grow a text or a list
//! (`tags.rs`), because fuel counts instructions and not bytes.

use super::{inbox, tags};
use crate::config::Persona;
use crate::domain::Timestamp;
use chrono::SecondsFormat;
use chrono_tz::Tz;
use minijinja::{Environment, UndefinedBehavior, Value, context, filters};
use std::io;

pub use super::inbox::{LETTERS_MAX, PromptLetter, Window, letters_wanted};
pub use super::prompt_error::PromptError;

/// Maximum instructions of one prompt.
const FUEL: u64 = 20_000;
/// Maximum bytes of a rendered prompt.
const PROMPT_BYTES_MAX: usize = 256 * 1024;

/// Names that a prompt may use.
pub const NAMES: &[&str] = &[
    "now",
    "slot",
    "last_run",
    "persona",
    "persona.id",
    "persona.name",
    "persona.address",
    INBOX,
];
/// Function that a prompt may call.
const INBOX: &str = "inbox";

/// Variables of a prompt.
#[derive(Debug, Clone, Copy)]
pub struct PromptVariables<'a> {
    pub now: Timestamp,
    /// The slot that fires; for a manual run equal to `now`.
    pub slot: Timestamp,
    /// The last slot that fired before this one.
    pub last_run: Option<Timestamp>,
    /// Time zone for formatting the times.
    pub zone: Tz,
    pub persona: &'a Persona,
    /// Recent letters, newest first, for prompts that include them ([`letters_wanted`]); at most
    /// [`LETTERS_MAX`].
    pub letters: &'a [PromptLetter],
}

/// Refuses a body that can never be rendered: syntax errors, unknown names, unsupported statements.
pub fn check(body: &str) -> Result<(), PromptError> {
    inbox::check(body)?;
    tags::check(body)?;
    let environment = environment();
    let template = environment
        .template_from_str(body)
        .map_err(|error| reworded(&error))?;
    let mut unknown: Vec<String> = template
        .undeclared_variables(true)
        .into_iter()
        .filter(|name| !NAMES.contains(&name.as_str()))
        .collect();
    unknown.sort();
    match unknown.first() {
        None => Ok(()),
        Some(name) => Err(PromptError {
            line: line_of(body, name),
            problem: format!(
                "unknown name `{name}` in the prompt; there are: {}",
                NAMES.join(", ")
            ),
        }),
    }
}

/// Renders a body. Times are RFC 3339 in the responsibility's zone, for example
/// `2026-03-29T09:00:00+02:00`.
pub fn render(body: &str, variables: &PromptVariables<'_>) -> Result<String, PromptError> {
    tags::check(body)?;
    let local = |at: Timestamp| {
        at.to_utc()
            .with_timezone(&variables.zone)
            .to_rfc3339_opts(SecondsFormat::Secs, false)
    };
    let persona = variables.persona;
    let known = context! {
        now => local(variables.now),
        slot => local(variables.slot),
        last_run => variables.last_run.map(local),
        persona => context! {
            id => persona.id.as_str(),
            name => persona.name.as_str(),
            address => persona.address.to_string(),
        },
    };
    let mut environment = environment();
    environment.add_function(
        INBOX,
        inbox::function(
            variables.letters,
            (variables.slot, variables.last_run, variables.zone),
        ),
    );
    let template = environment
        .template_from_str(body)
        .map_err(|error| reworded(&error))?;
    let mut page = PromptBuffer(Vec::new());
    template
        .render_captured_to(known, &mut page)
        .map_err(|error| reworded(&error))?;
    String::from_utf8(page.0).map_err(|_| PromptError {
        line: None,
        problem: "the prompt is not UTF-8".into(),
    })
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.add_filter("upper", filters::upper);
    environment.add_filter("lower", filters::lower);
    environment.add_filter("trim", filters::trim);
    environment.add_filter("default", filters::default);
    environment.add_filter("length", filters::length);
    environment.add_test("none", Value::is_none);
    environment
}

fn reworded(error: &minijinja::Error) -> PromptError {
    let detail = error
        .detail()
        .map_or_else(|| error.kind().to_string(), str::to_owned);
    PromptError {
        line: error.line(),
        problem: format!("the prompt cannot be rendered: {detail}"),
    }
}

fn line_of(body: &str, name: &str) -> Option<usize> {
    body.lines()
        .position(|line| line.contains(name))
        .map(|index| index + 1)
}

/// Buffer that accepts a prompt up to its maximum size.
struct PromptBuffer(Vec<u8>);

impl io::Write for PromptBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > PROMPT_BYTES_MAX {
            return Err(io::Error::other(format!(
                "longer than {PROMPT_BYTES_MAX} bytes"
            )));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
