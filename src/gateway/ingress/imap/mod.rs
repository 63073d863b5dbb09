//! IMAP mailboxes as a source of letters: one task per mailbox connects, sweeps, and waits for more
//! letters with IDLE or a poll.
//!
//! `dial.rs` opens a session, `session.rs` has its commands, `sweep.rs` takes the letters. Every
//! error ends the session; the next one begins after a pause. Absent on purpose: more than one
//! connection per mailbox, and trust in the server's flags for new letters: the cursor is ours.
//!
//! - `dial`, `connection`, `formatting`, `nesting`: the wire
//! - `token`, `kept_token`: OAuth
//! - `session`: commands; `sweep`: the letters
//! - `error`, `timeouts`: what went wrong, and how long to wait

mod dial;
mod error;
mod kept_token;
mod nesting;
mod timeouts;
mod session;
mod formatting;
mod sweep;
mod token;
mod connection;

pub use error::MailboxError;
pub use sweep::ImapSweepReport;
pub use timeouts::ImapTimeouts;

use crate::clock::Clock;
use crate::config::{ImapMailbox, Limits, MailboxLogin};
use crate::domain::Address;
use crate::gateway::ingress::in_flight::InFlightMarker;
use crate::gateway::intake_contract::LetterIntake;
use crate::store::{MailboxFailure, Store};
use kept_token::KeptToken;
use session::{ImapSession, Woken};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use token::MailboxTokens;
use tokio_util::sync::CancellationToken;

/// Maximum letters fetched at once.
const BATCH_LETTERS_MAX: usize = 50;
/// Maximum consecutive false announcements of letters; after more, the server's announcements are
/// ignored until the next poll.
const FALSE_WAKES_MAX: u32 = 3;
/// Time for the current sweep to end at shutdown.
const GRACE: Duration = Duration::from_secs(5);

/// One mailbox and the dependencies of its watch.
pub struct MailboxWatch {
    mailbox: ImapMailbox,
    /// Address of the persona that gets letters without a local recipient.
    fallback: Option<Address>,
    intake: Arc<dyn LetterIntake>,
    store: Store,
    letter_bytes_max: usize,
    timeouts: ImapTimeouts,
    /// Set after a response that was too long or after an engine died: letters are then fetched one
    /// by one, to find the one that caused it.
    one_by_one: AtomicBool,
    in_flight: Option<InFlightMarker>,
    kept_token: KeptToken,
}

/// Watches a mailbox until `stop`.
pub async fn watch(watch: MailboxWatch, stop: CancellationToken) {
    let stopped = async {
        stop.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        () = watch.attend(&stop) => {}
        // Safe at any point: committed letters stay committed, and the next engine marks letters
        // that are not marked.
        () = stopped => {}
    }
}

impl MailboxWatch {
    pub fn new(
        mailbox: ImapMailbox,
        fallback: Option<Address>,
        intake: Arc<dyn LetterIntake>,
        store: Store,
        limits: &Limits,
    ) -> Self {
        let letter_bytes_max = limits.letter_bytes_max;
        let (timeouts, one_by_one) = (ImapTimeouts::default(), AtomicBool::new(false));
        let kept_token = KeptToken::nowhere();
        Self {
            mailbox,
            fallback,
            intake,
            store,
            letter_bytes_max,
            timeouts,
            one_by_one,
            in_flight: None,
            kept_token,
        }
    }

    /// Sets the workspace that keeps state over restarts: the marker of the letter in flight, and
    /// the newest refresh token.
    #[must_use]
    pub fn in_workspace(mut self, workspace: &Path) -> Self {
        self.kept_token = KeptToken::for_mailbox(workspace, &source(&self.mailbox));
        let in_flight = InFlightMarker::open(self.store.clone(), workspace, &source(&self.mailbox));
        self.one_by_one
            .store(in_flight.is_marked(), Ordering::Relaxed);
        self.in_flight = Some(in_flight);
        self
    }

    /// Sets other timeouts.
    #[must_use]
    pub fn with_timeouts(mut self, timeouts: ImapTimeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Runs one session after another, each until it fails.
    async fn attend(&self, stop: &CancellationToken) {
        let mut tokens = self.tokens();
        let mut failures = 0;
        if !InFlightMarker::waited(self.in_flight.as_ref(), stop).await {
            return;
        }
        while let Err(error) = self.one_session(tokens.as_mut(), &mut failures, stop).await {
            if stop.is_cancelled() {
                return;
            }
            failures += 1;
            self.complain(&error).await;
            if matches!(error, MailboxError::TooMuch) {
                self.one_by_one.store(true, Ordering::Relaxed);
            }
            let pause = self
                .timeouts
                .pause(&self.mailbox.name, failures, error.is_login_refused());
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Runs a session; `Ok` when `stop` ended it.
    async fn one_session(
        &self,
        tokens: Option<&mut MailboxTokens>,
        failures: &mut u32,
        stop: &CancellationToken,
    ) -> Result<(), MailboxError> {
        let mut session = self.dial(tokens).await?;
        let mut false_wakes = 0;
        loop {
            let swept = sweep::sweep(self, &mut session, stop).await?;
            *failures = 0;
            self.one_by_one.store(false, Ordering::Relaxed);
            if let Some(in_flight) = &self.in_flight {
                in_flight.clear();
            }
            if swept == ImapSweepReport::default() {
                false_wakes += 1;
            } else {
                false_wakes = 0;
                let ImapSweepReport {
                    stored,
                    duplicates,
                    refused,
                    left_alone,
                } = swept;
                let mailbox = &self.mailbox.name;
                tracing::info!(
                    mailbox,
                    stored,
                    duplicates,
                    refused,
                    left_alone,
                    "a mailbox was looked through"
                );
            }
            self.wait(&mut session, &mut false_wakes, stop).await?;
            if stop.is_cancelled() {
                break;
            }
        }
        session.log_out().await;
        Ok(())
    }

    async fn dial(&self, tokens: Option<&mut MailboxTokens>) -> Result<ImapSession, MailboxError> {
        dial::dial(&self.mailbox, self.letter_bytes_max, &self.timeouts, tokens).await
    }

    /// Waits until the server announces a letter, the poll is due, or `stop`.
    async fn wait(
        &self,
        session: &mut ImapSession,
        false_wakes: &mut u32,
        stop: &CancellationToken,
    ) -> Result<(), MailboxError> {
        let poll = self.mailbox.poll;
        let believes = *false_wakes <= FALSE_WAKES_MAX;
        if believes && session.has_changes() {
            return Ok(());
        }
        if believes && session.can("IDLE") {
            match session.idle(poll.min(self.timeouts.idle_max), stop).await? {
                Woken::Changes => return Ok(()),
                Woken::Due => {
                    *false_wakes = 0;
                    return Ok(());
                }
                Woken::CannotIdle => {}
            }
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(poll) => {}
        }
        *false_wakes = 0;
        Ok(())
    }

    /// Runs one session with one sweep, without waiting for letters.
    pub async fn sweep_once(&self) -> Result<ImapSweepReport, MailboxError> {
        let mut tokens = self.tokens();
        let mut session = self.dial(tokens.as_mut()).await?;
        let report = sweep::sweep(self, &mut session, &CancellationToken::new()).await?;
        session.log_out().await;
        Ok(report)
    }

    fn tokens(&self) -> Option<MailboxTokens> {
        tokens(&self.mailbox, self.store.clock(), &self.kept_token)
    }

    fn batch_letters_max(&self) -> usize {
        if self.one_by_one.load(Ordering::Relaxed) {
            1
        } else {
            BATCH_LETTERS_MAX
        }
    }

    /// Records a failure in the log and in the database, for `attache mailboxes list` and, if it
    /// lasts, for a notice to the owner.
    async fn complain(&self, error: &MailboxError) {
        let words = error.in_words();
        tracing::warn!(
            mailbox = self.mailbox.name,
            error = words,
            "a mailbox has to wait"
        );
        let (mailbox, source) = (self.mailbox.name.clone(), source(&self.mailbox));
        let failure = MailboxFailure {
            mailbox,
            source,
            error: words,
            cause: error.cause(),
        };
        if let Err(unnoted) = self.store.note_mailbox_failure(failure).await {
            tracing::warn!(error = %unnoted, "cannot note what is wrong with a mailbox");
        }
    }
}

/// Properties of a mailbox on its server, for `attache mailboxes check`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailboxProbe {
    /// Capabilities in upper case, sorted.
    pub capabilities: Vec<String>,
    /// Number of letters in the folder.
    pub letters: u32,
    pub uid_validity: u32,
}

/// Identity of a mailbox, independent of its name.
fn source(
    ImapMailbox {
        user, host, folder, ..
    }: &ImapMailbox,
) -> String {
    format!("{user} at {}, {folder}", host.to_ascii_lowercase())
}

fn tokens(
    mailbox: &ImapMailbox,
    clock: &Arc<dyn Clock>,
    kept: &KeptToken,
) -> Option<MailboxTokens> {
    match &mailbox.login {
        MailboxLogin::OAuth(settings) => Some(MailboxTokens::new(
            settings.clone(),
            clock.clone(),
            kept.clone(),
        )),
        MailboxLogin::Password(_) => None,
    }
}

/// Connects, logs in and examines the folder; changes nothing there. A refresh token that the
/// server issues in exchange is stored as an engine stores it.
pub async fn probe(
    mailbox: &ImapMailbox,
    workspace: &Path,
    clock: Arc<dyn Clock>,
) -> Result<MailboxProbe, MailboxError> {
    let mut tokens = tokens(
        mailbox,
        &clock,
        &KeptToken::for_mailbox(workspace, &source(mailbox)),
    );
    let limits = Limits::default();
    let mut session = dial::dial(
        mailbox,
        limits.letter_bytes_max,
        &ImapTimeouts::default(),
        tokens.as_mut(),
    )
    .await?;
    let selected = session.select(&mailbox.folder, true).await?;
    let capabilities = session.capabilities();
    session.log_out().await;
    Ok(MailboxProbe {
        capabilities,
        letters: selected.exists,
        uid_validity: selected.uid_validity,
    })
}
