//! STARTTLS (RFC 3207) and AUTH (RFC 4954) of a session.

use super::auth::{self, Credentials, Submitters};
use super::command::{Auth, AuthMechanism};
use super::connection::Disconnect;
use super::reply::{self, Reply};
use super::session::{GO_ON, HANG_UP, SessionFlow, SmtpSession};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};

/// Maximum wrong passwords in one session; across connections see
/// [`super::connection_limiter::FailedLogins`].
const FAILED_LOGINS_MAX: usize = 3;

impl<S: AsyncRead + AsyncWrite + Unpin> SmtpSession<'_, S> {
    pub(super) async fn start_tls(&mut self) -> Result<SessionFlow, Disconnect> {
        let Some(tls) = &self.server.settings.tls else {
            return Ok(self.answer(reply::NOT_OFFERED));
        };
        if self.connection.is_encrypted() {
            return Ok(self.answer(reply::TLS_ALREADY));
        }
        if self.helo.is_none() {
            let hello_first = self.hello_first();
            return Ok(self.answer(hello_first));
        }
        self.connection.reply(reply::READY_FOR_TLS);
        self.connection.secure(tls.certificates.acceptor()).await?;
        // Commands received in plain text do not count (RFC 3207 section 4.2).
        self.helo = None;
        self.is_extended = false;
        self.transaction = None;
        Ok(GO_ON)
    }

    pub(super) async fn log_in(&mut self, auth: Auth) -> Result<SessionFlow, Disconnect> {
        let Some(submitters) = self.server.settings.submitters.clone() else {
            return Ok(self.answer(reply::NOT_OFFERED));
        };
        if let Some(refusal) = self.may_not_log_in() {
            return Ok(self.answer(refusal));
        }
        let Some(mechanism) = auth.mechanism else {
            return Ok(self.answer(reply::UNKNOWN_MECHANISM));
        };
        if !self
            .server
            .settings
            .connection_limiter
            .logins
            .may_try(self.peer)
        {
            return Ok(self.answer(reply::LOCKED_OUT));
        }
        let credentials = match mechanism {
            AuthMechanism::Plain => self.ask_plain(auth.initial).await?,
            AuthMechanism::Login => self.ask_login(auth.initial).await?,
        };
        match credentials {
            Err(complaint) => Ok(self.answer(complaint)),
            Ok(credentials) => self.judge_login(credentials, &submitters).await,
        }
    }

    /// Reply to a client that may not log in now; `None` if it may.
    fn may_not_log_in(&self) -> Option<Reply> {
        if !self.connection.is_encrypted() {
            Some(reply::TLS_FIRST)
        } else if self.helo.is_none() {
            Some(self.hello_first())
        } else if !self.is_extended {
            Some(reply::EHLO_FIRST)
        } else if self.submitter.is_some() {
            Some(reply::LOGGED_IN_ALREADY)
        } else if self.transaction.is_some() {
            Some(reply::NOT_IN_TRANSACTION)
        } else {
            None
        }
    }

    async fn ask_plain(
        &mut self,
        initial: Option<String>,
    ) -> Result<Result<Option<Credentials>, Reply>, Disconnect> {
        let message = self.response(initial, reply::ASK_PLAIN).await?;
        Ok(message.map(|message| auth::plain(&message)))
    }

    async fn ask_login(
        &mut self,
        initial: Option<String>,
    ) -> Result<Result<Option<Credentials>, Reply>, Disconnect> {
        let user = match self.response(initial, reply::ASK_USER).await? {
            Ok(user) => user,
            Err(complaint) => return Ok(Err(complaint)),
        };
        let password = self.response(None, reply::ASK_PASSWORD).await?;
        Ok(password.map(|password| Some(Credentials { user, password })))
    }

    /// The client's response in an exchange, which may be part of the command.
    async fn response(
        &mut self,
        initial: Option<String>,
        ask: Reply,
    ) -> Result<Result<Vec<u8>, Reply>, Disconnect> {
        let line = match initial {
            Some(initial) if initial == "=" => return Ok(Ok(Vec::new())),
            Some(initial) => initial.into_bytes(),
            None => {
                self.connection.reply(ask);
                match self.connection.line(<[u8]>::to_vec).await? {
                    Ok(line) if line == b"*" => return Ok(Err(reply::AUTH_CANCELLED)),
                    Ok(line) => line,
                    Err(_) => return Ok(Err(reply::AUTH_LINE_TOO_LONG)),
                }
            }
        };
        Ok(auth::decode(&line).ok_or(reply::BAD_AUTH_SYNTAX))
    }

    /// Checks credentials. `None` stands for a malformed message, which costs as much as a wrong
    /// password.
    async fn judge_login(
        &mut self,
        credentials: Option<Credentials>,
        submitters: &Arc<Submitters>,
    ) -> Result<SessionFlow, Disconnect> {
        let owner = credentials.and_then(|credentials| submitters.find(&credentials).cloned());
        if owner.is_some() {
            tracing::info!("an owner logged in");
            self.submitter = owner;
            return Ok(self.answer(reply::LOGGED_IN));
        }
        let wait = self
            .server
            .settings
            .connection_limiter
            .logins
            .note(self.peer);
        self.failed_logins += 1;
        let peer = self.peer.map(|peer| peer.to_string());
        tracing::warn!(peer, times = self.failed_logins, "a login failed");
        self.connection.pause(wait).await?;
        let next = self.answer(reply::WRONG_LOGIN);
        if next == GO_ON && self.failed_logins >= FAILED_LOGINS_MAX {
            self.connection.reply(reply::TOO_MANY_LOGINS);
            return Ok(HANG_UP);
        }
        Ok(next)
    }
}
