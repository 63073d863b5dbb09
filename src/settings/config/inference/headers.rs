//! `headers` of a provider's block: further headers of its requests.
//!
//! A header that may hold a secret names the variable of its value, so that no key stands in a
//! configuration file. Absent on purpose: headers that the engine or HTTP itself needs.

use crate::config::values::section::*;

/// Most headers of one block, and longest value in bytes.
const HEADERS_MAX: usize = 20;
const VALUE_BYTES_MAX: usize = 4096;
/// Headers that HTTP or an adapter sets; a prefix ends with `-`.
const RESERVED: &[&str] = &[
    "accept",
    "accept-encoding",
    "anthropic-version",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "proxy-",
];
/// Headers that carry the key of a provider.
const OF_KEYS: &[&str] = &["authorization", "x-api-key", "x-goog-api-key"];
/// Parts of names of headers whose value is hardly public.
const SECRET_PARTS: &[&str] = &["key", "token", "secret", "auth", "password", "cookie"];

/// Value of a header: a text, or the variable that holds it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TypedHeader {
    /// The value.
    Text(String),
    /// Variable with the value.
    Variable(TypedHeaderVariable),
}

/// Variable of the environment, or line of `.secrets`, with the value of a header.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedHeaderVariable {
    #[schemars(regex(pattern = r"^[A-Z][A-Z0-9_]*$"))]
    variable: String,
}

/// A header of every request of a provider.
#[derive(Debug, Clone)]
pub struct ProviderHeader {
    /// In lower case.
    pub name: String,
    pub value: HeaderText,
}

/// Value of a header.
#[derive(Debug, Clone)]
pub enum HeaderText {
    Public(String),
    /// From a variable of the environment or a line of `.secrets`; never written down.
    Secret {
        variable: String,
        value: SecretString,
    },
}

impl ProviderHeader {
    /// Returns the value, if it is a secret.
    pub fn secret(&self) -> Option<&SecretString> {
        match &self.value {
            HeaderText::Public(_) => None,
            HeaderText::Secret { value, .. } => Some(value),
        }
    }
}

/// Variables that headers name.
pub fn variables<'h>(
    headers: impl Iterator<Item = (&'h String, &'h TypedHeader)>,
) -> impl Iterator<Item = &'h str> {
    headers.filter_map(|(_, typed)| match typed {
        TypedHeader::Text(_) => None,
        TypedHeader::Variable(typed) => Some(typed.variable.as_str()),
    })
}

/// Resolves the headers of a block. Problems go to the context; a variable that is not set is one.
pub fn resolve<'h>(
    typed: impl Iterator<Item = (&'h String, &'h TypedHeader)>,
    place: &mut CheckPlace<'_, '_>,
) -> Vec<ProviderHeader> {
    let mut headers: Vec<ProviderHeader> = Vec::new();
    for (typed_name, typed) in typed {
        let place = &mut place.under(typed_name);
        let name = typed_name.to_ascii_lowercase();
        let known = headers.iter().any(|header| header.name == name);
        if let Some((message, hint)) = fault(&name, typed, known) {
            place.refuse_key("", message, &hint);
            continue;
        }
        let value = match typed {
            TypedHeader::Text(text) => HeaderText::Public(text.trim().to_owned()),
            TypedHeader::Variable(TypedHeaderVariable { variable }) => {
                let message = format!("`{variable}` is not set");
                let hint = format!(
                    "write `{variable}=…` into `.secrets` (mode 0600), or take the header out"
                );
                let Some(value) = place.secret_or("", variable, message, hint) else {
                    continue;
                };
                HeaderText::Secret {
                    variable: variable.clone(),
                    value,
                }
            }
        };
        headers.push(ProviderHeader { name, value });
    }
    if headers.len() > HEADERS_MAX {
        place.refuse_key("", format!("there are more than {HEADERS_MAX} headers"), "");
    }
    headers
}

/// Returns what is wrong with a header, and a hint.
fn fault(name: &str, typed: &TypedHeader, is_known: bool) -> Option<(String, String)> {
    let says = |message: String, hint: &str| Some((message, hint.to_owned()));
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 100 || !name.chars().all(legal) {
        return says(
            format!("no header is called `{name}`"),
            "a name has letters, digits, `-` and `_`",
        );
    }
    if is_known {
        return says(format!("`{name}` is written twice"), "keep one of the two");
    }
    if OF_KEYS.contains(&name) {
        return says(
            format!("`{name}` carries the key of the provider"),
            "name the variable of the key by `api_key_variable`",
        );
    }
    let is_reserved = |reserved: &&&str| match reserved.ends_with('-') {
        true => name.starts_with(**reserved),
        false => name == **reserved,
    };
    if RESERVED.iter().find(is_reserved).is_some() {
        return says(
            format!("`{name}` is set by the engine"),
            "take it out: another value would break the connection or its answers",
        );
    }
    let TypedHeader::Text(text) = typed else {
        return None;
    };
    if SECRET_PARTS.iter().any(|part| name.contains(part)) {
        return says(
            format!("`{name}` may hold a secret, and this file is no place for one"),
            "write `{\"variable\": \"NAME\"}`, and `NAME=…` into `.secrets`",
        );
    }
    let is_text = |c: char| c == ' ' || c.is_ascii_graphic();
    let text = text.trim();
    (text.is_empty() || text.len() > VALUE_BYTES_MAX || !text.chars().all(is_text)).then(|| {
        (
            format!("`{name}` has no value that a header can hold"),
            format!("write 1 to {VALUE_BYTES_MAX} printable ASCII characters"),
        )
    })
}
