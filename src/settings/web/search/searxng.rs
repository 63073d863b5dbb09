//! SearXNG: <https://docs.searxng.org/dev/search_api.html>. JSON is off unless the operator switches it on; then it
//! answers 403.

use super::WrittenHit;
use crate::web::api_request::ApiRequest;
use serde::Deserialize;

#[derive(Deserialize)]
struct SearxngAnswer {
    results: Vec<WrittenHit>,
}

pub fn request(base_url: &str, query: &str) -> ApiRequest {
    ApiRequest::get(
        &format!("{base_url}/search"),
        &[("q", query), ("format", "json")],
    )
}

pub fn hits(body: &[u8]) -> Result<Vec<WrittenHit>, serde_json::Error> {
    serde_json::from_slice::<SearxngAnswer>(body).map(|answer| answer.results)
}
