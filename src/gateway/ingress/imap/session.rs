//! One logged-in IMAP session: the few commands that a mailbox needs, each checked for its own
//! answer.

use super::connection::{ImapConnection, Stream};
use super::error::{MailboxError, server_text};
use super::formatting::{folder, uid_set};
use super::timeouts::ImapTimeouts;
use crate::config::AfterStored;
use crate::domain::Timestamp;
use chrono::DateTime;
use imap_proto::{
    AttributeValue, Capability, MailboxDatum, Outcome, Response, ResponseCode, Status,
};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// State of a selected mailbox.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Selected {
    pub exists: u32,
    /// 0 when the server does not send it.
    pub uid_validity: u32,
    pub uid_next: Option<u32>,
}

/// Properties of a letter before it is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Announced {
    pub uid: u32,
    pub size_bytes: u32,
    pub arrived_at: Option<Timestamp>,
}

/// End of an IDLE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    /// The server announced a letter.
    Changes,
    /// The timeout passed.
    Due,
    /// The server refused IDLE.
    CannotIdle,
}

pub(super) struct ImapSession {
    connection: ImapConnection<Box<dyn Stream>>,
    /// Upper case.
    capabilities: BTreeSet<String>,
    command_max: Duration,
    silence_max: Duration,
    commands: u32,
    /// Letters in the selected mailbox, by the last `EXISTS`.
    exists: u32,
    /// `true`: there are more letters than when the mailbox was selected.
    has_changes: bool,
}

impl ImapSession {
    /// Builds a session on a connection whose greeting has been read.
    pub fn new(connection: ImapConnection<Box<dyn Stream>>, timeouts: &ImapTimeouts) -> Self {
        Self {
            connection,
            capabilities: BTreeSet::new(),
            command_max: timeouts.command_max,
            silence_max: timeouts.silence_max,
            commands: 0,
            exists: 0,
            has_changes: false,
        }
    }

    pub fn can(&self, capability: &str) -> bool {
        self.capabilities.contains(capability)
    }

    /// Capabilities in upper case, sorted.
    pub fn capabilities(&self) -> Vec<String> {
        self.capabilities.iter().cloned().collect()
    }

    pub fn into_wire(self) -> ImapConnection<Box<dyn Stream>> {
        self.connection
    }

    /// Sends one command and passes every untagged response to `each`. Errors: any answer but `OK`.
    pub async fn run(
        &mut self,
        name: &'static str,
        line: &str,
        each: impl FnMut(&Response<'_>),
    ) -> Result<(), MailboxError> {
        let command_max = self.command_max;
        let running = self.serve(name, line, &[], each);
        timeout(command_max, running)
            .await
            .unwrap_or(Err(MailboxError::Silent))
    }

    /// As [`Self::run`], with the lines that answer the server's continuation requests; an empty
    /// line when they are used up, with which XOAUTH2 asks for the reason of a refusal.
    pub async fn serve(
        &mut self,
        name: &'static str,
        line: &str,
        answers: &[String],
        mut each: impl FnMut(&Response<'_>),
    ) -> Result<(), MailboxError> {
        let mut answers = answers.iter();
        self.commands = self.commands.wrapping_add(1);
        let ours = format!("A{}", self.commands);
        self.connection.send(&format!("{ours} {line}")).await?;
        loop {
            let response = self.connection.receive(|response| {
                each(response);
                Untagged::from_response(response, &ours, name)
            });
            match response.await? {
                Untagged::Done(done) => return done,
                Untagged::Continue => {
                    self.connection
                        .send(answers.next().map_or("", String::as_str))
                        .await?;
                }
                Untagged::Bye(text) => return Err(MailboxError::Bye(text)),
                response => self.note(&response),
            }
        }
    }

    /// Records unsolicited responses of the server (RFC 9051 section 7.4).
    fn note(&mut self, response: &Untagged) {
        match response {
            Untagged::Exists(now) => {
                self.has_changes |= *now > self.exists;
                self.exists = *now;
            }
            Untagged::Expunged => self.exists = self.exists.saturating_sub(1),
            _ => {}
        }
    }

    pub async fn ask_capabilities(&mut self) -> Result<(), MailboxError> {
        let mut found = BTreeSet::new();
        let read = |response: &Response<'_>| {
            if let Response::Capabilities(capabilities) = response {
                found.extend(capabilities.iter().map(|capability| match capability {
                    Capability::Imap4rev1 => "IMAP4REV1".to_owned(),
                    Capability::Auth(mechanism) => format!("AUTH={mechanism}").to_ascii_uppercase(),
                    Capability::Atom(atom) => atom.to_ascii_uppercase(),
                }));
            }
        };
        self.run("CAPABILITY", "CAPABILITY", read).await?;
        self.capabilities = found;
        Ok(())
    }

    /// Names this program (RFC 2971), without which the servers of NetEase open no mailbox. What a server says of it is ignored:
    /// some announce the command and refuse it.
    pub async fn say_who_asks(&mut self) -> Result<(), MailboxError> {
        if !self.can("ID") {
            return Ok(());
        }
        let line = format!(
            "ID (\"name\" \"attache\" \"version\" \"{}\")",
            env!("CARGO_PKG_VERSION")
        );
        match self.run("ID", &line, |_| ()).await {
            Ok(()) | Err(MailboxError::Refused { .. }) => Ok(()),
            lost => lost,
        }
    }

    /// Sends `SELECT`, or `EXAMINE`, which changes nothing.
    pub async fn select(&mut self, name: &str, examine: bool) -> Result<Selected, MailboxError> {
        let verb = if examine { "EXAMINE" } else { "SELECT" };
        let mut selected = Selected::default();
        let read = |response: &Response<'_>| match response {
            Response::MailboxData(MailboxDatum::Exists(exists)) => selected.exists = *exists,
            Response::Data { outcome, .. } | Response::Done { outcome, .. } => {
                match &outcome.code {
                    Some(ResponseCode::UidValidity(value)) => selected.uid_validity = *value,
                    Some(ResponseCode::UidNext(value)) => selected.uid_next = Some(*value),
                    _ => {}
                }
            }
            _ => {}
        };
        self.exists = 0;
        self.run(verb, &format!("{verb} {}", folder(name)), read)
            .await?;
        (self.exists, self.has_changes) = (selected.exists, false);
        if selected.uid_validity == 0 {
            return Err(MailboxError::Unusable(
                "the server gives letters no lasting numbers (UIDVALIDITY)",
            ));
        }
        Ok(selected)
    }

    /// The UID of the last letter; 0 when there is none.
    pub async fn newest_uid(&mut self, selected: &Selected) -> Result<u32, MailboxError> {
        if selected.exists == 0 {
            return Ok(0);
        }
        if let Some(next) = selected.uid_next {
            return Ok(next.saturating_sub(1));
        }
        let mut newest = 0;
        let read = |response: &Response<'_>| newest = newest.max(uid_of(response).unwrap_or(0));
        self.run("FETCH", "FETCH * (UID)", read).await?;
        Ok(newest)
    }

    /// The UIDs from `from` to `to`, both included, sorted.
    pub async fn uids(&mut self, from: u32, to: u32) -> Result<Vec<u32>, MailboxError> {
        let mut found = BTreeSet::new();
        let read = |response: &Response<'_>| {
            if let Response::MailboxData(MailboxDatum::Search(uids)) = response {
                // A range whose lower end is above all UIDs means the last letter (RFC 9051 section
                // 9, seq-range).
                found.extend(uids.iter().copied().filter(|uid| (from..=to).contains(uid)));
            }
        };
        self.run("UID SEARCH", &format!("UID SEARCH UID {from}:{to}"), read)
            .await?;
        Ok(found.into_iter().collect())
    }

    /// Size and arrival of letters, without duplicates, in the order of the server. Removed letters
    /// are missing.
    pub async fn announced(&mut self, uids: &[u32]) -> Result<Vec<Announced>, MailboxError> {
        let mut found: Vec<Announced> = Vec::new();
        let read = |response: &Response<'_>| {
            if let Some(announced) = announced(response)
                && uids.binary_search(&announced.uid).is_ok()
                && found.iter().all(|other| other.uid != announced.uid)
            {
                found.push(announced);
            }
        };
        let line = format!("UID FETCH {} (UID RFC822.SIZE INTERNALDATE)", uid_set(uids));
        self.run("UID FETCH", &line, read).await?;
        Ok(found)
    }

    /// The bytes of letters, without duplicates and without setting `\Seen`. Removed letters are
    /// missing.
    pub async fn letters(&mut self, uids: &[u32]) -> Result<Vec<(u32, Vec<u8>)>, MailboxError> {
        let mut found: Vec<(u32, Vec<u8>)> = Vec::new();
        let read = |response: &Response<'_>| {
            if let Some((uid, bytes)) = letter(response)
                && uids.binary_search(&uid).is_ok()
                && found.iter().all(|(other, _)| *other != uid)
            {
                found.push((uid, bytes.to_vec()));
            }
        };
        let line = format!("UID FETCH {} (UID BODY.PEEK[])", uid_set(uids));
        self.run("UID FETCH", &line, read).await?;
        Ok(found)
    }

    /// Flags letters or moves them.
    pub async fn mark(&mut self, uids: &[u32], after: &AfterStored) -> Result<(), MailboxError> {
        match after {
            AfterStored::Flag(flag) => {
                let line = format!("UID STORE {} +FLAGS.SILENT ({flag})", uid_set(uids));
                self.run("UID STORE", &line, |_| ()).await
            }
            AfterStored::Move(target) => match self.put_away(uids, target).await {
                Err(MailboxError::Refused {
                    try_create: true, ..
                }) => {
                    self.run("CREATE", &format!("CREATE {}", folder(target)), |_| ())
                        .await?;
                    self.put_away(uids, target).await
                }
                moved => moved,
            },
        }
    }

    /// Sends `MOVE` (RFC 6851), or the commands that its section 3.3 defines as equivalent. Without
    /// UIDPLUS nothing is expunged, because that would also remove letters that other clients
    /// marked.
    async fn put_away(&mut self, uids: &[u32], target: &str) -> Result<(), MailboxError> {
        let (set, target) = (uid_set(uids), folder(target));
        if self.can("MOVE") {
            return self
                .run("UID MOVE", &format!("UID MOVE {set} {target}"), |_| ())
                .await;
        }
        self.run("UID COPY", &format!("UID COPY {set} {target}"), |_| ())
            .await?;
        self.run(
            "UID STORE",
            &format!("UID STORE {set} +FLAGS.SILENT (\\Deleted)"),
            |_| (),
        )
        .await?;
        if self.can("UIDPLUS") {
            self.run("UID EXPUNGE", &format!("UID EXPUNGE {set}"), |_| ())
                .await?;
        }
        Ok(())
    }

    /// Reports whether the server announced letters since the mailbox was selected.
    pub fn has_changes(&self) -> bool {
        self.has_changes
    }

    /// Waits with IDLE (RFC 2177) until the server announces a letter, but no longer than
    /// `timeouts` or until `stop`. After dropping this future the session can only be dropped, too.
    pub async fn idle(
        &mut self,
        timeouts: Duration,
        stop: &CancellationToken,
    ) -> Result<Woken, MailboxError> {
        self.commands = self.commands.wrapping_add(1);
        let ours = format!("A{}", self.commands);
        self.connection.send(&format!("{ours} IDLE")).await?;
        let mut woken = Woken::Due;
        let listening = async {
            let mut is_idle = false;
            while !(is_idle && self.has_changes) {
                let silence_max = if is_idle { timeouts } else { self.silence_max };
                let response = self.connection.receive_within(silence_max, |response| {
                    Untagged::from_response(response, &ours, "IDLE")
                });
                match response.await? {
                    Untagged::Continue => is_idle = true,
                    Untagged::Bye(text) => return Err(MailboxError::Bye(text)),
                    Untagged::Done(Err(MailboxError::Refused { .. })) => {
                        return Ok(Woken::CannotIdle);
                    }
                    // DONE was not sent.
                    Untagged::Done(done) => return done.and(Err(MailboxError::Garbled)),
                    response => self.note(&response),
                }
            }
            Ok(Woken::Changes)
        };
        let listened = tokio::select! {
            biased;
            listened = timeout(timeouts, listening) => listened,
            () = stop.cancelled() => Ok(Ok(Woken::Due)),
        };
        match listened {
            Ok(Ok(Woken::CannotIdle)) => return Ok(Woken::CannotIdle),
            Ok(Ok(ended)) => woken = ended,
            // The timeout of one read ends the wait like the overall one.
            Ok(Err(MailboxError::Silent)) | Err(_) => {}
            Ok(Err(error)) => return Err(error),
        }
        // A dead connection fails here.
        self.connection.send("DONE").await?;
        loop {
            match self
                .connection
                .receive(|response| Untagged::from_response(response, &ours, "IDLE"))
                .await?
            {
                Untagged::Done(done) => {
                    return done.map(|()| {
                        if self.has_changes {
                            Woken::Changes
                        } else {
                            woken
                        }
                    });
                }
                Untagged::Bye(text) => return Err(MailboxError::Bye(text)),
                response => self.note(&response),
            }
        }
    }

    /// Sends `LOGOUT`, with a short timeout for the answer.
    pub async fn log_out(mut self) {
        let goodbye = self.run("LOGOUT", "LOGOUT", |_| ());
        let _whatever = timeout(Duration::from_secs(2), goodbye).await;
    }
}

/// Part of a response that concerns every command.
enum Untagged {
    /// The tagged answer to our command.
    Done(Result<(), MailboxError>),
    Continue,
    Bye(String),
    Exists(u32),
    Expunged,
    Other,
}

impl Untagged {
    fn from_response(response: &Response<'_>, ours: &str, name: &'static str) -> Self {
        let text = |outcome: &Outcome<'_>| server_text(outcome.information.as_deref());
        match response {
            Response::Done {
                tag,
                status,
                outcome,
            } if tag.0 == ours => Self::Done(match status {
                Status::Ok => Ok(()),
                _ => {
                    let try_create = matches!(outcome.code, Some(ResponseCode::TryCreate));
                    Err(MailboxError::Refused {
                        command: name,
                        text: text(outcome),
                        try_create,
                    })
                }
            }),
            Response::Continue(_) => Self::Continue,
            Response::Data {
                status: Status::Bye,
                outcome,
            } if name != "LOGOUT" => Self::Bye(text(outcome)),
            Response::MailboxData(MailboxDatum::Exists(exists)) => Self::Exists(*exists),
            Response::Expunge(_) => Self::Expunged,
            _ => Self::Other,
        }
    }
}

fn uid_of(response: &Response<'_>) -> Option<u32> {
    let Response::Fetch(_, attributes) = response else {
        return None;
    };
    attributes.iter().find_map(|attribute| match attribute {
        AttributeValue::Uid(uid) => Some(*uid),
        _ => None,
    })
}

fn announced(response: &Response<'_>) -> Option<Announced> {
    let uid = uid_of(response)?;
    let Response::Fetch(_, attributes) = response else {
        return None;
    };
    let size_bytes = attributes.iter().find_map(|attribute| match attribute {
        AttributeValue::Rfc822Size(size) => Some(*size),
        _ => None,
    })?;
    let arrived_at = attributes.iter().find_map(|attribute| match attribute {
        AttributeValue::InternalDate(text) => instant(text),
        _ => None,
    });
    Some(Announced {
        uid,
        size_bytes,
        arrived_at,
    })
}

/// Parses `17-Jul-1996 02:44:25 -0700`; the day may begin with a blank.
fn instant(text: &str) -> Option<Timestamp> {
    let parsed = DateTime::parse_from_str(text.trim(), "%d-%b-%Y %H:%M:%S %z").ok()?;
    Some(Timestamp::from_millis(parsed.timestamp_millis()))
}

fn letter<'r>(response: &'r Response<'_>) -> Option<(u32, &'r [u8])> {
    let uid = uid_of(response)?;
    let Response::Fetch(_, attributes) = response else {
        return None;
    };
    attributes.iter().find_map(|attribute| match attribute {
        AttributeValue::BodySection {
            section: None,
            data: Some(bytes),
            ..
        } => Some((uid, bytes.as_ref())),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::instant;

    #[test]
    fn internal_dates_are_read_with_their_zones() {
        let read = |text| instant(text).map(|at| at.to_string());
        assert_eq!(
            read("17-Jul-1996 02:44:25 -0700").as_deref(),
            Some("1996-07-17T09:44:25.000Z")
        );
        assert_eq!(
            read(" 1-Nov-2026 00:00:01 +0000").as_deref(),
            Some("2026-11-01T00:00:01.000Z")
        );
        assert_eq!(read("yesterday"), None);
    }
}
