//! Finds the authorization server of a server: asks the server, reads its metadata, and those of the issuer that they name.

use super::error::LoginError;
use super::metadata::{
    BearerChallenge, IssuerMetadata, ResourceMetadata, issuer_places, resource_places,
};
use crate::config::{McpOAuth, McpServer, origin};
use crate::mcp_client::message;
use crate::web::{ApiRequest, FetchError, FetchLimits, SystemLookup, WebFetcher};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Most bytes of an answer: metadata, a registration, tokens.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
const ANSWER_TIME_MAX: Duration = Duration::from_secs(15);

/// What a login needs to know.
pub struct FoundIssuer {
    /// Identifier of the server, for which tokens are asked (RFC 8707).
    pub resource: String,
    pub metadata: IssuerMetadata,
    pub scope: Option<String>,
}

/// Returns the way to what a login asks. The hosts and ports that the owner wrote may be private; no other.
pub fn fetcher(server: &McpServer) -> WebFetcher {
    let issuer = server
        .oauth
        .as_ref()
        .and_then(|oauth| oauth.issuer.as_deref());
    let written = server.url.as_deref().into_iter().chain(issuer);
    let opened: Vec<String> = written.filter_map(origin).collect();
    let limits = FetchLimits {
        body_bytes_max: ANSWER_BYTES_MAX,
        duration_max: ANSWER_TIME_MAX,
        ..FetchLimits::default()
    };
    WebFetcher::new(&opened, Arc::new(SystemLookup), limits)
}

/// Finds the authorization server. Errors: there is none, or one without which a login would not be safe.
pub async fn discover(
    server: &McpServer,
    url: &str,
    fetcher: &WebFetcher,
) -> Result<FoundIssuer, LoginError> {
    let challenge = challenge(server, url, fetcher).await?;
    let places = match &challenge.resource_metadata {
        // What the server names counts alone: a refused address is no reason to look elsewhere.
        Some(place) => vec![place.clone()],
        None => resource_places(url),
    };
    let found = first::<ResourceMetadata>(&places, url, fetcher).await?;
    let resource = found.ok_or_else(|| {
        let what = format!(
            "`{url}` says nothing about a login: there is nothing at `{}`",
            places.join("`, `")
        );
        LoginError::unusable(what)
    })?;
    resource.check(url)?;
    let oauth = server.oauth.clone().unwrap_or_default();
    let issuer = issuer_of(&resource, &oauth)?;
    check_scheme(&issuer, url)?;
    let places = issuer_places(&issuer);
    let found = first::<IssuerMetadata>(&places, url, fetcher).await?;
    let metadata = found.ok_or_else(|| {
        LoginError::unusable(format!(
            "`{issuer}` has no metadata of an authorization server"
        ))
    })?;
    metadata.check(&issuer)?;
    for endpoint in metadata.endpoints() {
        check_scheme(endpoint, url)?;
    }
    let supported = Some(resource.scopes_supported.join(" "));
    let scope = oauth.scope.or(challenge.scope).or(supported);
    Ok(FoundIssuer {
        resource: resource.resource,
        metadata,
        scope: scope.filter(|scope| !scope.is_empty()),
    })
}

/// Asks the server without a token, and returns what its refusal says about a login.
async fn challenge(
    server: &McpServer,
    url: &str,
    fetcher: &WebFetcher,
) -> Result<BearerChallenge, LoginError> {
    let request =
        ApiRequest::post(url, first_message()).accepting("application/json, text/event-stream");
    let fields = server.headers.iter();
    let fields = fields.filter_map(|field| Some((&field.name, field.value.clone()?)));
    let request = fields.fold(request, |request, (name, value)| {
        request.with_field(name, value)
    });
    let late = |_| FetchError {
        code: "timed_out",
        message: "no answer came in time".to_owned(),
    };
    let asked = tokio::time::timeout(ANSWER_TIME_MAX, fetcher.open_api(request)).await;
    let answer = asked.map_err(late).flatten();
    let answer = answer.map_err(|error| LoginError::not_fetched(url, &error))?;
    let field = match answer.status() {
        401 => answer.field("www-authenticate").unwrap_or_default(),
        // Some servers refuse the call of a tool only.
        _ => "",
    };
    Ok(BearerChallenge::read(field))
}

fn first_message() -> Value {
    message::request("login", "initialize", message::greeting())
}

fn issuer_of(resource: &ResourceMetadata, oauth: &McpOAuth) -> Result<String, LoginError> {
    let named = &resource.authorization_servers;
    match &oauth.issuer {
        Some(issuer) if named.contains(issuer) => Ok(issuer.clone()),
        Some(issuer) => Err(LoginError::unusable(format!(
            "the server does not name `{issuer}` among its authorization servers; `oauth.issuer` is written exactly as it names it"
        ))),
        None => named.first().cloned().ok_or_else(|| {
            LoginError::unusable("the server's metadata name no authorization server")
        }),
    }
}

/// Refuses plain text, unless the owner reaches the server itself so.
fn check_scheme(address: &str, server: &str) -> Result<(), LoginError> {
    let scheme = reqwest::Url::parse(address).map(|url| url.scheme().to_owned());
    match scheme.as_deref() {
        Ok("https") => Ok(()),
        Ok("http") if server.starts_with("http://") => Ok(()),
        _ => Err(LoginError::unusable(format!(
            "`{}` is no `https` address, so no login is sent there",
            crate::text::shortened(&crate::text::one_line(address), 200)
        ))),
    }
}

/// Returns the first JSON that there is at these places. No redirect is followed: it would lead where nobody has looked.
async fn first<T: DeserializeOwned>(
    places: &[String],
    server: &str,
    fetcher: &WebFetcher,
) -> Result<Option<T>, LoginError> {
    for place in places {
        check_scheme(place, server)?;
        let answer = fetcher.ask_api(ApiRequest::get(place, &[])).await;
        let answer = answer.map_err(|error| LoginError::not_fetched(place, &error))?;
        let because = |why: &str| LoginError::NotFetched {
            url: place.clone(),
            why: why.to_owned(),
        };
        match answer.status {
            200 => {
                let read = serde_json::from_slice(&answer.body);
                return read
                    .map(Some)
                    .map_err(|_| because("it holds no such metadata"));
            }
            300..=399 => return Err(because("it redirects, and no redirect is followed")),
            400..=499 => {}
            status => return Err(because(&format!("it answered {status}"))),
        }
    }
    Ok(None)
}
