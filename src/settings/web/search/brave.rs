//! Brave Search: <https://api-dashboard.search.brave.com/app/documentation/web-search/get-started>.

use super::{HITS_MAX, WrittenHit};
use crate::web::api_request::ApiRequest;
use secrecy::SecretString;
use serde::Deserialize;

pub const BASE_URL: &str = "https://api.search.brave.com";

#[derive(Deserialize)]
struct BraveAnswer {
    /// Absent where nothing was found.
    #[serde(default)]
    web: BraveWeb,
}

#[derive(Deserialize, Default)]
struct BraveWeb {
    #[serde(default)]
    results: Vec<WrittenHit>,
}

pub fn request(base_url: &str, query: &str, key: Option<&SecretString>) -> ApiRequest {
    let count = HITS_MAX.to_string();
    let fields = [("q", query), ("count", count.as_str())];
    let request = ApiRequest::get(&format!("{base_url}/res/v1/web/search"), &fields);
    match key {
        Some(key) => request.with_secret("x-subscription-token", "", key),
        None => request,
    }
}

pub fn hits(body: &[u8]) -> Result<Vec<WrittenHit>, serde_json::Error> {
    serde_json::from_slice::<BraveAnswer>(body).map(|answer| answer.web.results)
}
