//! Keys of programs for the API.

use super::sessions::digest;
use crate::domain::{PersonaId, Timestamp};
use crate::store::db::Scope;
use crate::store::mail::audit_log::audit;
use crate::store::sql::to_json;
use crate::store::{Result, Store};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::time::Duration;

/// Time within which a use of a key is not noted again.
const USE_NOTED_EVERY: Duration = Duration::from_secs(300);

/// Kind of what a key may do. None of them lets it decide on an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyRight {
    /// Read everything that the pages show.
    Read,
    /// Read, and change what the API lets programs change.
    Admin,
    /// Talk to a persona.
    Chat,
    /// Have a persona write mail, which the owner sees first.
    Send,
    /// Hand in letters for a persona.
    Ingest,
    /// Read numbers, and nothing else.
    Metrics,
}

impl KeyRight {
    pub const ALL: [KeyRight; 6] = [
        KeyRight::Read,
        KeyRight::Admin,
        KeyRight::Chat,
        KeyRight::Send,
        KeyRight::Ingest,
        KeyRight::Metrics,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            KeyRight::Read => "read",
            KeyRight::Admin => "admin",
            KeyRight::Chat => "chat",
            KeyRight::Send => "send",
            KeyRight::Ingest => "ingest",
            KeyRight::Metrics => "metrics",
        }
    }

    /// Reports whether it is given for one persona.
    fn has_persona(self) -> bool {
        !matches!(self, KeyRight::Read | KeyRight::Admin | KeyRight::Metrics)
    }
}

/// Right of a key, for all personas or for one: `read`, `chat:porter`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebScope {
    right: KeyRight,
    persona: Option<PersonaId>,
}

impl WebScope {
    pub const READ: WebScope = WebScope {
        right: KeyRight::Read,
        persona: None,
    };

    /// Parses a scope as it is typed and stored. Errors: a sentence that names the scopes there are.
    pub fn parse(typed: &str) -> std::result::Result<Self, String> {
        let (word, persona) = match typed.split_once(':') {
            Some((word, persona)) => (word, Some(persona)),
            None => (typed, None),
        };
        let right = KeyRight::ALL
            .into_iter()
            .find(|right| right.as_str() == word);
        match (right, persona) {
            (Some(right), Some(persona)) if right.has_persona() => {
                let persona = PersonaId::parse(persona).map_err(|error| error.to_string())?;
                let persona = Some(persona);
                Ok(Self { right, persona })
            }
            (Some(right), None) if !right.has_persona() => Ok(Self {
                right,
                persona: None,
            }),
            _ => Err(format!(
                "`{typed}` is no scope; there are: read, admin, metrics, and with a persona's id chat:ID, send:ID, ingest:ID"
            )),
        }
    }

    pub fn persona(&self) -> Option<&PersonaId> {
        self.persona.as_ref()
    }
}

impl fmt::Display for WebScope {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.persona {
            Some(persona) => write!(out, "{}:{persona}", self.right.as_str()),
            None => out.write_str(self.right.as_str()),
        }
    }
}

impl Serialize for WebScope {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for WebScope {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// A key of a program, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WebToken {
    pub id: String,
    pub name: String,
    pub scopes: Vec<WebScope>,
    pub created_by: String,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

impl WebToken {
    pub fn is_good(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && now < self.expires_at
    }

    /// Reports whether a key whose use was noted at `noted` is to be noted again.
    pub fn is_unnoted(&self, now: Timestamp) -> bool {
        self.used_at
            .is_none_or(|used| now.since(used) >= USE_NOTED_EVERY)
    }

    /// Reports whether it has a right, for some persona where the right is given for one.
    pub fn may(&self, right: KeyRight) -> bool {
        self.scopes.iter().any(|scope| {
            scope.right == right || (right == KeyRight::Read && scope.right == KeyRight::Admin)
        })
    }

    /// Reports whether it has a right for a persona.
    pub fn may_for(&self, right: KeyRight, persona: &PersonaId) -> bool {
        self.scopes
            .iter()
            .any(|scope| scope.right == right && scope.persona() == Some(persona))
    }
}

/// A key that is to be made.
#[derive(Debug, Clone)]
pub struct NewWebToken {
    pub name: String,
    pub scopes: Vec<WebScope>,
    pub created_by: String,
    pub expires_at: Timestamp,
    pub secret: String,
}

const ADD_TOKEN: &str = "
    INSERT INTO web_tokens (id, secret_sha256, name, scopes_json, created_by, created_at, expires_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7)";
const TOKEN_OF_SECRET: &str = "SELECT * FROM web_tokens WHERE secret_sha256 = $1";
const WEB_TOKENS: &str = "SELECT * FROM web_tokens ORDER BY id DESC LIMIT $1";
const REVOKE_TOKEN: &str =
    "UPDATE web_tokens SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL";
const NOTE_TOKEN_USE: &str = "UPDATE web_tokens SET used_at = $2 WHERE id = $1";

impl Store {
    /// Stores a key and returns its id.
    pub async fn add_web_token(&self, new: NewWebToken) -> Result<String> {
        let (id, now) = (self.clock().new_id(), self.clock().now());
        transact!(self, Scope::Rows, |conn| {
            conn.exec(
                ADD_TOKEN,
                (
                    &id,
                    digest(&new.secret),
                    &new.name,
                    to_json(&new.scopes)?,
                    &new.created_by,
                    now,
                    new.expires_at,
                ),
            )
            .await?;
            audit(conn, None, ("web_token", &id), "create:cli", now).await?;
            Ok(id)
        })
        .await
    }

    /// Returns the key of a secret, good or not.
    pub async fn web_token(&self, secret: &str) -> Result<Option<WebToken>> {
        self.maybe(TOKEN_OF_SECRET, digest(secret)).await
    }

    /// Returns the last keys, the newest first.
    pub async fn web_tokens(&self, limit: u32) -> Result<Vec<WebToken>> {
        self.all(WEB_TOKENS, limit).await
    }

    /// Revokes a key; `false`: there is none, or it is revoked already. `by` is the way: `web`, `cli`.
    pub async fn revoke_web_token(&self, id: &str, by: &'static str) -> Result<bool> {
        let (id, now) = (id.to_owned(), self.clock().now());
        transact!(self, Scope::Rows, |conn| {
            let revoked = conn.exec(REVOKE_TOKEN, (&id, now)).await? > 0;
            if revoked {
                let decision = format!("revoke:{by}");
                audit(conn, None, ("web_token", &id), &decision, now).await?;
            }
            Ok(revoked)
        })
        .await
    }

    /// Notes that a key was used.
    pub async fn note_web_token_use(&self, id: &str) -> Result<()> {
        let (id, now) = (id.to_owned(), self.clock().now());
        transact!(self, Scope::Rows, |conn| {
            conn.exec(NOTE_TOKEN_USE, (id, now)).await?;
            Ok(())
        })
        .await
    }
}

from_row!(|row| WebToken {
    id,
    name,
    scopes: { row.json("scopes_json", "scopes of a key")? },
    created_by,
    created_at,
    expires_at,
    used_at,
    revoked_at
});

text_column!(KeyRight;);
