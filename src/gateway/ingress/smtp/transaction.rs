//! One letter's envelope and its data: MAIL, RCPT, DATA.

use super::command::{EnvelopeMailbox, Mail, Recipient};
use super::connection::Disconnect;
use super::data::{DataEnd, DataFault, LetterReader};
use super::reply::{self, Reply};
use super::session::{GO_ON, HANG_UP, ServerContext, SessionFlow, SmtpSession, Transaction};
use crate::config::ListenerKind;
use crate::domain::{Address, Arrival, Envelope, Letter, Via};
use crate::gateway::intake_contract::{
    LetterIntake, RecipientVerdict, Refusal, SenderVerdict, Shortage, for_one_letter,
};
use std::net::IpAddr;
use tokio::io::{AsyncRead, AsyncWrite};

impl<S: AsyncRead + AsyncWrite + Unpin> SmtpSession<'_, S> {
    pub(super) fn mail(&mut self, mail: Mail) -> Reply {
        let intake = for_one_letter(&self.server.intake);
        if self.helo.is_none() {
            return self.hello_first();
        }
        if mail.has_auth && self.server.settings.submitters.is_none() {
            return reply::UNKNOWN_PARAMETER;
        }
        if self.transaction.is_some() {
            return reply::MAIL_AGAIN;
        }
        if mail
            .declared_bytes
            .is_some_and(|bytes| bytes > self.server.settings.limits.letter_bytes_max)
        {
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
        if intake.sender(mail_from.as_ref()) == SenderVerdict::Denied {
            let from = mail_from.as_ref().map(Address::to_string);
            let (remedy, peer) = (
                Refusal::Denied.remedy(),
                self.peer.map(|peer| peer.to_string()),
            );
            tracing::info!(
                from,
                reply = reply::SENDER_DENIED.code,
                remedy,
                peer,
                "a sender is refused"
            );
            return reply::SENDER_DENIED;
        }
        if !intake.has_room() {
            return reply::NO_ROOM;
        }
        self.transaction = Some(Transaction {
            intake,
            mail_from,
            rcpt_to: Vec::new(),
            accepted: 0,
        });
        reply::SENDER_OK
    }

    pub(super) fn rcpt(&mut self, recipient: &Recipient) -> Reply {
        crate::crash::crash_point!("I0");
        let first = if self.helo.is_none() {
            self.hello_first()
        } else {
            reply::MAIL_FIRST
        };
        let Some(transaction) = &mut self.transaction else {
            return first;
        };
        let settings = &self.server.settings;
        let address = match self.server.judge(recipient, transaction.intake.as_ref()) {
            Ok(address) => address,
            Err(refusal) => {
                log_refused_recipient(
                    recipient,
                    transaction.mail_from.as_ref(),
                    self.peer,
                    refusal,
                );
                return refusal;
            }
        };
        // A recipient named twice gets the letter once (RFC 5321 section 4.1.1.3 leaves it to the
        // server).
        let key = address.key();
        let is_known = transaction.rcpt_to.iter().any(|known| known.key() == key);
        // Under LMTP each mention gets its own reply after the data, so each counts.
        let is_counted = !is_known || settings.kind == ListenerKind::Lmtp;
        if is_counted && transaction.accepted >= settings.limits.recipients_max {
            return reply::TOO_MANY_RECIPIENTS;
        }
        transaction.accepted += usize::from(is_counted);
        if !is_known {
            transaction.rcpt_to.push(address);
        }
        reply::RECIPIENT_OK
    }

    pub(super) async fn data(&mut self) -> Result<SessionFlow, Disconnect> {
        let transaction = match self.transaction.take() {
            Some(transaction) if !transaction.rcpt_to.is_empty() => transaction,
            Some(transaction) => {
                self.transaction = Some(transaction);
                return Ok(self.answer(reply::NO_RECIPIENT));
            }
            None if self.helo.is_none() => {
                let hello_first = self.hello_first();
                return Ok(self.answer(hello_first));
            }
            None => return Ok(self.answer(reply::MAIL_FIRST)),
        };
        self.connection.reply(reply::SEND_LETTER);
        let limits = &self.server.settings.limits;
        // LMTP is for a mail server of ours (RFC 2033 section 3), which forwards mail of all
        // senders like a relay.
        let sharing = self
            .peer
            .filter(|_| self.server.settings.kind == ListenerKind::Smtp);
        let memory = self
            .server
            .settings
            .connection_limiter
            .memory
            .for_letter_of(sharing);
        let mut reader = LetterReader::new(limits.letter_bytes_max, limits.line_bytes_max, memory);
        let replies = match self.server.settings.kind {
            ListenerKind::Smtp => 1,
            // One for each accepted RCPT (RFC 2033 section 4.2). All copies are stored in one
            // commit, so all replies are equal.
            ListenerKind::Lmtp => transaction.accepted,
        };
        let (verdict, next) = match self.connection.letter(&mut reader).await? {
            DataEnd::Whole(bytes) => (self.store(transaction, bytes).await, GO_ON),
            DataEnd::Unfit(fault) => (self.unfit(&transaction, fault), GO_ON),
            DataEnd::Broken(fault) => (self.unfit(&transaction, fault), HANG_UP),
        };
        for _ in 1..replies {
            self.connection.reply(verdict);
        }
        let answered = self.answer(verdict);
        Ok(if answered == HANG_UP { HANG_UP } else { next })
    }

    /// The reply to data that is no letter; it does not reach the intake.
    fn unfit(&self, transaction: &Transaction, fault: DataFault) -> Reply {
        if matches!(fault, DataFault::NoMemory) {
            self.server.intake.short_of(Shortage::LetterMemory);
        }
        let refusal = fault_reply(fault);
        let from = transaction.mail_from.as_ref().map(Address::to_string);
        let to = transaction
            .rcpt_to
            .iter()
            .map(Address::to_string)
            .collect::<Vec<_>>()
            .join(" ");
        let peer = self.peer.map(|peer| peer.to_string());
        tracing::info!(
            from,
            to,
            reply = refusal.code,
            why = refusal.text,
            peer,
            "a letter is refused"
        );
        refusal
    }

    /// Passes the letter to the intake, with its bytes unchanged.
    async fn store(&mut self, transaction: Transaction, bytes: Vec<u8>) -> Reply {
        let envelope = Envelope {
            mail_from: transaction.mail_from,
            rcpt_to: transaction.rcpt_to,
            helo: self.helo.clone().unwrap_or_default(),
            peer: self.peer,
            via: match self.server.settings.kind {
                ListenerKind::Smtp => Via::Smtp,
                ListenerKind::Lmtp => Via::Lmtp,
            },
            arrival: Arrival {
                submitted_by: self.submitter.clone(),
                encrypted: self.connection.is_encrypted(),
                extended: self.is_extended,
                ..Arrival::default()
            },
        };
        match transaction.intake.accept(Letter { envelope, bytes }).await {
            Ok(accepted) => {
                self.errors = 0;
                self.stored += 1;
                self.brought_at = self.server.settings.connection_limiter.clock.monotonic();
                self.server
                    .settings
                    .connection_limiter
                    .open_connections
                    .remember(self.peer);
                if accepted.needs_confirmation {
                    self.unconfirmed = Some((accepted, self.connection.reads));
                }
                reply::STORED
            }
            Err(refusal) => refusal_reply(&refusal),
        }
    }
}

impl ServerContext {
    /// The address under which a recipient is stored, or the refusal.
    fn judge(&self, recipient: &Recipient, intake: &dyn LetterIntake) -> Result<Address, Reply> {
        let address = match recipient {
            Recipient::Postmaster => {
                Address::parse(&format!("postmaster@{}", self.settings.mail_domain)).ok()
            }
            Recipient::Mailbox(mailbox) => mailbox.address(),
        };
        let relay =
            |mailbox: &EnvelopeMailbox| match mailbox.neighbour().map(|n| intake.recipient(&n)) {
                None | Some(RecipientVerdict::NotOurs) => true,
                Some(_) => mailbox.asks_for_relay(),
            };
        match (
            address.as_ref().map(|address| intake.recipient(address)),
            recipient,
        ) {
            (Some(RecipientVerdict::Persona(_)), _) => address.ok_or(reply::NOBODY_HERE),
            (_, Recipient::Mailbox(mailbox)) if relay(mailbox) => Err(reply::NO_RELAY),
            (Some(RecipientVerdict::OutOfService), _) => Err(reply::OUT_OF_SERVICE),
            _ => Err(reply::NOBODY_HERE),
        }
    }
}

/// Logs a refused recipient: a letter without any recipient has no other line in the log.
fn log_refused_recipient(
    recipient: &Recipient,
    mail_from: Option<&Address>,
    peer: Option<IpAddr>,
    refusal: Reply,
) {
    let from = mail_from.map_or_else(|| "<>".to_owned(), Address::to_string);
    let to = match recipient {
        Recipient::Postmaster => "postmaster".to_owned(),
        Recipient::Mailbox(mailbox) => mailbox.to_string(),
    };
    let (peer, reply) = (peer.map(|peer| peer.to_string()), refusal.code);
    let remedy = match refusal {
        reply::OUT_OF_SERVICE => Refusal::OutOfService.remedy(),
        reply::NO_RELAY => "the domain is none of this engine's: mail elsewhere is not taken",
        _ => {
            "no persona has that address: `attache persona list` shows theirs, `aliases` in `persona.json` adds one"
        }
    };
    tracing::info!(from, to, reply, remedy, peer, "a recipient is refused");
}

fn fault_reply(fault: DataFault) -> Reply {
    match fault {
        DataFault::TooLarge => reply::TOO_LARGE,
        DataFault::LineTooLong => reply::LETTER_LINE_TOO_LONG,
        DataFault::NoMemory => reply::NO_ROOM,
        DataFault::BareNewline => reply::BARE_NEWLINE,
        DataFault::Nul => reply::NUL_IN_LETTER,
    }
}

fn refusal_reply(refusal: &Refusal) -> Reply {
    match refusal {
        Refusal::TooLarge { .. } => reply::TOO_LARGE,
        Refusal::Hostile(_) => reply::HOSTILE,
        Refusal::Denied | Refusal::Disowned => reply::SENDER_DENIED,
        Refusal::Unverifiable => reply::CANNOT_VERIFY_NOW,
        Refusal::OutOfService => reply::OUT_OF_SERVICE,
        Refusal::NobodyAddressed => reply::NOBODY_HERE,
        Refusal::TooMuch => reply::NO_ROOM,
        Refusal::NotStored(_) => reply::NOT_STORED,
    }
}
