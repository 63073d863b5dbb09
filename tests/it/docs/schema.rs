//! A JSON Schema as a table of keys: one row a key, nested keys below their parent.

use super::reference::cell;
use serde_json::Value;
use std::fmt::Write as _;

/// Depth of nested keys; schemas have no references, so this is only a guard.
const DEPTH_MAX: usize = 8;

/// The description of a schema, in one line.
pub fn says(schema: &Value) -> String {
    schema["description"]
        .as_str()
        .unwrap_or_default()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

pub fn table(schema: &Value) -> String {
    let mut rows = "| key | type | says |\n| --- | --- | --- |\n".to_owned();
    below(&mut rows, "", schema, 0);
    rows
}

fn below(rows: &mut String, prefix: &str, schema: &Value, depth: usize) {
    if depth > DEPTH_MAX {
        return;
    }
    let required = required(schema);
    for (key, value) in schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| *key != "$schema")
    {
        row(
            rows,
            &format!("{prefix}{key}"),
            value,
            required.contains(&key.as_str()),
            depth,
        );
    }
    if schema["additionalProperties"].is_object() {
        row(
            rows,
            &format!("{prefix}NAME"),
            &schema["additionalProperties"],
            false,
            depth,
        );
    }
    for variant in offered(schema) {
        alternative(rows, prefix, variant, depth + 1);
    }
}

/// Keys of one alternative. The only key of one need not be given, and has the words of its alternative.
fn alternative(rows: &mut String, prefix: &str, variant: &Value, depth: usize) {
    let keys = variant["properties"].as_object();
    let is_only = keys.is_some_and(|keys| keys.len() == 1);
    for (key, value) in keys.into_iter().flatten() {
        let mut value = value.clone();
        if is_only && says(&value).is_empty() {
            value["description"] = variant["description"].clone();
        }
        let required = !is_only && required(variant).contains(&key.as_str());
        row(rows, &format!("{prefix}{key}"), &value, required, depth);
    }
    for inner in offered(variant).filter(|_| depth <= DEPTH_MAX) {
        alternative(rows, prefix, inner, depth + 1);
    }
}

fn required(schema: &Value) -> Vec<&str> {
    schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

fn row(rows: &mut String, key: &str, schema: &Value, required: bool, depth: usize) {
    let mut text = says(schema);
    for (value, meaning) in named_values(schema)
        .iter()
        .filter(|(_, meaning)| !meaning.is_empty())
    {
        let _written = write!(text, " `{value}`: {meaning}");
    }
    match &schema["default"] {
        Value::Null | Value::Object(_) => {}
        Value::String(value) => _ = write!(text, " Default: {value}."),
        value => _ = write!(text, " Default: {value}."),
    }
    if required {
        text += " Must be given.";
    }
    let _written = writeln!(
        rows,
        "| `{key}` | {} | {} |",
        kind(schema),
        cell(text.trim())
    );
    below(rows, &format!("{key}."), schema, depth + 1);
    if schema["items"].is_object() {
        below(rows, &format!("{key}[]."), &schema["items"], depth + 1);
    }
}

/// What `anyOf` and `oneOf` offer.
fn offered(schema: &Value) -> impl Iterator<Item = &Value> {
    ["anyOf", "oneOf"]
        .into_iter()
        .filter_map(|word| schema[word].as_array())
        .flatten()
}

/// The same, also inside each other.
fn variants(schema: &Value) -> Vec<&Value> {
    offered(schema)
        .flat_map(|variant| std::iter::once(variant).chain(variants(variant)))
        .collect()
}

/// Fixed values, with what each means.
fn named_values(schema: &Value) -> Vec<(String, String)> {
    let listed = |schema: &Value| {
        let values = schema["enum"]
            .as_array()
            .into_iter()
            .flatten()
            .chain(schema.get("const"));
        let texts = values.filter_map(Value::as_str).map(str::to_owned);
        let meaning = if schema.get("const").is_some() {
            says(schema)
        } else {
            String::new()
        };
        texts
            .map(|value| (value, meaning.clone()))
            .collect::<Vec<_>>()
    };
    std::iter::once(schema)
        .chain(variants(schema))
        .flat_map(listed)
        .collect()
}

fn kind(schema: &Value) -> String {
    let values = named_values(schema);
    if !values.is_empty() {
        return values
            .iter()
            .map(|(value, _)| format!("`{value}`"))
            .collect::<Vec<_>>()
            .join(", ");
    }
    let name = match &schema["type"] {
        Value::String(name) => name.as_str(),
        Value::Array(names) => names
            .iter()
            .filter_map(Value::as_str)
            .find(|name| *name != "null")
            .unwrap_or("any"),
        _ if !variants(schema).is_empty() => {
            let mut kinds: Vec<String> = variants(schema)
                .into_iter()
                .filter(|variant| variant["type"] != "null")
                .map(kind)
                .collect();
            kinds.retain(|kind| kind != "any");
            kinds.dedup();
            return kinds.join(" or ");
        }
        _ => "any",
    };
    match name {
        "array" => format!("list of {}", plural(&kind(&schema["items"]))),
        "object" => "object".to_owned(),
        "string"
            if schema["pattern"]
                .as_str()
                .is_some_and(|pattern| pattern.contains("(ms|s|m|h|d)")) =>
        {
            "duration".to_owned()
        }
        _ => format!("{name}{}", bounds(schema)),
    }
}

fn plural(kind: &str) -> String {
    if kind.starts_with('`') {
        kind.to_owned()
    } else {
        format!("{kind}s")
    }
}

fn bounds(schema: &Value) -> String {
    match (schema["minimum"].as_f64(), schema["maximum"].as_f64()) {
        (Some(least), Some(most)) => format!(" {least} to {most}"),
        (Some(least), None) if least > 0.0 => format!(" from {least}"),
        _ => String::new(),
    }
}
