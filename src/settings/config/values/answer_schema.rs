//! The JSON Schema of answers: a file in the persona's folder, checked together with the file that
//! names it, so that no run begins that cannot end.

use crate::text::truncated;
use serde_json::Value;

/// Maximum bytes of a schema file.
pub const SCHEMA_BYTES_MAX: usize = 64 * 1024;
const DEPTH_MAX: usize = 32;
const WORDS_MAX: usize = 200;

/// Returns what is wrong with the path of a schema below the persona's folder, if anything is.
pub fn path_breach(path: &str) -> Option<&'static str> {
    match () {
        () if path.starts_with('/') => Some("begins at the root of the machine"),
        () if path.split('/').any(|part| part == "..") => Some("leads out of the persona's folder"),
        () if path.split('/').any(|part| matches!(part, "" | ".")) => {
            Some("has an empty part between its `/`")
        }
        () if !path.ends_with(".json") => Some("does not end in `.json`"),
        () => None,
    }
}

/// Checks a schema and returns it on one line, as runs store it. Errors: a message without the
/// file's name.
pub fn check(bytes: &[u8]) -> Result<String, String> {
    if bytes.len() > SCHEMA_BYTES_MAX {
        return Err(format!("is larger than {SCHEMA_BYTES_MAX} bytes"));
    }
    let schema: Value =
        serde_json::from_slice(bytes).map_err(|error| format!("is not JSON: {error}"))?;
    if !schema.is_object() {
        return Err("is not a JSON object, as a schema must be".to_owned());
    }
    if depth(&schema) > DEPTH_MAX {
        return Err(format!("is nested deeper than {DEPTH_MAX} levels"));
    }
    if let Some(reference) = outward(&schema) {
        let reference: String = reference
            .chars()
            .filter(|c| !c.is_control())
            .take(80)
            .collect();
        return Err(format!(
            "refers to `{reference}`; only what stands in the file itself (`#/…`) is followed"
        ));
    }
    let broken = |error: jsonschema::ValidationError<'_>| {
        let words: String = truncated(&error.masked().to_string(), WORDS_MAX);
        format!("is no JSON Schema: at `{}`: {words}", error.instance_path())
    };
    jsonschema::validator_for(&schema).map_err(broken)?;
    Ok(schema.to_string())
}

fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(members) => members.values().map(depth).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or(0)
}

/// Finds a reference that leaves the file. The library fetches none; this yields our own message.
fn outward(value: &Value) -> Option<&str> {
    match value {
        Value::Array(items) => items.iter().find_map(outward),
        Value::Object(members) => {
            let own = members
                .get("$ref")
                .and_then(Value::as_str)
                .filter(|to| !to.starts_with('#'));
            own.or_else(|| members.values().find_map(outward))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_one_line_and_a_bad_one_says_why() {
        let good =
            "{\n  \"type\": \"object\",\n  \"properties\": { \"next\": { \"$ref\": \"#\" } }\n}\n";
        let line = r##"{"type":"object","properties":{"next":{"$ref":"#"}}}"##;
        assert_eq!(check(good.as_bytes()).as_deref(), Ok(line));
        let deep = format!("{}{{}}{}", r#"{"not":"#.repeat(40), "}".repeat(40));
        let long = format!(r#"{{"title":"{}"}}"#, "x".repeat(SCHEMA_BYTES_MAX));
        let cases = [
            ("{", "is not JSON"),
            ("[]", "is not a JSON object"),
            (r#"{"type": "strin"}"#, "at `/type`"),
            (
                r#"{"properties": {"a": {"pattern": "("}}}"#,
                "at `/properties/a/pattern`",
            ),
            (
                r#"{"$ref": "https://example.test/a.json"}"#,
                "refers to `https://example.test/a.json`",
            ),
            (r#"{"items": [{"$ref": "b.json"}]}"#, "refers to `b.json`"),
            (r##"{"$ref": "#/$defs/gone"}"##, "is no JSON Schema"),
            (deep.as_str(), "nested deeper"),
            (long.as_str(), "is larger"),
        ];
        for (schema, says) in cases {
            let error = check(schema.as_bytes()).expect_err(schema);
            assert!(error.contains(says), "{error}");
        }
    }
}
