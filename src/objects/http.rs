//! Requests of a bucket over the engine's own HTTP client. The crate `object_store` would bring a client with features of its
//! own (HTTP 2 for every other request, redirects, proxies of the environment).

use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use std::pin::Pin;
use std::time::Duration;

/// Time within which a connection must be made.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Makes clients for a bucket.
#[derive(Debug)]
pub(super) struct BucketConnector {
    /// Time within which an answer must be whole.
    pub timeout: Duration,
}

impl HttpConnector for BucketConnector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = reqwest::Client::builder()
            // A signature is of one address.
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_MAX)
            .timeout(self.timeout)
            .build()
            .map_err(|error| object_store::Error::Generic {
                store: "S3",
                source: Box::new(error),
            })?;
        Ok(HttpClient::new(BucketHttp(client)))
    }
}

#[derive(Debug)]
struct BucketHttp(reqwest::Client);

type Answer<'a> = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'a>>;

impl HttpService for BucketHttp {
    // As `async_trait` writes it.
    fn call<'life0, 'async_trait>(&'life0 self, request: HttpRequest) -> Answer<'async_trait>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let url = reqwest::Url::parse(&parts.uri.to_string())
                .map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
            let mut asked = reqwest::Request::new(parts.method, url);
            *asked.headers_mut() = parts.headers;
            *asked.body_mut() = Some(reqwest::Body::wrap(body));
            let answer = self.0.execute(asked).await.map_err(failed)?;
            let (status, headers) = (answer.status(), answer.headers().clone());
            // Whole, so that one which is cut is asked for again.
            let bytes = answer.bytes().await.map_err(failed)?;
            let mut answer = HttpResponse::new(bytes.into());
            *answer.status_mut() = status;
            *answer.headers_mut() = headers;
            Ok(answer)
        })
    }
}

/// Returns the error as a kind that is tried again, unless it took all the time there is.
fn failed(error: reqwest::Error) -> HttpError {
    let kind = match &error {
        error if error.is_timeout() => HttpErrorKind::Timeout,
        error if error.is_connect() => HttpErrorKind::Connect,
        error if error.is_builder() => HttpErrorKind::Unknown,
        // A connection that was cut: every request here may be made again.
        _ => HttpErrorKind::Interrupted,
    };
    HttpError::new(kind, error.without_url())
}
