//! The client of a login: the one that the owner named, or one that is registered for it (RFC 7591).

use super::error::LoginError;
use super::metadata::IssuerMetadata;
use crate::config::McpOAuth;
use crate::web::{ApiRequest, ClientAuth, RegisteredClient, WebFetcher, refusal};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;

/// Returns the client that the owner named, or registers one. Errors: the server takes no such client.
pub async fn client_for(
    oauth: &McpOAuth,
    metadata: &IssuerMetadata,
    redirect: &str,
    fetcher: &WebFetcher,
) -> Result<RegisteredClient, LoginError> {
    if let Some(id) = &oauth.client_id {
        return Ok(RegisteredClient {
            id: id.clone(),
            secret: oauth.client_secret.clone(),
            auth: match oauth.client_secret {
                Some(_) => auth_with_secret(metadata),
                None => ClientAuth::None,
            },
        });
    }
    if let Some(document) = &oauth.client_metadata_url {
        if !metadata.client_id_metadata_document_supported {
            return Err(LoginError::unusable(format!(
                "`{}` does not say that it takes a Client ID Metadata Document; name a client in `oauth.client_id`, or leave \
                     `client_metadata_url` out and one is registered",
                metadata.issuer
            )));
        }
        return Ok(RegisteredClient {
            id: document.clone(),
            secret: None,
            auth: ClientAuth::None,
        });
    }
    register(metadata, redirect, fetcher).await
}

fn auth_with_secret(metadata: &IssuerMetadata) -> ClientAuth {
    let methods = metadata.token_endpoint_auth_methods_supported.as_ref();
    let takes =
        |wanted: &str| methods.is_none_or(|methods| methods.iter().any(|method| method == wanted));
    match takes("client_secret_basic") {
        true => ClientAuth::ClientSecretBasic,
        false => ClientAuth::ClientSecretPost,
    }
}

#[derive(Deserialize)]
struct RegistrationAnswer {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<ClientAuth>,
}

/// Registers a client for this one login.
async fn register(
    metadata: &IssuerMetadata,
    redirect: &str,
    fetcher: &WebFetcher,
) -> Result<RegisteredClient, LoginError> {
    let Some(endpoint) = &metadata.registration_endpoint else {
        return Err(LoginError::unusable(format!(
            "`{}` registers no clients; register one there by hand, with a redirect to `http://127.0.0.1/callback` at any port, \
             and write it as `oauth.client_id` of the server",
            metadata.issuer
        )));
    };
    let wanted = json!({
        "client_name": "Attaché",
        "application_type": "native",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    });
    let answer = fetcher.ask_api(ApiRequest::post(endpoint, wanted)).await;
    let answer = answer.map_err(|error| LoginError::not_fetched(endpoint, &error))?;
    if !matches!(answer.status, 200 | 201) {
        let word = refusal(&answer).unwrap_or_else(|| format!("status {}", answer.status));
        return Err(LoginError::Denied(format!(
            "it registers no client for us: {word}"
        )));
    }
    let read = serde_json::from_slice::<RegistrationAnswer>(&answer.body);
    let read =
        read.map_err(|_| LoginError::unusable("the answer to our registration names no client"))?;
    let auth = match (&read.client_secret, read.token_endpoint_auth_method) {
        (None, _) => ClientAuth::None,
        (Some(_), Some(auth)) => auth,
        (Some(_), None) => auth_with_secret(metadata),
    };
    Ok(RegisteredClient {
        id: read.client_id,
        secret: read.client_secret.map(SecretString::from),
        auth,
    })
}
