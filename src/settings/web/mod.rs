//! Pages of the web, behind one guard: which URL may be asked, which address may be connected to, and how much is read.
//!
//! - `tls`: what every TLS connection is made with
//! - `address`: addresses that are part of the public internet
//! - `target`: a URL that may be asked
//! - `page`: what was fetched, as text
//! - `api_request`: a request to an interface of programs
//! - `fetcher`: one request after another, redirects included
//! - `oauth`: the token endpoint of an authorization server
//! - `search`: pages on a subject, by a service
//!
//! Absent on purpose: who may fetch what (`policy`, `runs::label`), and the clients of providers, whose URLs an operator wrote.

mod tls;
mod address;
mod target;
mod page;
mod api_request;
mod fetcher;
mod oauth;
mod search;

pub use address::is_public;
pub use api_request::{ApiRequest, form_text};
pub use fetcher::{
    AnyRedirect, ApiAnswer, ApiStream, FetchError, FetchLimits, Lookup, RedirectRule, SystemLookup,
    WebFetcher,
};
pub use oauth::{ClientAuth, GivenTokens, NoTokens, RegisteredClient, error_word, refusal};
pub use page::WebPage;
pub use search::{SEARCH_TIMEOUT, SearchHit, SearchService, WebSearcher, search_host};
pub use target::{UrlRefusal, WebTarget, own_target, private_target};
pub use tls::{http_client, tls_provider};
