//! Logging in with a one-time code, and out.

use crate::http::call::Call;
use crate::http::checks::{HOME, own_path};
use crate::http::failure::PageError;
use crate::http::refusal::{self, LoginPage};
use crate::http::reply;
use crate::store::NewWebSession;
use axum::http::StatusCode;
use axum::response::Response;

pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    refusal::login_page(&call.context, StatusCode::OK, &LoginPage::to(HOME)).await
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
        call.context.codes_failed.note(call.client);
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
