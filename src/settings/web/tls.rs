//! What every TLS connection of the engine is made with: one implementation of cryptography, and one way to begin an HTTP client.

use reqwest::{Client, ClientBuilder};
use rustls::crypto::{CryptoProvider, ring};
use std::sync::{Arc, LazyLock};

/// Returns the implementation that TLS uses. It is the process's own from the first call on, so that clients find it that are
/// given none; what a host program has chosen before stays.
pub fn tls_provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
        let _of_host = ring::default_provider().install_default();
        let own = || Arc::new(ring::default_provider());
        CryptoProvider::get_default().cloned().unwrap_or_else(own)
    });
    PROVIDER.clone()
}

/// Begins an HTTP client. It follows no redirect: each is a new address, which somebody has to judge.
pub fn http_client() -> ClientBuilder {
    tls_provider();
    Client::builder().redirect(reqwest::redirect::Policy::none())
}
