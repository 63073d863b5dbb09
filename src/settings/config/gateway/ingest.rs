//! `ingest` in `configs/gateway.json`: letters that other programs hand in over HTTP.

use crate::config::values::net::domain;
use crate::config::values::section::*;

/// Letters that other programs hand in over HTTP.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpIngest {
    /// The authserv-id of the server behind which a key's letters come, such as `mx.cloudflare.net`: its topmost
    /// `Authentication-Results` are believed. Default: none, and senders are known by their signatures alone.
    pub authserv_id: Option<String>,
}

/// Resolves the section: the host's name is in lower case. Problems go to the context.
pub(super) fn resolve(typed: Option<&HttpIngest>, place: &mut CheckPlace<'_, '_>) -> HttpIngest {
    let typed = typed.and_then(|typed| typed.authserv_id.as_deref());
    let authserv_id = typed.and_then(domain);
    if let (Some(typed), None) = (typed, &authserv_id) {
        place.complain("authserv_id", format!("`{typed}` is not a host name"));
    }
    HttpIngest { authserv_id }
}
