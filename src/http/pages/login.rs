//! Logging in with a one-time code, and out.

use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::http::reply::{self, LoginPage};
use crate::http::templates;
use crate::store::NewWebSession;
use axum::http::StatusCode;
use axum::response::Response;

/// Path after a login that asks for none.
const HOME: &str = "/";

pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    let values = LoginPage {
        next: HOME,
        crossed: false,
        assets: templates::assets(),
    };
    let page = call.context.render("login.html", values)?;
    Ok(reply::html(StatusCode::OK, page))
}

pub(in crate::http) async fn log_in(call: Call) -> Result<Response, PageError> {
    let store = &call.context.store;
    let code: String = call
        .field("code")
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|digit| digit.to_ascii_lowercase())
        .collect();
    let secret = store.clock().new_secret();
    let new = NewWebSession {
        code,
        listener: call.context.listener.clone(),
        browser: call.browser.clone(),
        secret: secret.clone(),
        form_token: store.clock().new_secret(),
    };
    if store.open_web_session(new).await?.is_none() {
        call.context.attempts.note(call.client);
        return Err(PageError::Refused(
            "this code is not good here: it works once, within a minute, at the address it was made for. \
             `attache web login` makes another"
                .to_owned(),
        ));
    }
    tracing::info!(client = %call.client, "a browser logged in to the pages");
    let _first = call.renewed.set(call.set_cookie(&secret));
    Ok(reply::see_other(own_path(call.field("next"))))
}

pub(in crate::http) async fn log_out(call: Call) -> Result<Response, PageError> {
    if let Some(session) = call.session() {
        let id = &session.session.id;
        call.context.store.end_web_session(id, "browser").await?;
    }
    let _first = call.renewed.set(call.set_cookie(""));
    Ok(reply::see_other("/login"))
}

/// Returns a path of ours, never an address: `//host` and `/\host` are addresses to browsers.
fn own_path(next: &str) -> &str {
    let is_path = next.starts_with('/')
        && !next[1..].starts_with(['/', '\\'])
        && next.bytes().all(|byte| byte.is_ascii_graphic());
    if is_path { next } else { HOME }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_led_elsewhere_after_a_login() {
        for (next, path) in [
            ("/t/1?a=b", "/t/1?a=b"),
            ("//evil.test", HOME),
            ("/\\evil.test", HOME),
            ("https://evil.test", HOME),
            ("/a\r\nSet-Cookie: x", HOME),
            ("", HOME),
        ] {
            assert_eq!(own_path(next), path, "{next}");
        }
    }
}
