//! A request to an interface of programs, as a value.

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

/// Method of a request to an interface of programs, with its body.
pub(super) enum ApiContent {
    Get,
    Json(Value),
    /// JSON as it is to be sent, byte for byte.
    JsonText(String),
    /// Fields of a form, already encoded; one may be a key.
    Form(SecretString),
    /// Something at that address is to end.
    Delete,
}

/// A request to an interface of programs, at an address that the operator wrote.
pub struct ApiRequest {
    pub(super) url: String,
    pub(super) content: ApiContent,
    pub(super) accept: &'static str,
    /// Header fields, which may hold a key.
    pub(super) fields: Vec<(String, SecretString)>,
}

impl ApiRequest {
    pub fn get(url: &str, fields: &[(&str, &str)]) -> Self {
        let whole = reqwest::Url::parse_with_params(url, fields).ok();
        // What is no URL is refused where it is asked; without a field there would be a `?` alone.
        let whole = whole.filter(|_| !fields.is_empty());
        Self::to(whole.map_or_else(|| url.to_owned(), Into::into))
    }

    pub fn post(url: &str, body: Value) -> Self {
        Self {
            content: ApiContent::Json(body),
            ..Self::to(url.to_owned())
        }
    }

    /// Sends a JSON text byte for byte, as a signature needs it.
    pub fn post_text(url: &str, json: &str) -> Self {
        Self {
            content: ApiContent::JsonText(json.to_owned()),
            ..Self::to(url.to_owned())
        }
    }

    /// Sends the fields of a form.
    pub fn form(url: &str, fields: &[(&str, &str)]) -> Self {
        Self {
            content: ApiContent::Form(form_text(fields).into()),
            ..Self::to(url.to_owned())
        }
    }

    /// Asks that something at the address ends, such as a session.
    pub fn delete(url: &str) -> Self {
        Self {
            content: ApiContent::Delete,
            ..Self::to(url.to_owned())
        }
    }

    fn to(url: String) -> Self {
        Self {
            url,
            content: ApiContent::Get,
            accept: "application/json",
            fields: Vec::new(),
        }
    }

    /// Replaces the media types that are asked for.
    #[must_use]
    pub fn accepting(mut self, accept: &'static str) -> Self {
        self.accept = accept;
        self
    }

    /// Adds a header field.
    #[must_use]
    pub fn with_field(mut self, name: &str, value: SecretString) -> Self {
        self.fields.push((name.to_owned(), value));
        self
    }

    /// Adds a header field with a key behind a prefix such as `Bearer `.
    #[must_use]
    pub fn with_secret(self, name: &'static str, prefix: &str, key: &SecretString) -> Self {
        let value = format!("{prefix}{}", key.expose_secret());
        self.with_field(name, value.into())
    }
}

/// Encodes fields as a form does (`application/x-www-form-urlencoded`).
pub fn form_text(fields: &[(&str, &str)]) -> String {
    // `Url` has that encoding for its query; the address stays here.
    let url = reqwest::Url::parse_with_params("http://form.invalid/", fields);
    url.ok()
        .and_then(|url| url.query().map(str::to_owned))
        .unwrap_or_default()
}
