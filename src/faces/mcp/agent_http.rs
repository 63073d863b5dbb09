//! Other agents over HTTP: one request, one answer or stream of events, by the transport "streamable HTTP" without sessions.
//!
//! Whoever calls has checked the name, the origin and the key of the request. Names and origins are given to the library all the
//! same: by default it checks no origin.

use super::agent_server::AgentServer;
use axum::body::Body;
use axum::http::{Request, Response};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use std::sync::Arc;

/// Most bytes of a request: a question, and what the protocol adds.
pub const REQUEST_BYTES_MAX: usize = 256 * 1024;

/// Answers one request. `host`, `origin`: the only ones that count as ours.
pub async fn answer_request(
    server: AgentServer,
    host: &str,
    origin: &str,
    request: Request<Body>,
) -> Response<Body> {
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts([host])
        .with_allowed_origins([origin])
        .with_legacy_session_mode(false)
        // Nothing is kept that a client could ask for again.
        .with_sse_retry(None)
        .with_max_request_body_bytes(REQUEST_BYTES_MAX);
    let make = move || Ok(server.clone());
    let sessions = Arc::new(NeverSessionManager::default());
    let service = StreamableHttpService::new(make, sessions, config);
    service.handle(request).await.map(Body::new)
}
