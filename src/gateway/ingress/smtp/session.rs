//! The dialogue with one peer: a state machine over any byte stream, so that it can be tested
//! without sockets.

use super::SmtpSettings;
use super::command::SmtpCommand;
use super::connection::{Disconnect, SmtpConnection};
use super::reply::{self, Extensions, Reply};
use crate::config::ListenerKind;
use crate::domain::Address;
use crate::gateway::intake_contract::{Accepted, LetterIntake};
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

/// Divisor of `session_duration_max` for a peer without a letter while few permits are free.
const STRESSED_PART: u32 = 60;

/// Context of the sessions of one listener.
#[derive(Clone)]
pub struct ServerContext {
    pub intake: Arc<dyn LetterIntake>,
    pub settings: Arc<SmtpSettings>,
    /// Cancelled when the engine stops.
    pub stop: CancellationToken,
}

impl ServerContext {
    pub fn new(
        intake: Arc<dyn LetterIntake>,
        settings: SmtpSettings,
        stop: CancellationToken,
    ) -> Self {
        Self {
            intake,
            settings: Arc::new(settings),
            stop,
        }
    }
}

/// Serves one peer until either side ends the session. `peer` is `None` when the stream has no
/// address.
pub async fn serve_session<S>(stream: S, peer: Option<IpAddr>, server: &ServerContext)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let connection_limiter = &server.settings.connection_limiter;
    let connection = SmtpConnection::new(
        stream,
        &server.settings.limits,
        connection_limiter.open_connections.clone(),
        &server.stop,
    );
    let mut session = SmtpSession {
        connection,
        server,
        peer,
        helo: None,
        is_extended: false,
        submitter: None,
        transaction: None,
        errors: 0,
        failed_logins: 0,
        stored: 0,
        brought_at: connection_limiter.clock.monotonic(),
        unconfirmed: None,
    };
    let cut = session.run().await;
    session.finish().await;
    if let Some(last_word) = last_word(cut) {
        session.connection.reply(last_word);
    }
    tracing::debug!(
        ?cut,
        stored = session.stored,
        errors = session.errors,
        "an SMTP session ended"
    );
    session.connection.close().await;
}

/// Last reply before a disconnect.
fn last_word(cut: Option<Disconnect>) -> Option<Reply> {
    match cut? {
        Disconnect::Gone => None,
        Disconnect::Idle => Some(reply::IDLE_TOO_LONG),
        Disconnect::Slow => Some(reply::TOO_SLOW),
        Disconnect::Expired => Some(reply::SESSION_TOO_LONG),
        Disconnect::Stopping => Some(reply::SHUTTING_DOWN),
        Disconnect::BareNewline => Some(reply::BARE_NEWLINE_IN_COMMAND),
        Disconnect::EndlessLine => Some(reply::LINE_TOO_LONG),
        Disconnect::NotSmtp | Disconnect::NoTls => None,
    }
}

pub(super) struct SmtpSession<'a, S> {
    pub(super) connection: SmtpConnection<S>,
    pub(super) server: &'a ServerContext,
    pub(super) peer: Option<IpAddr>,
    /// Name in the peer's HELO, EHLO or LHLO, once received.
    pub(super) helo: Option<String>,
    /// `true` after EHLO or LHLO.
    pub(super) is_extended: bool,
    /// The owner that logged in.
    pub(super) submitter: Option<Address>,
    pub(super) transaction: Option<Transaction>,
    /// Permanent failures since the last stored letter.
    pub(super) errors: usize,
    pub(super) failed_logins: usize,
    /// Number of letters stored, for the log.
    pub(super) stored: usize,
    /// Instant of the session's start or of its last letter ([`crate::clock::Clock::monotonic`]).
    pub(super) brought_at: Duration,
    /// A letter whose 250 the peer may not have read yet, and the number of reads when it was
    /// queued.
    pub(super) unconfirmed: Option<(Accepted, u64)>,
}

/// The envelope of one letter during its transaction.
pub(super) struct Transaction {
    /// Judges its recipients, and the letter.
    pub(super) intake: Arc<dyn LetterIntake>,
    pub(super) mail_from: Option<Address>,
    pub(super) rcpt_to: Vec<Address>,
    /// Recipients that count towards the limit: distinct ones, under LMTP each mention.
    pub(super) accepted: usize,
}

/// `Break` disconnects after the queued replies are sent.
pub(super) type SessionFlow = ControlFlow<()>;
pub(super) const GO_ON: SessionFlow = ControlFlow::Continue(());
pub(super) const HANG_UP: SessionFlow = ControlFlow::Break(());

impl<S: AsyncRead + AsyncWrite + Unpin> SmtpSession<'_, S> {
    /// Runs the session. `None`: it ended regularly and every reply is sent.
    async fn run(&mut self) -> Option<Disconnect> {
        match self.receive().await {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => return None,
            Err(cut) => return Some(cut),
        }
        loop {
            let command = match self.connection.command().await {
                Ok(command) => command,
                Err(cut) => return Some(cut),
            };
            crate::crash::crash_point!("I5", self.stored > 0);
            self.finish().await;
            if self.overstays() {
                return Some(Disconnect::Expired);
            }
            let next = match command {
                Ok(command) => self.handle(command).await,
                Err(complaint) => Ok(self.answer(complaint)),
            };
            match next {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return None,
                Err(cut) => return Some(cut),
            }
            if let Err(cut) = self.connection.flush_if_large().await {
                return Some(cut);
            }
        }
    }

    /// Reports whether few permits are free and this peer has sent no letter for a while: a minute
    /// of its permitted hour.
    fn overstays(&self) -> bool {
        let settings = &self.server.settings;
        let talked = settings
            .connection_limiter
            .clock
            .monotonic()
            .saturating_sub(self.brought_at);
        talked > settings.limits.session_duration_max / STRESSED_PART
            && settings.connection_limiter.open_connections.are_stressed()
    }

    /// Makes the handshake of implicit TLS, then sends the greeting, for which a peer must wait
    /// (RFC 5321 section 3.1).
    async fn receive(&mut self) -> Result<SessionFlow, Disconnect> {
        let settings = &self.server.settings;
        if let Some(tls) = settings.tls.as_ref().filter(|tls| tls.is_implicit) {
            self.connection.secure(tls.certificates.acceptor()).await?;
        }
        // Programs that send without reading, such as spam bots, send before the greeting. Loopback
        // peers are not delayed.
        let is_stranger = self.peer.is_some_and(|peer| !peer.is_loopback());
        if is_stranger && settings.kind == ListenerKind::Smtp {
            let delay = if self.connection.is_encrypted() {
                Duration::ZERO
            } else {
                settings.limits.greeting_delay
            };
            if self.connection.hears_within(delay).await? {
                self.connection.reply(reply::SPOKE_FIRST);
                return Ok(HANG_UP);
            }
        }
        self.connection
            .reply_with(|out| reply::write_greeting(&settings.host_name, settings.kind, out));
        Ok(GO_ON)
    }

    /// Confirms the stored letter: the peer has sent bytes after our 250, so it has read it.
    async fn finish(&mut self) {
        if let Some((accepted, _)) = self
            .unconfirmed
            .take_if(|(_, reads)| self.connection.reads > *reads)
        {
            self.server.intake.confirm(&accepted).await;
        }
    }

    async fn handle(&mut self, command: SmtpCommand) -> Result<SessionFlow, Disconnect> {
        let settings = &self.server.settings;
        let next = match command {
            SmtpCommand::Helo(_) | SmtpCommand::Ehlo(_) if settings.kind == ListenerKind::Lmtp => {
                self.answer(reply::LHLO_ONLY)
            }
            SmtpCommand::Lhlo(_) if settings.kind == ListenerKind::Smtp => {
                self.answer(reply::NOT_OFFERED)
            }
            SmtpCommand::Helo(name) => {
                self.begin(name, false);
                self.connection
                    .reply_with(|out| reply::write_helo(&settings.host_name, out));
                GO_ON
            }
            SmtpCommand::Ehlo(name) | SmtpCommand::Lhlo(name) => {
                self.begin(name, true);
                let extensions = Extensions {
                    letter_bytes_max: settings.limits.letter_bytes_max,
                    starttls: settings.tls.is_some() && !self.connection.is_encrypted(),
                    auth: settings.submitters.is_some() && self.connection.is_encrypted(),
                };
                self.connection
                    .reply_with(|out| reply::write_ehlo(&settings.host_name, extensions, out));
                GO_ON
            }
            SmtpCommand::StartTls => return self.start_tls().await,
            SmtpCommand::Auth(auth) => return self.log_in(auth).await,
            SmtpCommand::Mail(mail) => {
                let verdict = self.mail(mail);
                self.answer(verdict)
            }
            SmtpCommand::Rcpt(recipient) => {
                let verdict = self.rcpt(&recipient);
                self.answer(verdict)
            }
            SmtpCommand::Rset => {
                self.transaction = None;
                self.answer(reply::OK)
            }
            SmtpCommand::Noop => self.answer(reply::OK),
            SmtpCommand::Help => self.answer(reply::HELP),
            SmtpCommand::Vrfy => self.answer(reply::CANNOT_VERIFY),
            SmtpCommand::NotOffered => self.answer(reply::NOT_OFFERED),
            SmtpCommand::Quit => {
                self.connection.reply(reply::BYE);
                HANG_UP
            }
            // A web page can make a browser post a mail to us (cross-protocol attack); none of it
            // is executed.
            SmtpCommand::Http => {
                self.connection.reply(reply::NOT_HTTP);
                HANG_UP
            }
            SmtpCommand::Data => return self.data().await,
        };
        Ok(next)
    }

    /// Queues a reply; a peer with too many errors is disconnected.
    pub(super) fn answer(&mut self, reply: Reply) -> SessionFlow {
        self.connection.reply(reply);
        if !reply.is_permanent_failure() {
            return GO_ON;
        }
        self.errors += 1;
        if self.errors < self.server.settings.limits.session_errors_max {
            return GO_ON;
        }
        self.connection.reply(reply::TOO_MANY_ERRORS);
        HANG_UP
    }

    /// Records EHLO or HELO, which also end a transaction (RFC 5321 section 4.1.4).
    fn begin(&mut self, name: String, is_extended: bool) {
        self.helo = Some(name);
        self.is_extended = is_extended;
        self.transaction = None;
    }

    /// Reply to a client that has not sent HELO, EHLO or LHLO.
    pub(super) fn hello_first(&self) -> Reply {
        match self.server.settings.kind {
            ListenerKind::Smtp => reply::HELLO_FIRST,
            ListenerKind::Lmtp => reply::LHLO_FIRST,
        }
    }
}
