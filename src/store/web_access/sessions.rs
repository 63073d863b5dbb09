//! One-time codes and the sessions of browsers that they open.

use crate::domain::{Timestamp, sha256_hex};
use crate::store::db::Scope;
use crate::store::mail::audit_log::audit;
use crate::store::sql::json_list;
use crate::store::{Result, Store};
use serde::Serialize;
use std::time::Duration;

/// Time in which a one-time code is good.
pub const LOGIN_CODE_MAX: Duration = Duration::from_secs(60);
/// Time without use after which a session has ended.
pub const SESSION_IDLE_MAX: Duration = Duration::from_secs(12 * 3600);
/// Age at which a session has ended.
pub const SESSION_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Most characters of a browser's name that are kept.
const BROWSER_CHARS_MAX: usize = 200;

/// A session of a browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WebSession {
    pub id: String,
    #[serde(skip)]
    pub form_token: String,
    pub listener: String,
    /// User of the machine who made its code.
    pub asked_by: String,
    pub browser: String,
    pub created_at: Timestamp,
    pub used_at: Timestamp,
    pub expires_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

impl WebSession {
    /// Reports whether it is good at an instant; `used_at` is the last use that is known.
    pub fn is_good(&self, used_at: Timestamp, now: Timestamp) -> bool {
        let is_idle = now.since(used_at.max(self.used_at)) >= SESSION_IDLE_MAX;
        self.ended_at.is_none() && now < self.expires_at && !is_idle
    }
}

/// A session that a one-time code opens.
#[derive(Debug, Clone)]
pub struct NewWebSession {
    /// Code as typed, without its separators.
    pub code: String,
    /// Address of the listener at which it was typed.
    pub listener: String,
    pub browser: String,
    /// Secret of the cookie.
    pub secret: String,
    pub form_token: String,
}

const FORGET_LOGINS: &str = "DELETE FROM web_logins WHERE expires_at < $1";
const ADD_LOGIN: &str = "
    INSERT INTO web_logins (code_sha256, listener, asked_by, created_at, expires_at) VALUES ($1, $2, $3, $4, $5)";
const USE_LOGIN: &str = "
    UPDATE web_logins SET used_at = $3 WHERE code_sha256 = $1 AND listener = $2 AND used_at IS NULL AND expires_at > $3
    RETURNING asked_by";
const ADD_SESSION: &str = "
    INSERT INTO web_sessions (id, secret_sha256, form_token, listener, asked_by, browser, created_at, used_at, expires_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8)";
const SESSION_OF_SECRET: &str = "SELECT * FROM web_sessions WHERE secret_sha256 = $1";
const WEB_SESSIONS: &str = "SELECT * FROM web_sessions ORDER BY seq DESC LIMIT $1";
const ROTATE: &str = "
    UPDATE web_sessions SET secret_sha256 = $2, used_at = $3 WHERE secret_sha256 = $1 AND ended_at IS NULL";
const END_SESSION: &str =
    "UPDATE web_sessions SET ended_at = $2 WHERE id = $1 AND ended_at IS NULL";
pub const END_SESSIONS: &str = "UPDATE web_sessions SET ended_at = $1 WHERE ended_at IS NULL";
const NOTE_USES: &str = "
    UPDATE web_sessions SET used_at = $2
    WHERE id IN (SELECT value FROM jsonb_each($1)) AND used_at < $2";

impl Store {
    /// Stores a one-time code for a listener, and forgets codes that are over.
    pub async fn add_web_login(&self, code: &str, listener: &str, asked_by: &str) -> Result<()> {
        let (digest, now) = (digest(code), self.clock().now());
        let (listener, asked_by) = (listener.to_owned(), asked_by.to_owned());
        transact!(self, Scope::Rows, |conn| {
            conn.exec(FORGET_LOGINS, now).await?;

            conn.exec(
                ADD_LOGIN,
                (digest, listener, asked_by, now, now.plus(LOGIN_CODE_MAX)),
            )
            .await?;
            Ok(())
        })
        .await
    }

    /// Uses a one-time code up and opens its session; `None`: no such code is good at this listener now.
    pub async fn open_web_session(&self, new: NewWebSession) -> Result<Option<String>> {
        let (id, now) = (self.clock().new_id(), self.clock().now());
        transact!(self, Scope::Rows, |conn| {
            let asked_by: Option<String> = conn
                .maybe(USE_LOGIN, (digest(&new.code), &new.listener, now))
                .await?;
            let Some(asked_by) = asked_by else {
                return Ok(None);
            };
            let browser = crate::text::truncated(&new.browser, BROWSER_CHARS_MAX);

            conn.exec(
                ADD_SESSION,
                (
                    &id,
                    digest(&new.secret),
                    &new.form_token,
                    &new.listener,
                    &asked_by,
                    browser,
                    now,
                    now.plus(SESSION_AGE_MAX),
                ),
            )
            .await?;
            audit(conn, None, ("web_session", &id), "login:code", now).await?;
            Ok(Some(id))
        })
        .await
    }

    /// Returns the session of a secret, good or not.
    pub async fn web_session(&self, secret: &str) -> Result<Option<WebSession>> {
        self.maybe(SESSION_OF_SECRET, digest(secret)).await
    }

    /// Returns the last sessions, the newest first.
    pub async fn web_sessions(&self, limit: u32) -> Result<Vec<WebSession>> {
        self.all(WEB_SESSIONS, limit).await
    }

    /// Gives a session another secret; `false`: it has ended, or has another already.
    pub async fn rotate_web_session(&self, old: &str, new: &str) -> Result<bool> {
        let (old, new, now) = (digest(old), digest(new), self.clock().now());
        transact!(self, Scope::Rows, |conn| Ok(conn
            .exec(ROTATE, (old, new, now))
            .await?
            > 0))
        .await
    }

    /// Ends a session; `false`: there is none, or it has ended before. `by` is the way: `browser`, `web`, `cli`.
    pub async fn end_web_session(&self, id: &str, by: &'static str) -> Result<bool> {
        let (id, now) = (id.to_owned(), self.clock().now());
        transact!(self, Scope::Rows, |conn| {
            let ended = conn.exec(END_SESSION, (&id, now)).await? > 0;
            if ended {
                let decision = format!("logout:{by}");
                audit(conn, None, ("web_session", &id), &decision, now).await?;
            }
            Ok(ended)
        })
        .await
    }

    /// Ends every session and returns how many there were.
    pub async fn end_web_sessions(&self) -> Result<u64> {
        let now = self.clock().now();
        transact!(self, Scope::Rows, |conn| {
            let ended = conn.exec(END_SESSIONS, now).await?;
            if ended > 0 {
                audit(conn, None, ("web_session", "all"), "logout:cli", now).await?;
            }
            Ok(ended)
        })
        .await
    }

    /// Notes that sessions were used.
    pub async fn note_web_session_uses(&self, ids: Vec<String>) -> Result<()> {
        let now = self.clock().now();
        transact!(self, Scope::Rows, |conn| {
            let ids = json_list(ids.iter());

            conn.exec(NOTE_USES, (ids, now)).await?;
            Ok(())
        })
        .await
    }
}

/// Digest under which a secret is stored.
pub fn digest(secret: &str) -> String {
    sha256_hex(&[secret.as_bytes()])
}

from_row!(WebSession {
    id,
    form_token,
    listener,
    asked_by,
    browser,
    created_at,
    used_at,
    expires_at,
    ended_at
});
