//! IMAP mailboxes as a way in: one task per mailbox connects, sweeps, and waits with IDLE or a poll for more.
//!
//! `dial.rs` makes a session, `session.rs` has its commands, `sweep.rs` is the road of a letter. Whatever goes wrong ends
//! the session; the next one begins after a pause. Absent on purpose: more than one connection per mailbox, and trust
//! in the server's word about which letters are new: the cursor is ours.

mod dial;
mod error;
mod kept_token;
mod nesting;
mod patience;
mod session;
mod spelling;
mod sweep;
mod token;
mod wire;

pub use error::MailboxError;
pub use patience::Patience;
pub use sweep::SweepReport;
pub use token::TokenError;

use crate::clock::Clock;
use crate::config::{ImapMailbox, Limits, MailboxLogin};
use crate::domain::Address;
use crate::gateway::door::Door;
use crate::gateway::ingress::doorstep::Doorstep;
use crate::store::{MailboxTrouble, Store};
use kept_token::KeptToken;
use session::{Session, Woken};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use token::Tokens;
use tokio_util::sync::CancellationToken;

/// Letters fetched at once.
const BATCH_LETTERS_MAX: usize = 50;
/// Times in a row that a server may tell of letters that are not there; then it is not believed until the next poll.
const FALSE_NEWS_MAX: u32 = 3;
/// Time for the sweep at hand to come to an end at shutdown.
const GRACE: Duration = Duration::from_secs(5);

/// One mailbox and what is needed to attend to it.
pub struct MailboxWatch {
    mailbox: ImapMailbox,
    /// Address of the persona who gets letters that name nobody.
    fallback: Option<Address>,
    door: Arc<dyn Door>,
    store: Store,
    letter_bytes_max: usize,
    patience: Patience,
    /// An answer was too long, or an engine died: letters are fetched one by one, so that the one that it is about is known.
    one_by_one: AtomicBool,
    doorstep: Option<Doorstep>,
    kept_token: KeptToken,
}

/// Attends to a mailbox until `stop`.
pub async fn watch(watch: MailboxWatch, stop: CancellationToken) {
    let stopped = async {
        stop.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        () = watch.attend(&stop) => {}
        // Safe at any point: what is committed is committed, and what is not marked is marked by the next engine.
        () = stopped => {}
    }
}

impl MailboxWatch {
    pub fn new(
        mailbox: ImapMailbox,
        fallback: Option<Address>,
        door: Arc<dyn Door>,
        store: Store,
        limits: &Limits,
    ) -> Self {
        let letter_bytes_max = limits.letter_bytes_max;
        let (patience, one_by_one) = (Patience::default(), AtomicBool::new(false));
        let kept_token = KeptToken::nowhere();
        Self {
            mailbox,
            fallback,
            door,
            store,
            letter_bytes_max,
            patience,
            one_by_one,
            doorstep: None,
            kept_token,
        }
    }

    /// With a workspace in which to write down what must outlive the process: which letter is being taken, and the newest
    /// refresh token.
    #[must_use]
    pub fn in_workspace(mut self, workspace: &Path) -> Self {
        self.kept_token = KeptToken::of(workspace, &source(&self.mailbox));
        let doorstep = Doorstep::open(self.store.clone(), workspace, &source(&self.mailbox));
        self.one_by_one.store(doorstep.is_marked(), Ordering::Relaxed);
        self.doorstep = Some(doorstep);
        self
    }

    /// With other time-outs.
    #[must_use]
    pub fn with_patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    /// Sessions one after the other, each until it fails.
    async fn attend(&self, stop: &CancellationToken) {
        let mut tokens = self.tokens();
        let mut failures = 0;
        if !Doorstep::waited(self.doorstep.as_ref(), stop).await {
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
            let pause = self.patience.pause(&self.mailbox.name, failures, error.is_login_refused());
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// `Ok` when it was told to stop.
    async fn one_session(
        &self,
        tokens: Option<&mut Tokens>,
        failures: &mut u32,
        stop: &CancellationToken,
    ) -> Result<(), MailboxError> {
        let mut session = self.dial(tokens).await?;
        let mut false_news = 0;
        loop {
            let swept = sweep::sweep(self, &mut session, stop).await?;
            *failures = 0;
            self.one_by_one.store(false, Ordering::Relaxed);
            if let Some(doorstep) = &self.doorstep {
                doorstep.clear();
            }
            if swept == SweepReport::default() {
                false_news += 1;
            } else {
                false_news = 0;
                let SweepReport { stored, duplicates, refused, left_alone } = swept;
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
            self.wait(&mut session, &mut false_news, stop).await?;
            if stop.is_cancelled() {
                break;
            }
        }
        session.log_out().await;
        Ok(())
    }

    async fn dial(&self, tokens: Option<&mut Tokens>) -> Result<Session, MailboxError> {
        dial::dial(&self.mailbox, self.letter_bytes_max, &self.patience, tokens).await
    }

    /// Until the server tells of a letter, the poll is due, or `stop`.
    async fn wait(
        &self,
        session: &mut Session,
        false_news: &mut u32,
        stop: &CancellationToken,
    ) -> Result<(), MailboxError> {
        let poll = self.mailbox.poll;
        let believes = *false_news <= FALSE_NEWS_MAX;
        if believes && session.has_news() {
            return Ok(());
        }
        if believes && session.can("IDLE") {
            match session.idle(poll.min(self.patience.idle_max), stop).await? {
                Woken::News => return Ok(()),
                Woken::Due => {
                    *false_news = 0;
                    return Ok(());
                }
                Woken::CannotIdle => {}
            }
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(poll) => {}
        }
        *false_news = 0;
        Ok(())
    }

    /// One session with one sweep, for whoever does not want to wait.
    pub async fn sweep_once(&self) -> Result<SweepReport, MailboxError> {
        let mut tokens = self.tokens();
        let mut session = self.dial(tokens.as_mut()).await?;
        let report = sweep::sweep(self, &mut session, &CancellationToken::new()).await?;
        session.log_out().await;
        Ok(report)
    }

    fn tokens(&self) -> Option<Tokens> {
        tokens(&self.mailbox, self.store.clock(), &self.kept_token)
    }

    fn batch_letters_max(&self) -> usize {
        if self.one_by_one.load(Ordering::Relaxed) { 1 } else { BATCH_LETTERS_MAX }
    }

    /// Says what is wrong, in the log, where `attache mailboxes list` finds it, and to the owner if it lasts.
    async fn complain(&self, error: &MailboxError) {
        let words = error.in_words();
        tracing::warn!(mailbox = self.mailbox.name, error = words, "a mailbox has to wait");
        let (mailbox, source) = (self.mailbox.name.clone(), source(&self.mailbox));
        let trouble = MailboxTrouble { mailbox, source, error: words, cause: error.cause() };
        if let Err(unnoted) = self.store.note_mailbox_trouble(trouble).await {
            tracing::warn!(error = %unnoted, "cannot note what is wrong with a mailbox");
        }
    }
}

/// What a server says of a mailbox, for `attache mailboxes check`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Upper case, in order.
    pub capabilities: Vec<String>,
    /// Letters in the folder.
    pub letters: u32,
    pub uid_validity: u32,
}

/// What makes a mailbox another one, whatever it is called.
fn source(ImapMailbox { user, host, folder, .. }: &ImapMailbox) -> String {
    format!("{user} at {}, {folder}", host.to_ascii_lowercase())
}

fn tokens(mailbox: &ImapMailbox, clock: &Arc<dyn Clock>, kept: &KeptToken) -> Option<Tokens> {
    match &mailbox.login {
        MailboxLogin::OAuth(settings) => Some(Tokens::new(settings.clone(), clock.clone(), kept.clone())),
        MailboxLogin::Password(_) => None,
    }
}

/// Connects, logs in and looks at the folder; changes nothing there. A refresh token that the server gives for the one it
/// was asked with is kept, as an engine keeps it.
pub async fn probe(
    mailbox: &ImapMailbox,
    workspace: &Path,
    clock: Arc<dyn Clock>,
) -> Result<Probe, MailboxError> {
    let mut tokens = tokens(mailbox, &clock, &KeptToken::of(workspace, &source(mailbox)));
    let limits = Limits::default();
    let mut session =
        dial::dial(mailbox, limits.letter_bytes_max, &Patience::default(), tokens.as_mut()).await?;
    let selected = session.select(&mailbox.folder, true).await?;
    let capabilities = session.capabilities();
    session.log_out().await;
    Ok(Probe { capabilities, letters: selected.exists, uid_validity: selected.uid_validity })
}
