//! `ingest` in `configs/gateway.json`: letters that other programs hand in over HTTP.

use crate::config::file::{Document, child};
use crate::config::values::check_context::CheckContext;
use crate::config::values::net::domain;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Letters that other programs hand in over HTTP.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedIngest {
    /// The authserv-id of the server behind which a key's letters come, such as `mx.cloudflare.net`: its topmost
    /// `Authentication-Results` are believed. Default: none, and senders are known by their signatures alone.
    authserv_id: Option<String>,
}

/// Letters that other programs hand in over HTTP.
#[derive(Debug, Clone, Default)]
pub struct HttpIngest {
    /// Server whose results are believed on letters that a key hands in; lower case.
    pub authserv_id: Option<String>,
}

/// Resolves the section. Problems go to the context.
pub(super) fn resolve(
    file: &Document,
    typed: Option<&TypedIngest>,
    ctx: &mut CheckContext<'_>,
) -> HttpIngest {
    let typed = typed.and_then(|typed| typed.authserv_id.as_deref());
    let authserv_id = typed.and_then(domain);
    if let (Some(typed), None) = (typed, &authserv_id) {
        let pointer = child("/ingest", "authserv_id");
        ctx.complain(file, &pointer, format!("`{typed}` is not a host name"));
    }
    HttpIngest { authserv_id }
}

/// JSON of the section.
pub fn show(ingest: &HttpIngest) -> Value {
    json!({ "authserv_id": ingest.authserv_id })
}
