//! Calls of tools that a model wrote into its text. Pure.
//!
//! Servers of open models hand them through where they were started without the parser of the model's template. A call that
//! names an offered tool and fits its schema is a call; all else that is written as one is an unreadable call, never a letter.
//! Absent on purpose: whether a call may be made (`tool_calls`).

use super::frames::fenced;
use serde_json::{Map, Value};

/// What stands in a text.
#[derive(Debug, PartialEq)]
pub enum TextCalls {
    /// No call.
    None,
    /// Calls at the end of the text; `words`: what is before them.
    Calls {
        words: String,
        calls: Vec<(String, Map<String, Value>)>,
    },
    /// Something that is written as a call, and is none.
    Unreadable,
}

/// Marks that begin calls, in lower case, each with where it comes from.
const BEGINNINGS: &[&str] = &[
    "<tool_call>", // Hermes, Qwen, GLM
    "<tool_calls>",
    "<toolcall>",
    "<function_calls>", // Claude's habit, DeepSeek V3.2 without its prefix
    "<function_call>",
    "<function=", // Llama 3.1, Qwen3-Coder
    "<invoke name=",
    "<tool_use>",
    "<minimax:tool_call>",
    "<seed:tool_call>",
    "[tool_calls]", // Mistral
    "[tool_call]",
    "<|tool_call|>", // Granite, Phi-4
    "<|tool_call>",  // Gemma 4
    "<|tool_calls|>",
    "<|python_tag|>",               // Llama 3
    "<|plugin|>",                   // InternLM
    "<|action_start|>",             // InternLM
    "<|start_action|>",             // Command A
    "<|tool_calls_section_begin|>", // Kimi K2
    "<|tool_call_begin|>",
    "<|channel|>commentary",  // gpt-oss
    "<｜tool▁calls▁begin｜>", // DeepSeek V3
    "<｜tool▁call▁begin｜>",
    "<｜dsml｜", // DeepSeek V3.2
    "```tool_call",
    "```tool_code", // Gemma
];

/// Longest text in bytes that is read for calls.
const BYTES_MAX: usize = 512 * 1024;
/// Most calls of one text.
const CALLS_MAX: usize = 64;

/// Reads a text. `fits`: whether a tool of that name is offered and takes these arguments. `takes_bare`: a text that is JSON and
/// nothing else may be a call.
pub fn read(
    text: &str,
    takes_bare: bool,
    fits: &dyn Fn(&str, &Map<String, Value>) -> bool,
) -> TextCalls {
    if text.len() > BYTES_MAX {
        return TextCalls::None;
    }
    let mark = first_mark(&text.to_ascii_lowercase());
    let (words, written) = match mark {
        Some(at) => text.split_at(at),
        None if !takes_bare => return TextCalls::None,
        None => match bare(text) {
            Some(value) => ("", value),
            None => return tail(text, fits),
        },
    };
    match calls_in(written, fits) {
        Some(calls) if calls.iter().all(|(name, args)| fits(name, args)) => TextCalls::Calls {
            words: words.trim().to_owned(),
            calls,
        },
        Some(_) => TextCalls::Unreadable,
        // JSON that is not written as a call is judged as an answer.
        None if mark.is_none() => TextCalls::None,
        None => TextCalls::Unreadable,
    }
}

/// Reads JSON below words. Without a mark it is a call only where it fits.
fn tail(text: &str, fits: &dyn Fn(&str, &Map<String, Value>) -> bool) -> TextCalls {
    let starts = text.match_indices('\n').map(|(at, _)| at + 1);
    let starts = starts.filter(|at| text[*at..].starts_with(['{', '[', '`']));
    for at in starts.take(CALLS_MAX) {
        let calls = bare(&text[at..]).and_then(json_calls);
        if let Some(calls) = calls
            .filter(|calls| !calls.is_empty() && calls.iter().all(|(name, args)| fits(name, args)))
        {
            return TextCalls::Calls {
                words: text[..at].trim().to_owned(),
                calls,
            };
        }
    }
    TextCalls::None
}

/// Returns where the first mark stands that begins a line, outside of code: a letter may speak of such marks.
fn first_mark(low: &str) -> Option<usize> {
    let (mut at, mut is_fenced) = (0, false);
    for line in low.split_inclusive('\n') {
        let indent = line.len() - line.trim_start().len();
        let start = &line[indent..];
        if !is_fenced && BEGINNINGS.iter().any(|mark| start.starts_with(mark)) {
            return Some(at + indent);
        }
        is_fenced ^= start.starts_with("```");
        at += line.len();
    }
    None
}

/// Returns a text that is JSON, a line of Python or a fence with one of them, without its fence.
fn bare(text: &str) -> Option<&str> {
    let text = text.trim();
    let one = fenced(text).filter(|(_, inner)| !inner.contains("```"));
    let inner = one.map_or(text, |(_, inner)| inner.trim());
    let is_json = inner.starts_with('{') && inner.ends_with('}')
        || inner.starts_with('[') && inner.ends_with(']');
    is_json.then_some(inner)
}

/// Returns the calls of a stretch of text; `None`: something in it is not understood, or there are none.
fn calls_in(
    text: &str,
    fits: &dyn Fn(&str, &Map<String, Value>) -> bool,
) -> Option<Vec<(String, Map<String, Value>)>> {
    let text = text
        .replace("｜DSML｜", "")
        .replace("<｜", "<|")
        .replace("｜>", "|>")
        .replace('▁', "_");
    let calls = xml_calls(&text, fits)
        .or_else(|| pair_calls(&text, fits))
        .or_else(|| json_calls(&text))?;
    (!calls.is_empty() && calls.len() <= CALLS_MAX).then_some(calls)
}

/// Reads `<invoke name="N"><parameter name="K">V</parameter></invoke>` and `<function=N><parameter=K>V</parameter></function>`.
fn xml_calls(
    text: &str,
    fits: &dyn Fn(&str, &Map<String, Value>) -> bool,
) -> Option<Vec<(String, Map<String, Value>)>> {
    let (begin, end) = match (text.contains("<invoke name="), text.contains("<function=")) {
        (true, _) => ("<invoke name=", "</invoke>"),
        (_, true) if text.contains("<parameter") => ("<function=", "</function>"),
        _ => return None,
    };
    let mut calls = Vec::new();
    for piece in text.split(begin).skip(1) {
        let (name, rest) = piece.split_once('>')?;
        let name = name.split_whitespace().next()?.trim_matches(['"', '\'']);
        let inner = rest.split_once(end).map_or(rest, |(inner, _)| inner);
        let mut args = Map::new();
        for parameter in inner.split("<parameter").skip(1) {
            let (head, rest) = parameter.split_once('>')?;
            let key = match head.trim_start().strip_prefix("name=") {
                Some(named) => named
                    .trim_start_matches(['"', '\''])
                    .split(['"', '\''])
                    .next()?,
                None => head.trim().strip_prefix('=')?.trim_matches(['"', '\'']),
            };
            let value = rest
                .split_once("</parameter>")
                .map_or(rest, |(value, _)| value);
            args.insert(
                key.to_owned(),
                Value::String(one_line_off(value).to_owned()),
            );
        }
        calls.push((name.to_owned(), typed(name, args, fits)));
    }
    Some(calls)
}

/// Reads `N <arg_key>K</arg_key><arg_value>V</arg_value>` (GLM).
fn pair_calls(
    text: &str,
    fits: &dyn Fn(&str, &Map<String, Value>) -> bool,
) -> Option<Vec<(String, Map<String, Value>)>> {
    if !text.contains("<arg_key>") {
        return None;
    }
    let mut calls = Vec::new();
    for piece in text.split("<tool_call>").skip(1) {
        let name = piece.split('<').next()?.trim();
        let mut args = Map::new();
        for pair in piece.split("<arg_key>").skip(1) {
            let (key, rest) = pair.split_once("</arg_key>")?;
            let (_, value) = rest.split_once("<arg_value>")?;
            let value = value
                .split_once("</arg_value>")
                .map_or(value, |(value, _)| value);
            args.insert(
                key.trim().to_owned(),
                Value::String(one_line_off(value).to_owned()),
            );
        }
        calls.push((name.to_owned(), typed(name, args, fits)));
    }
    Some(calls)
}

/// Returns a value without the line breaks directly inside of its tags.
fn one_line_off(value: &str) -> &str {
    let value = value.strip_prefix('\n').unwrap_or(value);
    value.strip_suffix('\n').unwrap_or(value)
}

/// Returns arguments that were written as texts in the types that the tool wants: as texts where that fits, otherwise as JSON.
fn typed(
    name: &str,
    args: Map<String, Value>,
    fits: &dyn Fn(&str, &Map<String, Value>) -> bool,
) -> Map<String, Value> {
    if fits(name, &args) {
        return args;
    }
    let mut typed = args.clone();
    for (key, value) in args {
        let parsed = value
            .as_str()
            .and_then(|text| serde_json::from_str(text.trim()).ok());
        if let Some(parsed) = parsed {
            // One after the other: "0123" may be a text.
            typed.insert(key, parsed);
            if fits(name, &typed) {
                break;
            }
        }
    }
    typed
}

/// Reads objects that are calls by themselves, `{"name": N, "arguments": {…}}` in all its spellings, and objects behind a name:
/// `N {…}`, `functions.N:0 … {…}`, `to=functions.N … {…}`, `<function=N>{…}`, `N[ARGS]{…}`.
fn json_calls(text: &str) -> Option<Vec<(String, Map<String, Value>)>> {
    let mut calls = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(['{', '[']) {
        let (before, from) = rest.split_at(start);
        let mut values = serde_json::Deserializer::from_str(from).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                let read = values.byte_offset();
                if !calls_of_value(&value, &mut calls) {
                    let args = value.as_object()?;
                    calls.push((name_before(before)?, args.clone()));
                } else if calls.len() > CALLS_MAX {
                    return None;
                }
                rest = &from[read..];
            }
            // A mark such as `[TOOL_CALLS]` or `[ARGS]`.
            _ if from.starts_with('[') => {
                let end = from.find(']')?;
                let word = &from[1..end];
                if !word
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "_/".contains(c))
                {
                    return None;
                }
                // It stays before the next value, where a name may stand beside it.
                let next = from[end + 1..].find(['{', '['])?;
                let (name, value) = from[end + 1..].split_at(next);
                let name = if name.trim().is_empty() { before } else { name };
                if value.starts_with('{') {
                    let mut values = serde_json::Deserializer::from_str(value).into_iter::<Value>();
                    let object = values.next()?.ok()?;
                    if !calls_of_value(&object, &mut calls) {
                        calls.push((name_before(name)?, object.as_object()?.clone()));
                    }
                    rest = &value[values.byte_offset()..];
                } else {
                    rest = &from[end + 1..];
                }
            }
            _ => return None,
        }
    }
    // What follows the last call may only be marks that end it.
    is_marks(rest).then_some(calls)
}

/// Adds the calls that a value is; `false`: it is none.
fn calls_of_value(value: &Value, calls: &mut Vec<(String, Map<String, Value>)>) -> bool {
    match value {
        Value::Array(items) if !items.is_empty() => {
            items.iter().all(|item| calls_of_value(item, calls))
        }
        Value::Object(members) => {
            if let Some(inner) = members
                .get("tool_calls")
                .or_else(|| members.get("function_call"))
            {
                return calls_of_value(inner, calls);
            }
            let Some((name, args)) = call_of(members) else {
                return false;
            };
            calls.push((name, args));
            true
        }
        _ => false,
    }
}

/// Members of a call that hold its arguments.
const ARGUMENTS: &[&str] = &[
    "arguments",
    "parameters",
    "args",
    "input",
    "params",
    "action_input",
    "tool_input",
];
/// Members of a call that hold its name.
const NAMES: &[&str] = &[
    "name",
    "tool_name",
    "function_name",
    "tool",
    "action",
    "function",
];

fn call_of(members: &Map<String, Value>) -> Option<(String, Map<String, Value>)> {
    if let Some(Value::Object(inner)) = members.get("function") {
        return call_of(inner);
    }
    let name = NAMES.iter().find_map(|key| members.get(*key)?.as_str())?;
    let args = ARGUMENTS.iter().find_map(|key| members.get(*key))?;
    let args = match args {
        Value::Object(args) => args.clone(),
        Value::String(text) => serde_json::from_str(text).ok()?,
        Value::Null => Map::new(),
        _ => return None,
    };
    Some((plain_name(name).to_owned(), args))
}

/// Returns the name at the end of what stands before arguments, past marks.
fn name_before(before: &str) -> Option<String> {
    let line = before.trim_end();
    let line = line
        .strip_suffix("json")
        .map(str::trim_end)
        .filter(|line| line.ends_with("```") || line.ends_with("|>"))
        .unwrap_or(line);
    let mut words = line
        .trim_end_matches("```")
        .split(|c: char| c.is_whitespace() || "<>|=(,;".contains(c));
    let is_name = |word: &&str| {
        let word = plain_name(word);
        !MARK_WORDS.contains(&word)
            && word.starts_with(|c: char| c.is_ascii_alphabetic())
            && word
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
    };
    words.rfind(is_name).map(|word| plain_name(word).to_owned())
}

/// Words of marks between a name and its arguments.
const MARK_WORDS: &[&str] = &[
    "message",
    "constrain",
    "json",
    "tool_call_argument_begin",
    "tool_sep",
    "function",
    "tool_call",
    "call",
    "channel",
    "commentary",
    "tool_call_begin",
    "tool_calls_begin",
    "tool_calls_section_begin",
    "python_tag",
    "args",
];

/// Returns a name without what servers put round it: `functions.N:0`.
fn plain_name(name: &str) -> &str {
    let name = name.trim().trim_matches(['"', '\'']);
    let name = name
        .strip_prefix("functions.")
        .or_else(|| name.strip_prefix("call:"))
        .unwrap_or(name);
    name.split_once(':').map_or(name, |(name, _)| name)
}

/// Reports whether a text holds nothing but marks and blanks.
fn is_marks(text: &str) -> bool {
    let separators = |c: char| c.is_whitespace() || "`;,".contains(c);
    let mut rest = text.trim_start_matches(separators);
    while !rest.is_empty() {
        let end = match rest.chars().next() {
            Some('<') => rest.find('>'),
            Some('[') => rest.find(']'),
            _ => None,
        };
        let Some(end) = end.filter(|end| *end < 64) else {
            return false;
        };
        rest = rest[end + 1..].trim_start_matches(separators);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Tools `read_file` with one text, and `count` with one number.
    fn fits(name: &str, args: &Map<String, Value>) -> bool {
        match name {
            "list_files" => args.is_empty(),
            "read_file" => args.len() == 1 && args.get("path").is_some_and(Value::is_string),
            "count" => args.len() == 1 && args.get("n").is_some_and(Value::is_number),
            _ => false,
        }
    }

    fn calls(text: &str) -> Value {
        match read(text, true, &fits) {
            TextCalls::None => Value::Null,
            TextCalls::Unreadable => json!("unreadable"),
            TextCalls::Calls { words, calls } => json!([words, calls]),
        }
    }

    #[test]
    fn calls_are_read_in_the_forms_of_their_models() {
        let file = json!(["", [["read_file", {"path": "a.md"}]]]);
        for text in [
            r#"{"name": "read_file", "arguments": {"path": "a.md"}}"#,
            r#"{"name": "read_file", "parameters": {"path": "a.md"}}"#,
            r#"{"tool": "read_file", "input": {"path": "a.md"}}"#,
            r#"{"action": "read_file", "action_input": {"path": "a.md"}}"#,
            r#"{"type": "function", "function": {"name": "read_file", "arguments": "{\"path\": \"a.md\"}"}}"#,
            r#"{"tool_calls": [{"id": "1", "type": "function", "function": {"name": "read_file", "arguments": {"path": "a.md"}}}]}"#,
            r#"[{"name": "read_file", "arguments": {"path": "a.md"}}]"#,
            "```json\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.md\"}}\n```",
            "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.md\"}}\n</tool_call>",
            "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.md\"}}",
            "<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>a.md</arg_value>\n</tool_call>",
            "<tool_call>\n<function=read_file>\n<parameter=path>\na.md\n</parameter>\n</function>\n</tool_call>",
            "<function=read_file>{\"path\": \"a.md\"}</function>",
            "<function_calls>\n<invoke name=\"read_file\">\n<parameter name=\"path\">a.md</parameter>\n</invoke>\n</function_calls>",
            "<｜DSML｜function_calls><｜DSML｜invoke name=\"read_file\"><｜DSML｜parameter name=\"path\" string=\"true\">a.md</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>",
            "<minimax:tool_call>\n<invoke name=\"read_file\">\n<parameter name=\"path\">a.md</parameter>\n</invoke>\n</minimax:tool_call>",
            "[TOOL_CALLS][{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.md\"}}]",
            "[TOOL_CALLS]read_file{\"path\": \"a.md\"}",
            "[TOOL_CALLS]read_file[ARGS]{\"path\": \"a.md\"}",
            "<|tool_call|>[{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.md\"}}]<|/tool_call|>",
            "<|python_tag|>{\"name\": \"read_file\", \"parameters\": {\"path\": \"a.md\"}}<|eom_id|>",
            "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"read_file\", \"parameters\": {\"path\": \"a.md\"}}]<|END_ACTION|>",
            "<|channel|>commentary to=functions.read_file <|constrain|>json<|message|>{\"path\": \"a.md\"}<|call|>",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read_file\n```json\n{\"path\": \"a.md\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read_file<｜tool▁sep｜>{\"path\": \"a.md\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>{\"path\": \"a.md\"}<|tool_call_end|><|tool_calls_section_end|>",
        ] {
            assert_eq!(calls(text), file, "{text}");
        }
        let number = "<function_calls><invoke name=\"count\"><parameter name=\"n\">3</parameter></invoke></function_calls>";
        assert_eq!(calls(number), json!(["", [["count", {"n": 3}]]]));
        let two = "<tool_call>{\"name\": \"list_files\", \"arguments\": {}}</tool_call>\n<tool_call>{\"name\": \"count\", \"arguments\": {\"n\": 1}}</tool_call>";
        assert_eq!(
            calls(two),
            json!(["", [["list_files", {}], ["count", {"n": 1}]]])
        );
    }

    #[test]
    fn words_before_a_call_are_kept_beside_it() {
        for text in [
            "One moment.\n\n<tool_call>\n{\"name\": \"list_files\", \"arguments\": {}}\n</tool_call>",
            "One moment.\n\n{\"name\": \"list_files\", \"arguments\": {}}",
            "One moment.\n```json\n{\"name\": \"list_files\", \"arguments\": {}}\n```",
        ] {
            assert_eq!(
                calls(text),
                json!(["One moment.", [["list_files", {}]]]),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_written_as_a_call_and_is_none_is_unreadable() {
        for text in [
            r#"{"name": "nope", "arguments": {}}"#,
            r#"{"name": "read_file", "arguments": {"file": "a.md"}}"#,
            "<tool_call>",
            "<tool_call>{\"name\": \"read_f",
            "Wait.\n<tool_call>\n{\"name\": \"nope\", \"arguments\": {}}\n</tool_call>",
            "<tool_call>{\"name\": \"list_files\", \"arguments\": {}}</tool_call>\nThe files are: a, b.",
            "```tool_code\nprint(list_files())\n```",
            "<|channel|>commentary to=functions.nope<|message|>{}<|call|>",
            "<|tool_call>call:list_files{}<tool_call|>x",
        ] {
            assert_eq!(calls(text), "unreadable", "{text}");
        }
    }

    #[test]
    fn a_letter_that_speaks_of_calls_is_a_letter() {
        for text in [
            "Dear Anna,\n\nyes.",
            "Your server writes `<tool_call>` into the text.",
            "Dear Anna,\n```\n<tool_call>{\"name\": \"list_files\"}</tool_call>\n```\nis what you sent.",
            "The answer is {\"price\": 12}.",
            "{\"price\": 12}",
            "[1, 2, 3]",
            "Here is the file:\n\n{\"name\": \"Anna\", \"arguments\": {}}",
            "[Your Name]",
            "",
        ] {
            assert_eq!(calls(text), Value::Null, "{text}");
        }
        assert_eq!(
            read(r#"{"name": "list_files", "arguments": {}}"#, false, &fits),
            TextCalls::None
        );
    }

    #[test]
    fn much_text_is_read_in_bounds() {
        for text in [
            "{\n".repeat(100_000),
            "[".repeat(400_000),
            "<tool_call>\n".repeat(30_000),
            "<invoke name=".repeat(30_000),
        ] {
            assert!(!matches!(read(&text, true, &fits), TextCalls::Calls { .. }));
        }
    }
}
