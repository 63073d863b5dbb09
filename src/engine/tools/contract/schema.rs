//! JSON Schema of a tool's arguments, made from the struct that they are read into, so that the two
//! cannot drift apart.

use crate::text::one_line;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// Returns the schema of a tool's arguments in the few keywords that every provider takes: `type`,
/// `anyOf`, `items`, `enum`, `properties`, `required`, `additionalProperties`, `description`.
///
/// The doc comment of a field is the description that the model reads. `null` is left out: a field
/// that need not be given is not in `required`, and a `null` counts as absent. One text or several is a list here: a text alone
/// counts as a list of one ([`check_args`](crate::tools::RegisteredTool::check_args)), and every schema costs its tokens.
pub fn arguments_schema<T: JsonSchema>() -> Value {
    let generated = generated::<T>();
    let fields = generated["properties"].as_object();
    let fields = fields.into_iter().flatten();
    let properties: Map<String, Value> = fields
        .map(|(name, field)| (name.clone(), plain(field)))
        .collect();
    let mut schema = json!({ "type": "object", "properties": properties });
    if let Some(required) = generated.get("required") {
        schema["required"] = required.clone();
    }
    schema["additionalProperties"] = false.into();
    schema
}

/// Returns the doc comment of a tool's struct: the description that the model reads.
pub fn description<T: JsonSchema>() -> String {
    one_line(generated::<T>()["description"].as_str().unwrap_or_default())
}

fn generated<T: JsonSchema>() -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

/// Returns one field's schema without `null`, formats and bounds, in a fixed order of keywords.
fn plain(schema: &Value) -> Value {
    let mut plain = Map::new();
    match without_null(schema) {
        alternatives if alternatives.len() == 1 => {
            let one = &alternatives[0];
            if let Some(Value::Object(nested)) = one.get("anyOf").map(|_| self::plain(one)) {
                plain.extend(nested);
            }
            for keyword in ["type", "enum"] {
                if let Some(value) = one.get(keyword) {
                    plain.insert(keyword.to_owned(), value.clone());
                }
            }
            if let Some(items) = one.get("items") {
                plain.insert("items".to_owned(), self::plain(items));
            }
        }
        alternatives => {
            let alternatives = alternatives.iter().map(self::plain).collect();
            plain.insert("anyOf".to_owned(), Value::Array(alternatives));
        }
    }
    let description = schema["description"].as_str();
    if let Some(description) = description.filter(|words| !words.is_empty()) {
        plain.insert("description".to_owned(), one_line(description).into());
    }
    Value::Object(plain)
}

/// Returns the alternatives of a schema that are not `null`, without a text beside a list of texts.
fn without_null(schema: &Value) -> Vec<Value> {
    let is_null = |alternative: &Value| *alternative == "null" || alternative["type"] == "null";
    if let Some(alternatives) = schema["anyOf"].as_array() {
        let kept = alternatives.iter().filter(|one| !is_null(one));
        let mut kept: Vec<Value> = kept.cloned().collect();
        if kept.iter().any(is_list_of_texts) {
            kept.retain(|one| one["type"] != "string");
        }
        return kept;
    }
    let mut one = schema.clone();
    if let Some(choices) = one.get_mut("enum").and_then(Value::as_array_mut) {
        choices.retain(|choice| !choice.is_null());
    }
    if let Some(types) = schema["type"].as_array() {
        let mut kept = types.iter().filter(|one| !is_null(one));
        if let (Some(only), None) = (kept.next(), kept.next()) {
            one["type"] = only.clone();
        }
    }
    vec![one]
}

/// Reports whether a schema is one of a list of texts.
pub(super) fn is_list_of_texts(schema: &Value) -> bool {
    schema["type"] == "array" && schema["items"]["type"] == "string"
}

#[cfg(test)]
mod tests {
    use crate::tools::contract::schema::*;
    use serde::Deserialize;

    /// Arguments of a tool that does not exist.
    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Sample {
        /// A text that is
        /// needed.
        text: String,
        /// A number.
        #[schemars(with = "Option<i64>")]
        count: Option<f64>,
        /// One or several.
        list: Option<OneOrMany>,
        /// A choice.
        kind: Option<Kind>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(untagged)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        Old,
        New,
    }

    #[test]
    fn a_schema_has_plain_keywords_only() {
        let expected = json!({
            "type": "object",
            "properties": {
                "text": { "type": "string", "description": "A text that is needed." },
                "count": { "type": "integer", "description": "A number." },
                "list": { "type": "array", "items": { "type": "string" }, "description": "One or several." },
                "kind": { "type": "string", "enum": ["old", "new"], "description": "A choice." }
            },
            "required": ["text"],
            "additionalProperties": false
        });
        assert_eq!(arguments_schema::<Sample>(), expected);
    }
}
