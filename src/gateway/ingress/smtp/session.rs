//! The dialogue with one peer: a state machine over any byte stream, so that it can be tested without sockets.

use super::SmtpSettings;
use super::command::Command;
use super::reply::{self, Offer, Reply};
use super::wire::{Cut, Wire};
use crate::config::ListenerKind;
use crate::domain::Address;
use crate::gateway::door::{Accepted, Door};
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

/// While hardly a place is left, who brings no letter may stay for so much of `session_duration_max`.
const STRESSED_PART: u32 = 60;

/// What the sessions of one listener share.
#[derive(Clone)]
pub struct House {
    pub door: Arc<dyn Door>,
    pub settings: Arc<SmtpSettings>,
    /// Cancelled when the engine stops.
    pub stop: CancellationToken,
}

impl House {
    pub fn new(door: Arc<dyn Door>, settings: SmtpSettings, stop: CancellationToken) -> Self {
        Self { door, settings: Arc::new(settings), stop }
    }
}

/// Talks to one peer until either side ends it. `peer` is `None` when the stream has no address.
pub async fn converse<S>(stream: S, peer: Option<IpAddr>, house: &House)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let lobby = &house.settings.lobby;
    let wire = Wire::new(stream, &house.settings.limits, lobby.visitors.clone(), &house.stop);
    let mut session = Session {
        wire,
        house,
        peer,
        helo: None,
        is_extended: false,
        submitter: None,
        transaction: None,
        errors: 0,
        failed_logins: 0,
        stored: 0,
        brought_at: lobby.clock.monotonic(),
        unconfirmed: None,
    };
    let cut = session.talk().await;
    session.settle().await;
    if let Some(last_word) = last_word(cut) {
        session.wire.reply(last_word);
    }
    tracing::debug!(?cut, stored = session.stored, errors = session.errors, "an SMTP session ended");
    session.wire.close().await;
}

/// What a peer reads before we hang up on it.
fn last_word(cut: Option<Cut>) -> Option<Reply> {
    match cut? {
        Cut::Gone => None,
        Cut::Idle => Some(reply::IDLE_TOO_LONG),
        Cut::Slow => Some(reply::TOO_SLOW),
        Cut::Expired => Some(reply::SESSION_TOO_LONG),
        Cut::Stopping => Some(reply::SHUTTING_DOWN),
        Cut::BareNewline => Some(reply::BARE_NEWLINE_IN_COMMAND),
        Cut::EndlessLine => Some(reply::LINE_TOO_LONG),
        Cut::NotSmtp | Cut::NoTls => None,
    }
}

pub(super) struct Session<'a, S> {
    pub(super) wire: Wire<S>,
    pub(super) house: &'a House,
    pub(super) peer: Option<IpAddr>,
    /// What the peer called itself, once it did.
    pub(super) helo: Option<String>,
    /// It said EHLO or LHLO.
    pub(super) is_extended: bool,
    /// The owner who logged in.
    pub(super) submitter: Option<Address>,
    pub(super) transaction: Option<Transaction>,
    /// Permanent failures since the last stored letter.
    pub(super) errors: usize,
    pub(super) failed_logins: usize,
    /// Letters stored, for the log.
    pub(super) stored: usize,
    /// When it began, or brought its last letter ([`crate::clock::Clock::monotonic`]).
    pub(super) brought_at: Duration,
    /// A letter whose 250 the peer may not have seen yet, and the number of reads when it was queued.
    pub(super) unconfirmed: Option<(Accepted, u64)>,
}

/// One letter's envelope in the making.
pub(super) struct Transaction {
    pub(super) mail_from: Option<Address>,
    pub(super) rcpt_to: Vec<Address>,
    /// Recipients that count towards the limit: each once, under LMTP each mention.
    pub(super) accepted: usize,
}

/// `Break` hangs up after the queued replies were sent.
pub(super) type Next = ControlFlow<()>;
pub(super) const GO_ON: Next = ControlFlow::Continue(());
pub(super) const HANG_UP: Next = ControlFlow::Break(());

impl<S: AsyncRead + AsyncWrite + Unpin> Session<'_, S> {
    /// `None`: the session ended by its own rules and everything is said.
    async fn talk(&mut self) -> Option<Cut> {
        match self.receive().await {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => return None,
            Err(cut) => return Some(cut),
        }
        loop {
            let command = match self.wire.command().await {
                Ok(command) => command,
                Err(cut) => return Some(cut),
            };
            crate::crash::crash_point!("I5", self.stored > 0);
            self.settle().await;
            if self.overstays() {
                return Some(Cut::Expired);
            }
            let next = match command {
                Ok(command) => self.obey(command).await,
                Err(complaint) => Ok(self.answer(complaint)),
            };
            match next {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return None,
                Err(cut) => return Some(cut),
            }
            if let Err(cut) = self.wire.flush_if_large().await {
                return Some(cut);
            }
        }
    }

    /// Whether hardly a place is left and this peer has only talked for a while: a minute of the hour that it may.
    fn overstays(&self) -> bool {
        let settings = &self.house.settings;
        let talked = settings.lobby.clock.monotonic().saturating_sub(self.brought_at);
        talked > settings.limits.session_duration_max / STRESSED_PART
            && settings.lobby.visitors.are_stressed()
    }

    /// TLS where it comes first, then the greeting, which a peer has to wait for (RFC 5321 section 3.1).
    async fn receive(&mut self) -> Result<Next, Cut> {
        let settings = &self.house.settings;
        if let Some(tls) = settings.tls.as_ref().filter(|tls| tls.is_implicit) {
            self.wire.secure(tls.certificates.acceptor()).await?;
        }
        // What sends without reading, as programs that only want to get rid of their mail do, speaks too early. Our
        // own machine is not kept waiting.
        let is_stranger = self.peer.is_some_and(|peer| !peer.is_loopback());
        if is_stranger && settings.kind == ListenerKind::Smtp {
            let delay =
                if self.wire.is_encrypted() { Duration::ZERO } else { settings.limits.greeting_delay };
            if self.wire.hears_within(delay).await? {
                self.wire.reply(reply::SPOKE_FIRST);
                return Ok(HANG_UP);
            }
        }
        self.wire.reply_with(|out| reply::write_greeting(&settings.host_name, settings.kind, out));
        Ok(GO_ON)
    }

    /// The peer spoke after our 250, so it knows of it.
    async fn settle(&mut self) {
        if let Some((accepted, _)) = self.unconfirmed.take_if(|(_, reads)| self.wire.reads > *reads) {
            self.house.door.confirm(&accepted).await;
        }
    }

    async fn obey(&mut self, command: Command) -> Result<Next, Cut> {
        let settings = &self.house.settings;
        let next = match command {
            Command::Helo(_) | Command::Ehlo(_) if settings.kind == ListenerKind::Lmtp => {
                self.answer(reply::LHLO_ONLY)
            }
            Command::Lhlo(_) if settings.kind == ListenerKind::Smtp => self.answer(reply::NOT_OFFERED),
            Command::Helo(name) => {
                self.begin(name, false);
                self.wire.reply_with(|out| reply::write_helo(&settings.host_name, out));
                GO_ON
            }
            Command::Ehlo(name) | Command::Lhlo(name) => {
                self.begin(name, true);
                let offer = Offer {
                    letter_bytes_max: settings.limits.letter_bytes_max,
                    starttls: settings.tls.is_some() && !self.wire.is_encrypted(),
                    auth: settings.submitters.is_some() && self.wire.is_encrypted(),
                };
                self.wire.reply_with(|out| reply::write_ehlo(&settings.host_name, offer, out));
                GO_ON
            }
            Command::StartTls => return self.start_tls().await,
            Command::Auth(auth) => return self.log_in(auth).await,
            Command::Mail(mail) => {
                let verdict = self.mail(mail);
                self.answer(verdict)
            }
            Command::Rcpt(recipient) => {
                let verdict = self.rcpt(&recipient);
                self.answer(verdict)
            }
            Command::Rset => {
                self.transaction = None;
                self.answer(reply::OK)
            }
            Command::Noop => self.answer(reply::OK),
            Command::Help => self.answer(reply::HELP),
            Command::Vrfy => self.answer(reply::CANNOT_VERIFY),
            Command::NotOffered => self.answer(reply::NOT_OFFERED),
            Command::Quit => {
                self.wire.reply(reply::BYE);
                HANG_UP
            }
            // A page in a browser can make it post a mail to us (cross-protocol attack); nothing of it is obeyed.
            Command::Http => {
                self.wire.reply(reply::NOT_HTTP);
                HANG_UP
            }
            Command::Data => return self.data().await,
        };
        Ok(next)
    }

    /// Queues a reply; a peer that does nothing but err is shown the door.
    pub(super) fn answer(&mut self, reply: Reply) -> Next {
        self.wire.reply(reply);
        if !reply.is_permanent_failure() {
            return GO_ON;
        }
        self.errors += 1;
        if self.errors < self.house.settings.limits.session_errors_max {
            return GO_ON;
        }
        self.wire.reply(reply::TOO_MANY_ERRORS);
        HANG_UP
    }

    /// EHLO and HELO also end a transaction (RFC 5321 section 4.1.4).
    fn begin(&mut self, name: String, is_extended: bool) {
        self.helo = Some(name);
        self.is_extended = is_extended;
        self.transaction = None;
    }

    /// What to say to somebody who has not introduced themselves.
    pub(super) fn hello_first(&self) -> Reply {
        match self.house.settings.kind {
            ListenerKind::Smtp => reply::HELLO_FIRST,
            ListenerKind::Lmtp => reply::LHLO_FIRST,
        }
    }
}
