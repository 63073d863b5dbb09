//! A request that has passed the checks, as handlers get it.

use super::connections::{ConnectionMark, WebPeer};
use super::context::WebContext;
use super::failure::{PageError, Shape};
use crate::config::WebOrigin;
use crate::store::{WebSession, WebToken};
use axum::body::Bytes;
use axum::http::{HeaderMap, Method};
use std::sync::{Arc, OnceLock};
use tokio::sync::OwnedSemaphorePermit;

/// A request that has passed the checks.
pub(super) struct Call {
    pub context: Arc<WebContext>,
    /// The name by which it called us.
    pub origin: WebOrigin,
    pub client: WebPeer,
    /// Name that the browser gives itself.
    pub browser: String,
    /// Values of the path's variables.
    pub params: Vec<(String, String)>,
    pub query: Vec<(String, String)>,
    /// Fields of a form; empty for a `GET`.
    pub form: Vec<(String, String)>,
    /// Shape of the answer.
    pub shape: Shape,
    pub method: Method,
    pub headers: HeaderMap,
    /// Bytes of the body, where the route reads bytes.
    pub body: Bytes,
    pub caller: WebCaller,
    /// Room in memory for a large body.
    pub room: Option<OwnedSemaphorePermit>,
    pub path: String,
    /// The connection by which it came.
    pub connection: Option<ConnectionMark>,
    /// Cookie to be set with the answer.
    pub renewed: Arc<OnceLock<String>>,
}

/// Sender of a request.
pub(super) enum WebCaller {
    Nobody,
    Browser(Box<BrowserSession>),
    /// A program with a key that may do what its route does.
    Program(Box<WebToken>),
}

/// A session that is good, with the secret of its cookie.
pub(super) struct BrowserSession {
    pub session: WebSession,
    pub secret: String,
}

impl Call {
    /// Forgets the body, and gives its room in memory back.
    pub fn forget_body(&mut self) {
        (self.body, self.room) = (Bytes::new(), None);
    }

    /// Returns a variable of the path.
    pub fn param(&self, name: &str) -> &str {
        value(&self.params, name)
    }

    /// Returns a word of the query, without blanks around it; empty when there is none.
    pub fn query(&self, name: &str) -> &str {
        value(&self.query, name).trim()
    }

    /// Returns a field of the form, without blanks around it; empty when there is none.
    pub fn field(&self, name: &str) -> &str {
        value(&self.form, name).trim()
    }

    /// Returns a field of the form as it was sent.
    pub fn field_whole(&self, name: &str) -> &str {
        value(&self.form, name)
    }

    /// Returns the session of a browser.
    pub fn session(&self) -> Option<&BrowserSession> {
        match &self.caller {
            WebCaller::Browser(session) => Some(session),
            WebCaller::Nobody | WebCaller::Program(_) => None,
        }
    }

    /// Returns the key of a program.
    pub fn key(&self) -> Option<&WebToken> {
        match &self.caller {
            WebCaller::Program(key) => Some(key),
            WebCaller::Nobody | WebCaller::Browser(_) => None,
        }
    }

    /// Returns the person who acts, for records of decisions: the user of the machine who asked for the code.
    pub fn actor(&self) -> Result<String, PageError> {
        match self.session() {
            Some(session) => Ok(session.session.asked_by.clone()),
            None => Err(PageError::Forbidden("a browser with a session does this")),
        }
    }

    /// Gives the session another secret, so that one that was seen before is worth nothing after a decision.
    pub async fn renew(&self) -> Result<(), PageError> {
        let Some(session) = self.session() else {
            return Ok(());
        };
        let secret = self.context.store.clock().new_secret();
        let is_ours = self
            .context
            .store
            .rotate_web_session(&session.secret, &secret)
            .await?;
        if is_ours {
            let _first = self.renewed.set(self.set_cookie(&secret));
        }
        Ok(())
    }

    /// Returns the field value of `Set-Cookie` for a session's secret; empty: it is forgotten.
    pub fn set_cookie(&self, secret: &str) -> String {
        let name = self.context.cookie(&self.origin);
        let age = match secret.is_empty() {
            true => 0,
            false => crate::store::SESSION_AGE_MAX.as_secs(),
        };
        let secure = if self.origin.is_https { "; Secure" } else { "" };
        format!("{name}={secret}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}")
    }
}

fn value<'a>(pairs: &'a [(String, String)], name: &str) -> &'a str {
    pairs
        .iter()
        .find(|(key, _)| key == name)
        .map_or("", |(_, value)| value)
}
