//! `POST /mcp`: other agents, by the Model Context Protocol.

use crate::http::call::Call;
use crate::http::checks::CallRight;
use crate::http::failure::PageError;
use crate::http::route::RouteAccess;
use crate::mcp::{AgentAccess, AgentServer, answer_request};
use axum::body::Body;
use axum::http::{Request, header};
use axum::response::Response;
use futures_util::future::BoxFuture;
use std::sync::Arc;

/// Answers one request of an agent, as far as its key goes.
pub(in crate::http) async fn agents(call: Call) -> Result<Response, PageError> {
    let Some(key) = call.key() else {
        return Err(PageError::Unauthorized);
    };
    let context = call.context.clone();
    let access = AgentAccess::of_key(key, &context.config);
    let wake = context.clone();
    let right = CallRight::of(&call, RouteAccess::Agent);
    let is_good = move || -> BoxFuture<'static, bool> {
        let right = right.clone();
        Box::pin(async move { right.is_good().await })
    };
    let server = AgentServer::new(context.store.clone(), context.config.clone(), access).within(
        context.answers.clone(),
        Arc::new(move || wake.wake()),
        Arc::new(is_good),
    );
    let mut request = Request::new(Body::from(call.body.clone()));
    *request.method_mut() = call.method.clone();
    *request.headers_mut() = call.headers.clone();
    // The key is nothing for what lies behind.
    request.headers_mut().remove(header::AUTHORIZATION);
    let (host, origin) = (&call.origin.authority, with_port(&call));
    Ok(answer_request(server, host, &origin, request).await)
}

/// Returns our origin with its port: without one, the library lets every port pass.
fn with_port(call: &Call) -> String {
    let origin = call.origin.to_string();
    let has_port = call
        .origin
        .authority
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    match (has_port, call.origin.is_https) {
        (true, _) => origin,
        (false, true) => format!("{origin}:443"),
        (false, false) => format!("{origin}:80"),
    }
}
