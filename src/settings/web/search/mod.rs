//! Search of the web by a service that the operator has chosen. One file a service: its request, and its answer.
//!
//! The service's host is opened for the search alone: a SearXNG of one's own stands in one's own network.

mod brave;
mod searxng;
mod tavily;

use super::fetcher::{FetchError, FetchLimits, Lookup, WebFetcher};
use super::target::{WebTarget, own_target};
use crate::mime::html_to_text;
use crate::text::{one_line, truncated};
use secrecy::SecretString;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

const HITS_MAX: usize = 10;
const TITLE_CHARS_MAX: usize = 200;
const SNIPPET_CHARS_MAX: usize = 600;
const URL_BYTES_MAX: usize = 2_000;
const ANSWER_BYTES_MAX: usize = 1_000_000;
/// Time of a search that nothing else is configured for.
pub const SEARCH_TIMEOUT: Duration = Duration::from_secs(15);

/// A service that searches the web.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchService {
    Searxng,
    Brave,
    Tavily,
}

impl SearchService {
    pub const ALL: [Self; 3] = [Self::Searxng, Self::Brave, Self::Tavily];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Searxng => "searxng",
            Self::Brave => "brave",
            Self::Tavily => "tavily",
        }
    }

    /// Returns the address of the service; `None`: it has none of its own.
    pub fn usual_base_url(self) -> Option<&'static str> {
        match self {
            Self::Searxng => None,
            Self::Brave => Some(brave::BASE_URL),
            Self::Tavily => Some(tavily::BASE_URL),
        }
    }

    /// Returns the variable of the service's key; `None`: it needs none.
    pub fn key_variable(self) -> Option<&'static str> {
        match self {
            Self::Searxng => None,
            Self::Brave => Some("BRAVE_API_KEY"),
            Self::Tavily => Some("TAVILY_API_KEY"),
        }
    }
}

/// A page that was found. Its texts are of one line and bounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchHit {
    pub url: String,
    pub title: String,
    pub snippet: String,
}

/// A hit as a service writes it; each has its own name for the snippet.
#[derive(Deserialize)]
struct WrittenHit {
    #[serde(default)]
    url: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default, alias = "content", alias = "description")]
    snippet: Option<String>,
}

/// Searches the web by one service.
#[derive(Clone)]
pub struct WebSearcher {
    service: SearchService,
    base_url: String,
    key: Option<SecretString>,
    fetcher: WebFetcher,
}

impl WebSearcher {
    /// Builds a searcher that asks `base_url`, which [`search_host`] has accepted.
    pub fn new(
        service: SearchService,
        base_url: &str,
        key: Option<SecretString>,
        lookup: Arc<dyn Lookup>,
    ) -> Self {
        let limits = FetchLimits {
            redirects_max: 0,
            body_bytes_max: ANSWER_BYTES_MAX,
            duration_max: SEARCH_TIMEOUT,
        };
        let opened: Vec<String> = own_target(base_url).into_iter().collect();
        Self {
            service,
            base_url: base_url.trim_end_matches('/').to_owned(),
            key,
            fetcher: WebFetcher::new(&opened, lookup, limits),
        }
    }

    /// Searches, within this time. Errors: as those of a page; `search_refused`: the service refuses the key or this form of answer;
    /// `search_limit`: it has answered enough for now; `search_unreadable`.
    pub async fn search(
        &self,
        query: &str,
        within: Duration,
    ) -> Result<Vec<SearchHit>, FetchError> {
        let request = match self.service {
            SearchService::Searxng => searxng::request(&self.base_url, query),
            SearchService::Brave => brave::request(&self.base_url, query, self.key.as_ref()),
            SearchService::Tavily => tavily::request(&self.base_url, query, self.key.as_ref()),
        };
        let answer = self.fetcher.within(within).ask_api(request).await?;
        match answer.status {
            200..300 => {}
            401 | 403 => {
                tracing::warn!(
                    service = self.service.as_str(),
                    status = answer.status,
                    hint = self.refused(),
                    "the search is refused"
                );
                let why = "the search service refuses to answer, which only your owner can mend; finish without it";
                return Err(FetchError::new("search_refused", why));
            }
            429 | 432 | 433 => {
                let why = "the search service has answered enough for now; finish without it";
                return Err(FetchError::new("search_limit", why));
            }
            status => {
                let why = format!("the search service answered with status {status}");
                return Err(FetchError::new("http_status", why));
            }
        }
        let read = match self.service {
            SearchService::Searxng => searxng::hits(&answer.body),
            SearchService::Brave => brave::hits(&answer.body),
            SearchService::Tavily => tavily::hits(&answer.body),
        };
        let hits = read.map_err(|_| {
            FetchError::new(
                "search_unreadable",
                "the search service answered with something else than results",
            )
        })?;
        Ok(hits.into_iter().filter_map(hit).take(HITS_MAX).collect())
    }

    /// Remedy for the operator.
    fn refused(&self) -> &'static str {
        match self.service {
            SearchService::Searxng => "add `json` to `search.formats` in its settings.yml",
            SearchService::Brave | SearchService::Tavily => "look whether its key is right",
        }
    }
}

/// Returns the host of a service's address; `None`: it is no address that can be asked.
pub fn search_host(base_url: &str) -> Option<String> {
    let opened: Vec<String> = own_target(base_url).into_iter().collect();
    let target = WebTarget::parse(base_url, &opened).ok()?;
    target.url.query().is_none().then_some(target.host)
}

fn hit(written: WrittenHit) -> Option<SearchHit> {
    let is_web = written.url.starts_with("https://") || written.url.starts_with("http://");
    let is_plain = !written
        .url
        .chars()
        .any(|c| c.is_control() || c.is_whitespace());
    if !is_web || !is_plain || written.url.len() > URL_BYTES_MAX {
        return None;
    }
    // Services mark the words that were searched for.
    let line = |text: Option<String>, chars_max| {
        let text = text.unwrap_or_default();
        truncated(&one_line(&html_to_text(&text)), chars_max)
    };
    Some(SearchHit {
        url: written.url,
        title: line(written.title, TITLE_CHARS_MAX),
        snippet: line(written.snippet, SNIPPET_CHARS_MAX),
    })
}
