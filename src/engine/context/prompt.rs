//! Standing texts as templates: `configs/prompts/*.md` with the persona, the date and the trigger; and
//! the tags of the frames around all other texts.
//!
//! Absent on purpose: text of mails. A template sees only values of the configuration and the
//! clock.

use crate::config::Persona;
use crate::domain::{Timestamp, Trigger};
use minijinja::{Environment, UndefinedBehavior, context};
use serde_json::Value;

/// Work a template may do, in minijinja's fuel units.
const FUEL: u64 = 50_000;
/// Longest rendered prompt, in bytes; a longer one is a runaway template.
const RENDERED_BYTES_MAX: usize = 512 * 1024;

/// Values that a template may use, for the error of a template that does not render.
pub const OFFERED: &str = "it may use `{{ persona.id }}`, `persona.name`, `persona.address`, `persona.timezone`, `date`, `time`, `trigger` and `tools`, the names of the tools that the run is offered";

/// Renders one standing text. Errors: a sentence for the operator with minijinja's line.
pub fn render(
    name: &str,
    source: &str,
    persona: &Persona,
    trigger: Trigger,
    tools: &[String],
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
        tools => tools.iter().map(String::as_str).collect::<minijinja::Value>(),
    };
    let rendered = environment
        .render_named_str(name, source, values)
        .map_err(|error| error.to_string())?;
    if rendered.len() > RENDERED_BYTES_MAX {
        return Err(format!("renders to more than {RENDERED_BYTES_MAX} bytes"));
    }
    Ok(rendered)
}

/// Tags of the frames in which texts of letters, notes and knowledge stand.
const FRAMES: [&str; 12] = [
    "</letter",
    "<letter",
    "</task",
    "<task",
    "</invocation",
    "<invocation",
    "</notes",
    "<notes",
    "</knowledge",
    "<knowledge",
    "</thread-summary",
    "<thread-summary",
];

/// Beginnings of the marks by which templates of chats tell a model who speaks. A server may read them inside of a text, too.
const CHAT_MARKS: [&str; 34] = [
    "<|",  // ChatML, Llama 3, Phi, GLM: `<|im_start|>`, `<|eot_id|>`
    "<｜", // DeepSeek: `<｜User｜>`
    "<<sys>>",
    "<</sys>>",
    "<start_of_", // Gemma
    "<end_of_",
    "<turn|",
    "<s>",
    "</s>",
    "<bos>",
    "<eos>",
    "<pad>",
    "<unk>",
    "<sop>",
    "<eop>",
    "<eod>",
    "<extra_id_",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
    "<seed:",
    "[inst]",
    "[/inst]",
    "[system_prompt]",
    "[/system_prompt]",
    "[available_tools]",
    "[/available_tools]",
    "[tool_calls]",
    "[tool_results]",
    "[/tool_results]",
    "[gmask]",
];

/// Escapes the tags of our frames and the marks of chat templates.
pub fn defuse(text: &str) -> String {
    escaped(text, |mark| {
        is_one_of(&FRAMES, mark) || is_one_of(&CHAT_MARKS, mark)
    })
}

/// Escapes the marks of chat templates in a text that no frame of ours is around, such as the result of a tool.
pub fn defuse_marks(text: &str) -> String {
    escaped(text, |mark| is_one_of(&CHAT_MARKS, mark))
}

fn is_one_of(marks: &[&str], text: &str) -> bool {
    marks.iter().any(|mark| {
        text.get(..mark.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(mark))
    })
}

/// Replaces the bracket that begins something harmful.
fn escaped(text: &str, is_harmful: impl Fn(&str) -> bool) -> String {
    let mut defused = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['<', '[']) {
        defused.push_str(&rest[..at]);
        let (mark, after) = (&rest[at..], &rest[at + 1..]);
        defused.push_str(match (is_harmful(mark), mark.starts_with('<')) {
            (true, true) => "&lt;",
            (true, false) => "&#91;",
            (false, true) => "<",
            (false, false) => "[",
        });
        rest = after;
    }
    defused.push_str(rest);
    defused
}

/// Returns a recorded result as the model reads it: what no call needs is left out, and the text of a file or a letter stands
/// below it as it is, because every escaped line end and quotation mark of it costs tokens.
pub fn shown_result(payload: &str) -> String {
    let Ok(Value::Object(mut parsed)) = serde_json::from_str(payload) else {
        return payload.to_owned();
    };
    // The engine's own: what the run may do next.
    parsed.remove("label");
    let is_done = parsed.get("ok") == Some(&Value::Bool(true));
    let mut text = None;
    if is_done && let Some(Value::Object(result)) = parsed.get_mut("result") {
        // A word costs less where it is.
        let content = result.get("content").and_then(Value::as_str);
        let is_long = content.is_some_and(|text| text.contains(['\n', '"', '\\']));
        if is_long && let Some(Value::String(content)) = result.remove("content") {
            text = Some(content);
        }
        let is_whole = result.get("truncated") == Some(&Value::Bool(false));
        if is_whole {
            for place in ["truncated", "offset", "size_bytes"] {
                result.remove(place);
            }
        }
        // For `edit_file`.
        let path = result.get("path").and_then(Value::as_str);
        if !path.is_some_and(|path| path.starts_with("workspace/")) {
            result.remove("sha256");
        }
        if result
            .get("notes")
            .and_then(Value::as_array)
            .is_some_and(Vec::is_empty)
        {
            result.remove("notes");
        }
    }
    let mut head = Value::Object(parsed);
    drop_nulls(&mut head);
    match text {
        Some(text) => format!("{head}\n{text}"),
        None => head.to_string(),
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_chat_templates_and_frames_are_escaped_and_other_brackets_stay() {
        for (text, defused) in [
            (
                "<|im_end|><|im_start|>system",
                "&lt;|im_end|>&lt;|im_start|>system",
            ),
            (
                "<|eot_id|><|start_header_id|>",
                "&lt;|eot_id|>&lt;|start_header_id|>",
            ),
            (
                "[INST] <<SYS>> x <</SYS>> [/INST]",
                "&#91;INST] &lt;<SYS>> x &lt;</SYS>> &#91;/INST]",
            ),
            (
                "<start_of_turn>user<END_OF_TURN>",
                "&lt;start_of_turn>user&lt;END_OF_TURN>",
            ),
            ("<s>a</s>", "&lt;s>a&lt;/s>"),
            ("<｜User｜>", "&lt;｜User｜>"),
            ("[TOOL_CALLS][{}]", "&#91;TOOL_CALLS][{}]"),
            ("<think>yes</think>", "&lt;think>yes&lt;/think>"),
            ("</Letter>", "&lt;/Letter>"),
            (
                "a < b, <b>c</b>, [1], <strong>, x<|y|",
                "a < b, <b>c</b>, [1], <strong>, x&lt;|y|",
            ),
            ("", ""),
        ] {
            assert_eq!(defuse(text), defused);
        }
        assert_eq!(defuse_marks("<letter> <s>"), "<letter> &lt;s>");
    }
}
