//! Standing texts as templates: `configs/prompts/*.md` with the persona, the date and the trigger; and
//! the tags of the frames around all other texts.
//!
//! Absent on purpose: text of mails. A template sees only values of the configuration and the
//! clock.

use crate::config::Persona;
use crate::domain::{Timestamp, Trigger};
use minijinja::{Environment, UndefinedBehavior, context};

/// Work a template may do, in minijinja's fuel units.
const FUEL: u64 = 50_000;
/// Longest rendered prompt, in bytes; a longer one is a runaway template.
const RENDERED_BYTES_MAX: usize = 512 * 1024;

/// Values that a template may use, for the error of a template that does not render.
pub const OFFERED: &str = "it may use `{{ persona.id }}`, `persona.name`, `persona.address`, `persona.timezone`, `date`, `time` and `trigger`";

/// Renders one standing text. Errors: a sentence for the operator with minijinja's line.
pub fn render(
    name: &str,
    source: &str,
    persona: &Persona,
    trigger: Trigger,
    now: Timestamp,
) -> Result<String, String> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    let local = now.to_utc().with_timezone(&persona.timezone);
    let values = context! {
        persona => context! {
            id => persona.id.as_str(),
            name => persona.name.as_str(),
            address => persona.address.to_string(),
            timezone => persona.timezone.name(),
        },
        date => local.format("%A, %-d %B %Y").to_string(),
        time => local.format("%H:%M").to_string(),
        trigger => trigger.as_str(),
    };
    let rendered = environment
        .render_named_str(name, source, values)
        .map_err(|error| error.to_string())?;
    if rendered.len() > RENDERED_BYTES_MAX {
        return Err(format!("renders to more than {RENDERED_BYTES_MAX} bytes"));
    }
    Ok(rendered)
}

/// Escapes the tags of the frames in which texts of letters, notes and knowledge stand.
pub fn defuse(text: &str) -> String {
    const TAGS: [&str; 10] = [
        "</letter",
        "<letter",
        "</invocation",
        "<invocation",
        "</notes",
        "<notes",
        "</knowledge",
        "<knowledge",
        "</thread-summary",
        "<thread-summary",
    ];
    if !text.contains('<') {
        return text.to_owned();
    }
    let mut defused = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        defused.push_str(&rest[..at]);
        rest = &rest[at..];
        let is_frame = TAGS.iter().any(|tag| {
            rest.get(..tag.len())
                .is_some_and(|s| s.eq_ignore_ascii_case(tag))
        });
        defused.push_str(if is_frame { "&lt;" } else { "<" });
        rest = &rest[1..];
    }
    defused.push_str(rest);
    defused
}
