//! `mcp.lock.json`: the definitions of tools that the owner has approved, whole and with their digests. `attache mcp approve`
//! writes it; as a file of the configuration it is recorded with every run.

use crate::config::values::section::*;
use crate::domain::sha256_hex;

/// Approved definitions by server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "configs/mcp.lock.json")]
pub struct McpPins {
    #[serde(default)]
    pub servers: BTreeMap<String, McpServerPin>,
}

/// A server as it was when its tools were approved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpServerPin {
    /// Command that started it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Its program, and the scripts among its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<PinnedFile>,
    /// Address at which it answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Its tools by their own names.
    #[serde(default)]
    pub tools: BTreeMap<String, McpToolPin>,
}

/// A file that must not change.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PinnedFile {
    /// Absolute path.
    pub path: String,
    pub sha256: String,
}

/// An approved definition.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpToolPin {
    /// Digest of `definition`.
    pub sha256: String,
    /// The whole object that the server sent, in canonical form.
    pub definition: String,
    /// Time of the approval.
    pub approved_at: String,
}

impl McpToolPin {
    /// Pins a definition as it came from the server.
    pub fn from_definition(definition: &Value, approved_at: String) -> Self {
        let definition = canonical(definition);
        Self {
            sha256: sha256_hex(&[definition.as_bytes()]),
            definition,
            approved_at,
        }
    }

    /// Returns the approved definition; `None`: the file was changed by hand.
    pub fn read(&self) -> Option<Value> {
        let is_whole = sha256_hex(&[self.definition.as_bytes()]) == self.sha256;
        let read = serde_json::from_str(&self.definition).ok();
        read.filter(|_| is_whole)
    }
}

/// Returns the digest of a definition, over every member that the server sent.
pub fn definition_sha256(definition: &Value) -> String {
    sha256_hex(&[canonical(definition).as_bytes()])
}

/// Formats JSON in one way: members sorted by name, no space.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let sorted: BTreeMap<&String, &Value> = members.iter().collect();
            let members = sorted
                .into_iter()
                .map(|(name, member)| format!("{}:{}", quoted(name), canonical(member)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => {
            let items = items.iter().map(canonical);
            format!("[{}]", items.collect::<Vec<_>>().join(","))
        }
        plain => plain.to_string(),
    }
}

fn quoted(name: &str) -> String {
    Value::String(name.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_order_of_members_does_not_count_and_everything_else_does() {
        let pinned = json!({ "name": "a", "inputSchema": { "type": "object", "properties": { "x": {}, "b": [1, 2] } } });
        let again: Value = serde_json::from_str(
            r#"{"inputSchema": {"properties": {"b": [1, 2], "x": {}}, "type": "object"}, "name": "a"}"#,
        )
        .expect("JSON");
        assert_eq!(definition_sha256(&pinned), definition_sha256(&again));
        for (pointer, value) in [
            ("/name", json!("b")),
            ("/inputSchema/properties/b", json!([2, 1])),
            (
                "/inputSchema/properties/x",
                json!({ "default": "\u{200b}" }),
            ),
        ] {
            let mut other = pinned.clone();
            *other.pointer_mut(pointer).expect(pointer) = value;
            assert_ne!(
                definition_sha256(&pinned),
                definition_sha256(&other),
                "{pointer}"
            );
        }
        let pin = McpToolPin::from_definition(&pinned, String::new());
        assert_eq!(pin.read(), Some(again));
        let damaged = McpToolPin {
            definition: pin.definition.replace("\"a\"", "\"c\""),
            ..pin
        };
        assert_eq!(damaged.read(), None);
    }
}
