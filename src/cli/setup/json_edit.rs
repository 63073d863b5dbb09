//! Sets single values in the text of a JSON file. Everything else stays as it was written: order, line
//! breaks, keys that this program does not know. Pure.

use serde_json::Value;
use std::ops::Range;

/// Longest value that is written on one line.
const LINE_CHARS_MAX: usize = 100;
const INDENT: &str = "  ";

/// A text that is no JSON, or in which a pointer leads through something that is no object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an object of JSON")]
pub struct NoObject(String);

/// Returns the text with this value at a JSON pointer; missing objects on the way are made. A value that
/// is there already leaves the text as it is.
pub fn set(text: &str, pointer: &str, value: &Value) -> Result<String, NoObject> {
    let whole: Value = serde_json::from_str(text).map_err(|_| NoObject("the file".to_owned()))?;
    if whole.pointer(pointer) == Some(value) {
        return Ok(text.to_owned());
    }
    if let Some(range) = find(text, pointer) {
        let written = formatted(value, &indent_at(text, range.start));
        return Ok(format!(
            "{}{written}{}",
            &text[..range.start],
            &text[range.end..]
        ));
    }
    let (parent, key) = pointer.rsplit_once('/').unwrap_or(("", pointer));
    match whole.pointer(parent) {
        Some(Value::Object(_)) | Some(Value::Array(_)) => {}
        Some(_) => return Err(NoObject(parent.to_owned())),
        None => {
            let member = serde_json::Map::from_iter([(unescaped(key), value.clone())]);
            return set(text, parent, &Value::Object(member));
        }
    }
    let range = find(text, parent).ok_or_else(|| NoObject(parent.to_owned()))?;
    Ok(with_member(text, range, &unescaped(key), value))
}

/// Inserts a member behind the last one of the object, or an item behind the last one of the array, at
/// `range`.
fn with_member(text: &str, range: Range<usize>, key: &str, value: &Value) -> String {
    let inside = &text[range.start + 1..range.end - 1];
    let is_list = text[range.clone()].starts_with('[');
    let own = indent_at(text, range.start);
    let is_empty = inside.trim().is_empty();
    let is_spread = inside.contains('\n') || (is_empty && range.start == first(text));
    let indent = match inside.find('\n') {
        Some(at) if !is_empty => blanks(&inside[at + 1..]).to_owned(),
        _ if is_spread => format!("{own}{INDENT}"),
        _ => own.clone(),
    };
    let written = formatted(value, &indent);
    let member = match is_list {
        true => written,
        false => format!("{}: {written}", Value::from(key)),
    };
    let kept = &text[..range.start + 1 + inside.trim_end().len()];
    let comma = if is_empty { "" } else { "," };
    let (before, after) = match (is_spread, is_empty) {
        (true, _) => (format!("\n{indent}"), format!("\n{own}")),
        (false, true) => (" ".to_owned(), " ".to_owned()),
        (false, false) => (" ".to_owned(), inside[inside.trim_end().len()..].to_owned()),
    };
    let closing = &text[range.end - 1..];
    format!("{kept}{comma}{before}{member}{after}{closing}")
}

/// Formats a value: on one line if it fits, else as other files of a workspace are written.
fn formatted(value: &Value, indent: &str) -> String {
    let line = on_one_line(value);
    if line.len() + indent.len() <= LINE_CHARS_MAX {
        return line;
    }
    let spread = serde_json::to_string_pretty(value).unwrap_or(line);
    spread.replace('\n', &format!("\n{indent}"))
}

fn on_one_line(value: &Value) -> String {
    match value {
        Value::Object(members) if !members.is_empty() => {
            let members = members.iter().map(|(key, value)| {
                format!("{}: {}", Value::from(key.as_str()), on_one_line(value))
            });
            format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            let items = items.iter().map(on_one_line);
            format!("[{}]", items.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// The range of the value at a pointer. The text is JSON.
fn find(text: &str, pointer: &str) -> Option<Range<usize>> {
    let mut at = first(text);
    for part in pointer.split('/').skip(1) {
        at = member(text, at, &unescaped(part))?;
    }
    Some(at..end(text, at))
}

/// The start of the member or item of that name in the container at `at`.
fn member(text: &str, at: usize, name: &str) -> Option<usize> {
    let is_list = match text.as_bytes().get(at)? {
        b'{' => false,
        b'[' => true,
        _ => return None,
    };
    let (mut next, mut index) = (after_blanks(text, at + 1), 0_usize);
    while !text[next..].starts_with(['}', ']']) {
        let start = match is_list {
            true => next,
            false => after_blanks(text, after_blanks(text, end(text, next)) + 1),
        };
        let is_it = match is_list {
            true => index.to_string() == name,
            false => serde_json::from_str::<String>(&text[next..end(text, next)])
                .is_ok_and(|key| key == name),
        };
        if is_it {
            return Some(start);
        }
        next = after_blanks(text, end(text, start));
        next = after_blanks(text, next + usize::from(text[next..].starts_with(',')));
        index += 1;
        if next >= text.len() {
            break;
        }
    }
    None
}

/// The end of the value that begins at `at`. The text is JSON.
fn end(text: &str, at: usize) -> usize {
    let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
    for (offset, byte) in text.bytes().enumerate().skip(at) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' if in_text => {
                in_text = false;
                if depth == 0 {
                    return offset + 1;
                }
            }
            b'"' => in_text = true,
            _ if in_text => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth <= 1 => return offset + depth,
            b'}' | b']' => depth -= 1,
            b',' | b':' | b' ' | b'\n' | b'\r' | b'\t' if depth == 0 => return offset,
            _ => {}
        }
    }
    text.len()
}

fn first(text: &str) -> usize {
    after_blanks(text, 0)
}

fn after_blanks(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.len() - rest.trim_start().len()
}

/// The blanks at the start of the line on which `at` stands.
fn indent_at(text: &str, at: usize) -> String {
    let line = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    blanks(&text[line..]).to_owned()
}

fn blanks(text: &str) -> &str {
    let rest = text.trim_start_matches([' ', '\t']);
    &text[..text.len() - rest.len()]
}

fn unescaped(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const FILE: &str =
        "{\n  \"a\": \"x\",\n  \"list\": [{ \"k\": 1, \"mine\": \"}\" }],\n  \"none\": {}\n}\n";

    #[test]
    fn one_value_changes_and_nothing_else() {
        let cases = [
            ("/a", json!("y"), FILE.replace("\"x\"", "\"y\"")),
            ("/a", json!("x"), FILE.to_owned()),
            ("/list/0/k", json!([2]), FILE.replace("1", "[2]")),
            (
                "/list/0/new",
                json!(3),
                FILE.replace("\"}\" }", "\"}\", \"new\": 3 }"),
            ),
            (
                "/list/1",
                json!({ "k": 2 }),
                FILE.replace("}],", "}, { \"k\": 2 }],"),
            ),
            (
                "/none/b",
                json!(true),
                FILE.replace("{}", "{ \"b\": true }"),
            ),
            (
                "/new",
                json!(null),
                FILE.replace("{}\n", "{},\n  \"new\": null\n"),
            ),
            (
                "/p~1q/r",
                json!(1),
                FILE.replace("{}\n", "{},\n  \"p/q\": { \"r\": 1 }\n"),
            ),
        ];
        for (pointer, value, wanted) in cases {
            let changed = set(FILE, pointer, &value).expect(pointer);
            assert_eq!(changed, wanted, "{pointer}");
            let whole: Value = serde_json::from_str(&changed).expect("still JSON");
            assert_eq!(whole.pointer(pointer), Some(&value), "{pointer}");
        }
        assert_eq!(
            set("{}", "/a", &json!(1)).expect("a file"),
            "{\n  \"a\": 1\n}"
        );
        assert!(
            set("{\"a\": 1}", "/a/b", &json!(1)).is_err(),
            "a number has no members"
        );
        assert!(set("not JSON", "/a", &json!(1)).is_err());
    }

    #[test]
    fn a_long_value_is_spread_below_its_key() {
        let long = json!({ "k": "v".repeat(90), "b": 1 });
        let changed = set(FILE, "/none", &long).expect("a file");
        assert!(
            changed.contains("\"none\": {\n    \"k\": \"vvv"),
            "{changed}"
        );
        assert!(changed.ends_with("\"b\": 1\n  }\n}\n"), "{changed}");
    }
}
