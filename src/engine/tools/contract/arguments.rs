//! Arguments of a tool call: checked against the tool's schema, with errors worded for the model,
//! then read as a typed value.

use super::schema::is_list_of_texts;
use crate::tools::ToolError;
use jsonschema::error::ValidationErrorKind;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Most faults that one answer names; the others show once these are corrected.
const FAULTS_MAX: usize = 5;

/// Compiles a schema. Errors: what is wrong with it.
pub(in crate::tools) fn validator(schema: &Value) -> Result<jsonschema::Validator, String> {
    jsonschema::validator_for(schema)
        .map_err(|error| format!("the tool's own schema is broken: {error}"))
}

/// Checks arguments against a schema and its compiled form. `takes_one`: a text alone counts as a list of one.
pub(in crate::tools) fn check_against(
    schema: &Value,
    validator: &jsonschema::Validator,
    args: &Map<String, Value>,
    takes_one: bool,
) -> Result<(), String> {
    let mut args = without_nulls(args);
    for (name, value) in &mut args {
        if takes_one && value.is_string() && is_list_of_texts(&schema["properties"][name]) {
            *value = Value::Array(vec![value.take()]);
        }
    }
    let args = Value::Object(args);
    let faults: Vec<String> = validator
        .iter_errors(&args)
        .take(FAULTS_MAX)
        .map(|error| describe(schema, &error))
        .collect();
    if faults.is_empty() {
        return Ok(());
    }
    Err(format!("{}; {}", faults.join("; "), fields(schema)))
}

/// Reads checked arguments into a tool's own struct.
pub fn read_args<T: DeserializeOwned>(args: &Map<String, Value>) -> Result<T, ToolError> {
    serde_json::from_value(Value::Object(without_nulls(args)))
        .map_err(|error| ToolError::mendable("bad_arguments", error.to_string()))
}

/// Reads a count as models write it: `5.0` is 5, and a negative one is 0.
pub fn count(typed: Option<f64>, default: usize) -> usize {
    // A cast from float to integer saturates, and turns NaN into 0.
    typed.map_or(default, |number| number as usize)
}

/// Reports whether a text has no control characters but those of lines and tabs.
pub fn is_plain(text: &str) -> bool {
    !text.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
}

/// Returns the arguments that were given: models write `null` for those that were not.
pub fn without_nulls(args: &Map<String, Value>) -> Map<String, Value> {
    args.iter()
        .filter(|(_, v)| !v.is_null())
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

/// Describes one fault: ``field `limit` must be integer, not string``.
fn describe(schema: &Value, error: &jsonschema::ValidationError<'_>) -> String {
    let path = error
        .instance_path()
        .as_str()
        .trim_start_matches('/')
        .replace('/', ".");
    let found = type_word(error.instance());
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            format!(
                "field `{}` is missing",
                property.as_str().unwrap_or_default()
            )
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let unknown = unexpected.iter().map(|name| unknown_field(schema, name));
            unknown.collect::<Vec<_>>().join(", ")
        }
        ValidationErrorKind::Type { .. } | ValidationErrorKind::AnyOf { .. } => {
            format!(
                "field `{path}` must be {}, not {found}",
                wanted_types(error, schema)
            )
        }
        ValidationErrorKind::Enum { options } => format!("field `{path}` must be one of {options}"),
        _ => format!("field `{path}`: {}", clipped(&error.masked().to_string())),
    }
}

fn unknown_field(schema: &Value, name: &str) -> String {
    let close = |known: &&String| strsim::jaro_winkler(known, name) > 0.8;
    let near = schema["properties"]
        .as_object()
        .and_then(|known| known.keys().find(close).cloned());
    let name = clipped(name);
    match near {
        Some(near) => format!("there is no field `{name}`; did you mean `{near}`"),
        None => format!("there is no field `{name}`"),
    }
}

/// Lists the types of a field for the model: `string or array of string`.
fn wanted_types(error: &jsonschema::ValidationError<'_>, schema: &Value) -> String {
    let keyword = error.schema_path().as_str();
    match schema.pointer(keyword) {
        Some(Value::String(one)) => one.clone(),
        Some(Value::Array(alternatives)) => {
            let words = alternatives
                .iter()
                .map(|alternative| match alternative["type"].as_str() {
                    Some("array") => {
                        format!(
                            "array of {}",
                            alternative["items"]["type"].as_str().unwrap_or("values")
                        )
                    }
                    Some(other) => other.to_owned(),
                    None => alternative.to_string(),
                });
            words.collect::<Vec<_>>().join(" or ")
        }
        _ => "of another type".to_owned(),
    }
}

fn type_word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "this array",
        Value::Object(_) => "object",
    }
}

/// Lists the fields: `required: to, body; optional: cc, bcc`.
fn fields(schema: &Value) -> String {
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let names = schema["properties"]
        .as_object()
        .into_iter()
        .flat_map(Map::keys);
    let optional: Vec<&str> = names
        .map(String::as_str)
        .filter(|name| !required.contains(name))
        .collect();
    let list = |names: &[&str]| {
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
    };
    format!(
        "required: {}; optional: {}",
        list(&required),
        list(&optional)
    )
}

fn clipped(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}

#[cfg(test)]
mod tests {
    use crate::tools::contract::arguments::*;
    use serde_json::json;

    fn check(tool: &str, args: &Value) -> Result<(), String> {
        let tools = crate::tools::builtin();
        let tool = tools.find(tool).ok_or("no such tool")?;
        tool.check_args(args.as_object().ok_or("not an object")?)
    }

    #[test]
    fn faults_name_the_field_and_what_would_be_right() {
        let mail = "required: to, body; optional: cc, bcc, subject, attachments, reply, at, draft";
        let cases = [
            (
                json!({"to": "a@b.test"}),
                format!("field `body` is missing; {mail}"),
            ),
            (
                json!({"to": 7, "body": "x"}),
                format!("field `to` must be array, not number; {mail}"),
            ),
            (
                json!({"to": [7], "body": "x"}),
                format!("field `to.0` must be string, not number; {mail}"),
            ),
            (
                json!({"to": "a@b.test", "body": 1}),
                format!("field `body` must be string, not number; {mail}"),
            ),
            (
                json!({"to": "a@b.test", "body": "x", "attachment": "y"}),
                format!("there is no field `attachment`; did you mean `attachments`; {mail}"),
            ),
        ];
        for (args, wanted) in cases {
            assert_eq!(check("send_email", &args), Err(wanted), "{args}");
        }
    }

    #[test]
    fn null_is_absent() {
        assert_eq!(
            check(
                "send_email",
                &json!({"to": "a@b.test", "body": "x", "cc": null})
            ),
            Ok(())
        );
        let missing = check("send_email", &json!({"to": null, "body": "x"}));
        assert!(missing.is_err_and(|e| e.starts_with("field `to` is missing")));
    }
}
