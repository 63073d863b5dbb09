//! Canonical form of what an owner is asked for: JSON without blanks whose keys are sorted, so that equal calls have equal
//! digests. As RFC 8785, but for numbers, which are written as serde_json writes them.

use crate::domain::sha256_hex;
use crate::store::{MessageOutcome, NewOutbound};
use crate::tools::{MailDraft, RegisteredTool};
use serde_json::{Map, Value, json};

/// What is asked for.
pub struct CallIdentity<'a> {
    pub persona: &'a str,
    pub run: &'a str,
    pub call: &'a str,
    pub tool: &'a str,
    /// Digest of the tool's declaration; empty for a final text.
    pub definition: String,
    pub args: Value,
    pub mail: Option<(&'a MailDraft, &'a NewOutbound)>,
}

/// Canonical form with its digests.
pub struct CanonicalCall {
    pub json: String,
    pub sha256: String,
    /// Digest without the run and the call.
    pub fold_sha256: String,
}

impl CallIdentity<'_> {
    /// Returns the canonical form. The bytes of a mail and of every attachment are part of it by their digests.
    pub fn canonical(&self) -> CanonicalCall {
        let mut fold = json!({
            "persona": self.persona,
            "tool": self.tool,
            "definition": self.definition,
            "args": self.args,
        });
        if let Some((draft, _)) = self.mail {
            fold["files"] = draft.attachments.iter().map(file).collect();
        }
        let mut whole = fold.clone();
        whole["run"] = json!(self.run);
        whole["call"] = json!(self.call);
        if let Some((_, mail)) = self.mail
            && let MessageOutcome::Send { delivery, .. } = &mail.outcome
        {
            whole["mail"] = json!({
                "sender": delivery.envelope_from,
                "recipients": delivery.recipients,
                "sha256": sha256_hex(&[&delivery.bytes]),
            });
        }
        let json = canonical(&whole);
        CanonicalCall {
            sha256: sha256_hex(&[json.as_bytes()]),
            fold_sha256: sha256_hex(&[canonical(&fold).as_bytes()]),
            json,
        }
    }
}

fn file(attachment: &crate::tools::DraftAttachment) -> Value {
    json!({
        "name": attachment.filename,
        "bytes": attachment.bytes.len(),
        "sha256": sha256_hex(&[&attachment.bytes]),
    })
}

/// Returns the digest of a tool's declaration, as the model was given it.
pub fn definition(tool: &RegisteredTool) -> String {
    let declared = json!([tool.name(), tool.description(), tool.input_schema()]);
    sha256_hex(&[canonical(&declared).as_bytes()])
}

/// Formats a value with its keys sorted.
pub fn canonical(value: &Value) -> String {
    sorted(value).to_string()
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut keys: Vec<&String> = members.keys().collect();
            keys.sort();
            let members = keys
                .into_iter()
                .map(|key| (key.clone(), sorted(&members[key])));
            Value::Object(members.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_at_every_depth() {
        let value = json!({ "b": [{ "z": 1, "a": null }], "a": "x" });
        assert_eq!(canonical(&value), r#"{"a":"x","b":[{"a":null,"z":1}]}"#);
    }
}
