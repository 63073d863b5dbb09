//! What the model reads of a result, and whether it has the form that was approved. Pure.

use crate::tools::McpResult;
use serde_json::{Map, Value, json};

/// Most parts of a result that are read.
const PARTS_MAX: usize = 200;
/// Most characters of a name or an address that is shown.
const NAME_CHARS_MAX: usize = 300;
/// Words for a result without any: a model that is shown nothing takes it for a failure.
const NOTHING: &str = "(the tool says nothing)";

/// Reads a result. Errors: it is not of the form that the approved definition promises.
pub fn read(result: &Value, definition: &Value, bytes_max: usize) -> Result<McpResult, String> {
    check_form(result)?;
    let is_error = result["isError"] == true;
    let structured = structured(result, definition, is_error)?;
    let mut text = text(result);
    if text.is_empty() && structured.is_none() {
        NOTHING.clone_into(&mut text);
    }
    let mut content = Map::new();
    // JSON escapes: a text that fits may not fit as written.
    let bytes_max = bytes_max / 2;
    let whole = structured.map(Value::to_string).unwrap_or_default();
    match structured {
        Some(structured) if whole.len() <= bytes_max => {
            content.insert("structured".to_owned(), structured.clone());
            // Servers repeat it as text for clients that do not know it.
            let is_repeated =
                serde_json::from_str::<Value>(&text).is_ok_and(|text| text == *structured);
            if !text.is_empty() && !is_repeated {
                put_text(&mut content, &text, bytes_max.saturating_sub(whole.len()));
            }
        }
        Some(_) if text.is_empty() => put_text(&mut content, &whole, bytes_max),
        _ => put_text(&mut content, &text, bytes_max),
    }
    Ok(McpResult {
        content: Value::Object(content),
        is_error,
    })
}

/// Errors: it is no object, or its parts are no list (Model Context Protocol, `CallToolResult`). Servers leave the list out where
/// they have nothing to say.
fn check_form(result: &Value) -> Result<(), String> {
    match &result["content"] {
        Value::Array(_) => Ok(()),
        Value::Null if result.is_object() => Ok(()),
        _ => Err("its result has no list `content`".to_owned()),
    }
}

/// Reads a server's own error.
pub fn failed(said: &str) -> McpResult {
    McpResult {
        content: json!({ "content": said }),
        is_error: true,
    }
}

fn put_text(content: &mut Map<String, Value>, text: &str, bytes_max: usize) {
    let end = text.floor_char_boundary(bytes_max);
    content.insert("content".to_owned(), json!(text[..end]));
    if end < text.len() {
        content.insert("truncated".to_owned(), json!(true));
        content.insert("size_bytes".to_owned(), json!(text.len()));
    }
}

/// Returns the structured part of a result, checked against the approved schema of results.
fn structured<'r>(
    result: &'r Value,
    definition: &Value,
    is_error: bool,
) -> Result<Option<&'r Value>, String> {
    let structured = result
        .get("structuredContent")
        .filter(|value| !value.is_null());
    let Some(schema) = definition.get("outputSchema").filter(|_| !is_error) else {
        return Ok(structured);
    };
    let Some(value) = structured else {
        return Err("its definition promises a structured result, and there is none".to_owned());
    };
    let validator = jsonschema::validator_for(schema)
        .map_err(|_| "the schema of its results is broken".to_owned())?;
    match validator.validate(value) {
        Ok(()) => Ok(structured),
        Err(error) => {
            let place = error.instance_path().as_str().to_owned();
            Err(format!(
                "its result does not fit its own schema at `{place}/`"
            ))
        }
    }
}

/// Joins the parts of a result. Pictures, sounds and links are named, not followed.
fn text(result: &Value) -> String {
    let parts = result["content"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let mut said: Vec<String> = parts.iter().take(PARTS_MAX).map(part).collect();
    if parts.len() > PARTS_MAX {
        said.push(format!(
            "[{} more parts are left out]",
            parts.len() - PARTS_MAX
        ));
    }
    said.join("\n")
}

fn part(part: &Value) -> String {
    let word = |value: &Value| -> String {
        let text = value
            .as_str()
            .unwrap_or("?")
            .chars()
            .filter(|c| !c.is_control());
        text.take(NAME_CHARS_MAX).collect()
    };
    let bytes = |value: &Value| value.as_str().map_or(0, |text| text.len() / 4 * 3);
    match part["type"].as_str() {
        Some("text") => part["text"].as_str().unwrap_or_default().to_owned(),
        Some(kind @ ("image" | "audio")) => format!(
            "[{kind} {}, about {} bytes, not shown]",
            word(&part["mimeType"]),
            bytes(&part["data"])
        ),
        Some("resource") => match part["resource"]["text"].as_str() {
            Some(text) => format!("[{}]\n{text}", word(&part["resource"]["uri"])),
            None => format!(
                "[{}, about {} bytes, not shown]",
                word(&part["resource"]["uri"]),
                bytes(&part["resource"]["blob"])
            ),
        },
        Some("resource_link") => {
            let about = word(&part["description"]);
            let about = Some(about).filter(|about| about != "?");
            let about = about.map(|about| format!(", {about}")).unwrap_or_default();
            format!(
                "[link {}: {}{about}]",
                word(&part["name"]),
                word(&part["uri"])
            )
        }
        _ => "[a part of an unknown kind]".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(result: Value, definition: Value) -> Result<Value, String> {
        read(&result, &definition, 1000).map(|read| read.content)
    }

    #[test]
    fn texts_are_joined_and_what_is_no_text_is_named() {
        let result = json!({ "content": [
            { "type": "text", "text": "mild" },
            { "type": "image", "mimeType": "image/png", "data": "AAAAAAAA" },
            { "type": "resource_link", "uri": "file:///a", "name": "a" },
            { "type": "smell" },
        ] });
        let said = "mild\n[image image/png, about 6 bytes, not shown]\n[link a: file:///a]\n[a part of an unknown kind]";
        assert_eq!(content(result, json!({})), Ok(json!({ "content": said })));
        let long = json!({ "content": [{ "type": "text", "text": "ä".repeat(400) }] });
        let cut = content(long, json!({})).expect("read");
        assert_eq!(
            (cut["truncated"].clone(), cut["size_bytes"].clone()),
            (json!(true), json!(800))
        );
        assert_eq!(cut["content"].as_str().map(str::len), Some(500));
    }

    #[test]
    fn a_result_without_a_list_of_parts_is_none() {
        for wrong in [
            json!({ "content": "x" }),
            json!([]),
            json!(null),
            json!({ "content": {} }),
        ] {
            assert!(content(wrong.clone(), json!({})).is_err(), "{wrong}");
        }
        for right in [
            json!({ "content": [] }),
            json!({}),
            json!({ "content": null, "isError": false }),
            json!({ "content": [{ "type": "text", "text": "" }] }),
        ] {
            let nothing = Ok(json!({ "content": NOTHING }));
            assert_eq!(content(right.clone(), json!({})), nothing, "{right}");
        }
        let structured = json!({ "structuredContent": { "a": 1 } });
        assert!(content(structured, json!({})).is_ok());
        let link = json!({ "content": [{ "type": "resource_link", "uri": "file:///a", "name": "a", "description": "the menu" }] });
        let said = Ok(json!({ "content": "[link a: file:///a, the menu]" }));
        assert_eq!(content(link, json!({})), said);
    }

    #[test]
    fn a_structured_result_has_the_form_that_was_approved() {
        let definition = json!({ "outputSchema": { "type": "object", "properties": { "degrees": { "type": "number" } },
            "required": ["degrees"] } });
        let with = |structured: Value| {
            let text = structured.to_string();
            json!({ "content": [{ "type": "text", "text": text }], "structuredContent": structured })
        };
        assert_eq!(
            content(with(json!({ "degrees": 4 })), definition.clone()),
            Ok(json!({ "structured": { "degrees": 4 } }))
        );
        assert!(content(with(json!({ "degrees": "warm" })), definition.clone()).is_err());
        assert!(content(json!({ "content": [] }), definition.clone()).is_err());
        let failed =
            json!({ "content": [{ "type": "text", "text": "no such city" }], "isError": true });
        assert!(read(&failed, &definition, 1000).is_ok_and(|read| read.is_error));
    }
}
