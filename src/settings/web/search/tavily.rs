//! Tavily: <https://docs.tavily.com/documentation/api-reference/endpoint/search>.

use super::{HITS_MAX, WrittenHit};
use crate::web::api_request::ApiRequest;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;

pub const BASE_URL: &str = "https://api.tavily.com";

#[derive(Deserialize)]
struct TavilyAnswer {
    results: Vec<WrittenHit>,
}

pub fn request(base_url: &str, query: &str, key: Option<&SecretString>) -> ApiRequest {
    let body = json!({ "query": query, "max_results": HITS_MAX });
    let request = ApiRequest::post(&format!("{base_url}/search"), body);
    match key {
        Some(key) => request.with_secret("authorization", "Bearer ", key),
        None => request,
    }
}

pub fn hits(body: &[u8]) -> Result<Vec<WrittenHit>, serde_json::Error> {
    serde_json::from_slice::<TavilyAnswer>(body).map(|answer| answer.results)
}
