//! Access: browsers with a session and keys of programs, each to be ended here. Neither is made here: a code and a key come
//! from the machine.

use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::http::reply;
use crate::store::{WebSession, WebToken};
use axum::response::Response;
use serde::Serialize;
use serde_json::{Value, json};

/// Most sessions and most keys that are looked at.
const SHOWN_MAX: u32 = 200;

#[derive(Serialize)]
struct SessionLine {
    #[serde(flatten)]
    session: WebSession,
    /// `true`: it is the one that reads this page.
    is_own: bool,
}

/// Shows sessions and keys that are good now.
pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    let (store, now) = (&call.context.store, call.context.now());
    let mut sessions = store.web_sessions(SHOWN_MAX).await?;
    sessions.retain(|one| one.is_good(one.used_at, now));
    let mut keys = store.web_tokens(SHOWN_MAX).await?;
    keys.retain(|key| key.is_good(now));
    let own = call.session().map(|browser| browser.session.id.as_str());
    let page = json!({
        "sessions": sessions
            .into_iter()
            .map(|session| SessionLine {
                is_own: own == Some(session.id.as_str()),
                session,
            })
            .collect::<Vec<_>>(),
        "keys": keys.into_iter().map(key_line).collect::<Vec<_>>(),
    });
    call.page("access.html", &page).await
}

fn key_line(key: WebToken) -> Value {
    let scopes: Vec<String> = key.scopes.iter().map(ToString::to_string).collect();
    json!({
        "id": key.id,
        "name": key.name,
        "scopes": scopes.join(", "),
        "created_by": key.created_by,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "used_at": key.used_at,
    })
}

/// Ends a session of a browser, which may be this one.
pub(in crate::http) async fn end_session(call: Call) -> Result<Response, PageError> {
    let ended = call.context.store.end_web_session(call.param("id"), "web");
    answered(ended.await?, "session")
}

/// Revokes a key of a program.
pub(in crate::http) async fn revoke_key(call: Call) -> Result<Response, PageError> {
    let revoked = call.context.store.revoke_web_token(call.param("id"), "web");
    answered(revoked.await?, "key")
}

fn answered(is_done: bool, noun: &str) -> Result<Response, PageError> {
    match is_done {
        true => Ok(reply::see_other("/access")),
        false => Err(PageError::Conflict {
            message: format!("there is no such {noun}, or it has ended before"),
            hint: "nothing was changed".to_owned(),
        }),
    }
}
