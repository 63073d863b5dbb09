//! The dialogue with one peer: a state machine over any byte stream, so that it can be tested without sockets.

use super::SmtpSettings;
use super::command::{Command, Mail, Mailbox, Recipient};
use super::data::{End, Fault, LetterMemory, LetterReader};
use super::reply::{self, Reply};
use super::wire::{Cut, Wire};
use crate::domain::{Address, Arrival, Envelope, Letter, Via};
use crate::gateway::door::{Accepted, Door, RecipientVerdict, Refusal, SenderVerdict};
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

/// What the sessions of one listener share.
#[derive(Clone)]
pub struct House {
    pub door: Arc<dyn Door>,
    pub settings: Arc<SmtpSettings>,
    pub memory: Arc<LetterMemory>,
    /// Cancelled when the engine stops.
    pub stop: CancellationToken,
}

impl House {
    pub fn new(door: Arc<dyn Door>, settings: SmtpSettings, stop: CancellationToken) -> Self {
        let memory = LetterMemory::new(settings.letters_in_memory_bytes_max);
        Self { door, settings: Arc::new(settings), memory, stop }
    }
}

/// Talks to one peer until either side ends it. `peer` is `None` when the stream has no address.
pub async fn converse<S>(stream: S, peer: Option<IpAddr>, house: &House)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let wire = Wire::new(stream, &house.settings.limits, &house.stop);
    let mut session =
        Session { wire, house, peer, helo: None, transaction: None, errors: 0, stored: 0, unconfirmed: None };
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
        Cut::Expired => Some(reply::SESSION_TOO_LONG),
        Cut::Stopping => Some(reply::SHUTTING_DOWN),
        Cut::BareNewline => Some(reply::BARE_NEWLINE_IN_COMMAND),
        Cut::EndlessLine => Some(reply::LINE_TOO_LONG),
        Cut::NotSmtp => None,
    }
}

struct Session<'a, S> {
    wire: Wire<S>,
    house: &'a House,
    peer: Option<IpAddr>,
    /// What the peer called itself, once it did.
    helo: Option<String>,
    transaction: Option<Transaction>,
    /// Permanent failures since the last stored letter.
    errors: usize,
    /// Letters stored, for the log.
    stored: usize,
    /// A letter whose 250 the peer may not have seen yet, and the number of reads when it was queued.
    unconfirmed: Option<(Accepted, u64)>,
}

/// One letter's envelope in the making.
struct Transaction {
    mail_from: Option<Address>,
    rcpt_to: Vec<Address>,
}

/// `Break` hangs up after the queued replies were sent.
type Next = ControlFlow<()>;
const GO_ON: Next = ControlFlow::Continue(());
const HANG_UP: Next = ControlFlow::Break(());

impl<S: AsyncRead + AsyncWrite + Unpin> Session<'_, S> {
    /// `None`: the session ended by its own rules and everything is said.
    async fn talk(&mut self) -> Option<Cut> {
        let settings = &self.house.settings;
        self.wire.reply_with(|out| reply::write_greeting(&settings.host_name, out));
        loop {
            let command = match self.wire.command().await {
                Ok(command) => command,
                Err(cut) => return Some(cut),
            };
            self.settle().await;
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

    /// The peer spoke after our 250, so it knows of it.
    async fn settle(&mut self) {
        if let Some((accepted, _)) = self.unconfirmed.take_if(|(_, reads)| self.wire.reads > *reads) {
            self.house.door.confirm(&accepted).await;
        }
    }

    async fn obey(&mut self, command: Command) -> Result<Next, Cut> {
        let settings = &self.house.settings;
        let next = match command {
            Command::Helo(name) => {
                self.begin(name);
                self.wire.reply_with(|out| reply::write_helo(&settings.host_name, out));
                GO_ON
            }
            Command::Ehlo(name) => {
                self.begin(name);
                let size = settings.limits.letter_bytes_max;
                self.wire.reply_with(|out| reply::write_ehlo(&settings.host_name, size, out));
                GO_ON
            }
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
    fn answer(&mut self, reply: Reply) -> Next {
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
    fn begin(&mut self, name: String) {
        self.helo = Some(name);
        self.transaction = None;
    }

    fn mail(&mut self, mail: Mail) -> Reply {
        let door = &self.house.door;
        if self.helo.is_none() {
            return reply::HELLO_FIRST;
        }
        if self.transaction.is_some() {
            return reply::MAIL_AGAIN;
        }
        if mail.declared_bytes.is_some_and(|bytes| bytes > self.house.settings.limits.letter_bytes_max) {
            return reply::TOO_LARGE;
        }
        let mail_from = match mail.from {
            None => None,
            Some(mailbox) => match mailbox.address() {
                Some(address) => Some(address),
                None if mailbox.is_ascii() => return reply::SENDER_NOT_USABLE,
                None => return reply::NOT_ASCII,
            },
        };
        if door.sender(mail_from.as_ref()) == SenderVerdict::Denied {
            return reply::SENDER_DENIED;
        }
        if !door.has_room() {
            return reply::NO_ROOM;
        }
        self.transaction = Some(Transaction { mail_from, rcpt_to: Vec::new() });
        reply::SENDER_OK
    }

    fn rcpt(&mut self, recipient: &Recipient) -> Reply {
        let Some(transaction) = &mut self.transaction else {
            return if self.helo.is_none() { reply::HELLO_FIRST } else { reply::MAIL_FIRST };
        };
        let settings = &self.house.settings;
        let address = match self.house.judge(recipient) {
            Ok(address) => address,
            Err(refusal) => return refusal,
        };
        // A recipient named twice gets the letter once (RFC 5321 section 4.1.1.3 leaves it to us).
        let key = address.key();
        if transaction.rcpt_to.iter().any(|known| known.key() == key) {
            return reply::RECIPIENT_OK;
        }
        if transaction.rcpt_to.len() >= settings.limits.recipients_max {
            return reply::TOO_MANY_RECIPIENTS;
        }
        transaction.rcpt_to.push(address);
        reply::RECIPIENT_OK
    }

    async fn data(&mut self) -> Result<Next, Cut> {
        let transaction = match self.transaction.take() {
            Some(transaction) if !transaction.rcpt_to.is_empty() => transaction,
            Some(transaction) => {
                self.transaction = Some(transaction);
                return Ok(self.answer(reply::NO_RECIPIENT));
            }
            None if self.helo.is_none() => return Ok(self.answer(reply::HELLO_FIRST)),
            None => return Ok(self.answer(reply::MAIL_FIRST)),
        };
        self.wire.reply(reply::SEND_LETTER);
        let limits = &self.house.settings.limits;
        let memory = self.house.memory.clone();
        let mut reader = LetterReader::new(limits.letter_bytes_max, limits.line_bytes_max, memory);
        match self.wire.letter(&mut reader).await? {
            End::Whole(bytes) => {
                let verdict = self.store(transaction, bytes).await;
                Ok(self.answer(verdict))
            }
            End::Unfit(fault) => Ok(self.answer(fault_reply(fault))),
            End::Broken(fault) => {
                self.wire.reply(fault_reply(fault));
                Ok(HANG_UP)
            }
        }
    }

    /// Knocks at the door. The bytes go in exactly as they came.
    async fn store(&mut self, transaction: Transaction, bytes: Vec<u8>) -> Reply {
        let (size, recipients) = (bytes.len(), transaction.rcpt_to.len());
        let envelope = Envelope {
            mail_from: transaction.mail_from,
            rcpt_to: transaction.rcpt_to,
            helo: self.helo.clone().unwrap_or_default(),
            peer: self.peer,
            via: Via::Smtp,
            arrival: Arrival::default(),
        };
        match self.house.door.accept(Letter { envelope, bytes }).await {
            Ok(accepted) => {
                tracing::info!(bytes = size, recipients, "a letter came by SMTP");
                self.errors = 0;
                self.stored += 1;
                if accepted.needs_confirmation {
                    self.unconfirmed = Some((accepted, self.wire.reads));
                }
                reply::STORED
            }
            Err(refusal) => {
                let error = &refusal as &dyn std::error::Error;
                tracing::info!(bytes = size, recipients, error, "a letter by SMTP was refused");
                refusal_reply(&refusal)
            }
        }
    }
}

impl House {
    /// The address that a recipient is stored under, or the refusal.
    fn judge(&self, recipient: &Recipient) -> Result<Address, Reply> {
        let address = match recipient {
            Recipient::Postmaster => {
                Address::parse(&format!("postmaster@{}", self.settings.mail_domain)).ok()
            }
            Recipient::Mailbox(mailbox) => mailbox.address(),
        };
        let relay = |mailbox: &Mailbox| match mailbox.neighbour().map(|n| self.door.recipient(&n)) {
            None | Some(RecipientVerdict::NotOurs) => true,
            Some(_) => mailbox.asks_for_relay(),
        };
        match (address.as_ref().map(|address| self.door.recipient(address)), recipient) {
            (Some(RecipientVerdict::Persona(_)), _) => address.ok_or(reply::NOBODY_HERE),
            (_, Recipient::Mailbox(mailbox)) if relay(mailbox) => Err(reply::NO_RELAY),
            _ => Err(reply::NOBODY_HERE),
        }
    }
}

fn fault_reply(fault: Fault) -> Reply {
    match fault {
        Fault::TooLarge => reply::TOO_LARGE,
        Fault::LineTooLong => reply::LETTER_LINE_TOO_LONG,
        Fault::NoMemory => reply::NO_ROOM,
        Fault::BareNewline => reply::BARE_NEWLINE,
        Fault::Nul => reply::NUL_IN_LETTER,
    }
}

fn refusal_reply(refusal: &Refusal) -> Reply {
    match refusal {
        Refusal::TooLarge { .. } => reply::TOO_LARGE,
        Refusal::Hostile(_) => reply::HOSTILE,
        Refusal::Denied => reply::SENDER_DENIED,
        Refusal::NobodyAddressed => reply::NOBODY_HERE,
        Refusal::NotStored(_) => reply::NOT_STORED,
    }
}
