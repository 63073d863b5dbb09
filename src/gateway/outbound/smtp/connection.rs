//! One connection to the smarthost: the phases of RFC 5321 over lettre's connection, each with its
//! own timeout.
//!
//! lettre provides the codec, the reply parser and AUTH; TLS is below it (see [`super::stream`]).
//! Its `send` is not used: it has no timeouts per phase, returns one result for all recipients, and
//! cannot tell a loss before the final dot from one after it. Absent on purpose: the effect of a
//! fault on a mail ([`super`] decides), retries, pipelining.

use super::super::TransportPhase;
use super::fault::{ServerReply, SmtpFault, too_slow, unexpected};
use super::stream::SharedStream;
use super::timeouts::SmtpTimeouts;
use crate::config::MailTls;
use crate::gateway::authentication::why_no_tls;
use crate::store::{ClaimedDelivery, DeliveryKind};
use futures_util::FutureExt;
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::commands::{Data, Quit, Rset, Starttls};
use lettre::transport::smtp::extension::{ClientId, Extension};
use rustls::pki_types::ServerName;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Bytes of the mail that [`SmtpTimeouts::data_block`] covers.
const BLOCK_BYTES: usize = 64 * 1024;

/// TLS connector and the name that the certificate must have.
pub(super) struct TlsSetup {
    pub connector: TlsConnector,
    pub server: ServerName<'static>,
}

/// Address of the smarthost and parameters of the connection.
pub(super) struct Peer {
    pub host: String,
    pub port: u16,
    pub tls: MailTls,
    /// Present unless `tls` is `None`.
    pub tls_setup: Option<TlsSetup>,
    pub hello: ClientId,
    pub credentials: Option<Credentials>,
    pub timeouts: SmtpTimeouts,
}

/// Extensions that lettre does not parse.
#[derive(Debug, Clone, Copy)]
struct PeerExtensions {
    /// RFC 1870.
    size: bool,
    /// RFC 3461.
    dsn: bool,
}

impl PeerExtensions {
    /// Parses the lines of the reply to EHLO, with their codes.
    fn from_reply(reply: &[String]) -> Self {
        let keyword = |line: &String| {
            line.get(4..)
                .and_then(|extensions| extensions.split(' ').next())
                .map(str::to_uppercase)
        };
        let has = |wanted: &str| {
            reply
                .iter()
                .skip(1)
                .any(|line| keyword(line).as_deref() == Some(wanted))
        };
        Self {
            size: has("SIZE"),
            dsn: has("DSN"),
        }
    }
}

pub(super) struct OutboundConnection {
    smtp: AsyncSmtpConnection,
    timeouts: SmtpTimeouts,
    offers: PeerExtensions,
    /// Number of mails that were tried over it.
    pub mails: u32,
    /// Monotonic time.
    pub idle_since: Duration,
}

impl OutboundConnection {
    /// Connects, starts TLS, sends EHLO and authenticates. Every fault but refused credentials is
    /// [`SmtpFault::Unavailable`].
    pub async fn open(peer: &Peer) -> Result<Self, SmtpFault> {
        Self::open_noting(peer, &mut TransportPhase::Connect).await
    }

    /// As [`Self::open`]; `phase` is left at the phase that was reached.
    pub async fn open_noting(peer: &Peer, phase: &mut TransportPhase) -> Result<Self, SmtpFault> {
        // lettre's EHLO parser panics on a line of blanks; a server must not be able to crash our
        // task.
        let opening = AssertUnwindSafe(Self::open_phases(peer, phase)).catch_unwind();
        opening
            .await
            .unwrap_or_else(|_panic| {
                Err(SmtpFault::broken(
                    "the server's EHLO reply cannot be parsed",
                ))
            })
            .map_err(SmtpFault::into_unavailable)
    }

    async fn open_phases(peer: &Peer, phase: &mut TransportPhase) -> Result<Self, SmtpFault> {
        let limits = peer.timeouts;
        let tcp = tcp(peer).await?;
        let stream = match (peer.tls, &peer.tls_setup) {
            (MailTls::None, _) => SharedStream::plain(tcp),
            (MailTls::StartTls, Some(setup)) => {
                let tcp = start_tls(peer, tcp, phase).await?;
                SharedStream::tls_after_greeting(handshake(setup, tcp, limits.greeting).await?)
            }
            (MailTls::Implicit, Some(setup)) => {
                *phase = TransportPhase::Tls;
                SharedStream::tls(handshake(setup, tcp, limits.greeting).await?)
            }
            (_, None) => return Err(SmtpFault::broken("TLS is wanted and not set up")),
        };
        *phase = TransportPhase::Greeting;
        let (mut smtp, stream) = greet(peer, stream).await?;
        if peer.tls != MailTls::None && !stream.is_tls() {
            return Err(SmtpFault::broken("the connection is not encrypted"));
        }
        let offers = PeerExtensions::from_reply(&stream.reply());
        if let Some(credentials) = &peer.credentials {
            *phase = TransportPhase::Login;
            authenticate(&mut smtp, credentials, limits.command).await?;
        }
        Ok(Self {
            smtp,
            timeouts: limits,
            offers,
            mails: 0,
            idle_since: Duration::ZERO,
        })
    }

    /// Reports whether the server accepts 8-bit bytes.
    pub fn takes_eight_bit(&self) -> bool {
        self.smtp
            .server_info()
            .supports_feature(Extension::EightBitMime)
    }

    /// Sends MAIL with the parameters that the server offers. The mail's envelope is checked.
    pub async fn mail(&mut self, mail: &ClaimedDelivery) -> Result<ServerReply, SmtpFault> {
        let sender = &mail.envelope_from;
        let size = if self.offers.size {
            format!(" SIZE={}", mail.bytes.len())
        } else {
            String::new()
        };
        let body = if self.takes_eight_bit() && !mail.bytes.is_ascii() {
            " BODY=8BITMIME"
        } else {
            ""
        };
        // RFC 3461 sections 4.3 and 4.4: a report need not return the whole mail, and it names the
        // delivery. Our ids have no character that xtext would have to encode.
        let report = if self.offers.dsn {
            format!(" RET=HDRS ENVID={}", mail.id)
        } else {
            String::new()
        };
        let limit = self.timeouts.command;
        self.command(
            limit,
            2,
            format!("MAIL FROM:<{sender}>{size}{body}{report}\r\n"),
        )
        .await
    }

    /// Sends MAIL for a checked address and resets the transaction.
    pub async fn ask_sender(&mut self, sender: &str) -> Result<(), SmtpFault> {
        let limit = self.timeouts.command;
        self.command(limit, 2, format!("MAIL FROM:<{sender}>\r\n"))
            .await?;
        self.rset().await?;
        Ok(())
    }

    /// Sends RCPT; `recipient` is a checked address of this mail.
    pub async fn rcpt(
        &mut self,
        mail: &ClaimedDelivery,
        recipient: &str,
    ) -> Result<ServerReply, SmtpFault> {
        // RFC 3461 section 4.1. A report about a notice has no use, and without a sender it could
        // not be delivered.
        let unheard = mail.kind == DeliveryKind::Notice || mail.envelope_from.is_empty();
        let notify = match (self.offers.dsn, unheard) {
            (false, _) => "",
            (true, true) => " NOTIFY=NEVER",
            (true, false) => " NOTIFY=FAILURE,DELAY",
        };
        let limit = self.timeouts.command;
        self.command(limit, 2, format!("RCPT TO:<{recipient}>{notify}\r\n"))
            .await
    }

    pub async fn data(&mut self) -> Result<ServerReply, SmtpFault> {
        self.command(self.timeouts.data, 3, Data).await
    }

    pub async fn rset(&mut self) -> Result<ServerReply, SmtpFault> {
        self.command(self.timeouts.command, 2, Rset).await
    }

    /// Sends QUIT. The result does not matter: accepted mail stays accepted.
    pub async fn quit(mut self) {
        let _unheard = self.command(self.timeouts.quit, 2, Quit).await;
    }

    /// Sends the mail, dot-stuffed, and the final dot. The flag of an error is `true` if the final
    /// dot may have been sent.
    pub async fn message(&mut self, bytes: &[u8]) -> Result<ServerReply, (SmtpFault, bool)> {
        let (block_limit, done_limit) = (self.timeouts.data_block, self.timeouts.data_done);
        let progress = Notify::new();
        let dot_sent = AtomicBool::new(false);
        // lettre ends the data with its own CRLF; without this the mail would grow by an empty
        // line.
        let mut blocks = bytes
            .strip_suffix(b"\r\n")
            .unwrap_or(bytes)
            .chunks(BLOCK_BYTES);
        let observed = std::iter::from_fn(|| {
            // lettre requests a block when the previous one is written, and sends the dot when none
            // is left.
            progress.notify_one();
            let block = blocks.next();
            if block.is_none() {
                dot_sent.store(true, Ordering::SeqCst);
            }
            block
        });
        let mut sending = pin!(self.smtp.message_iter(observed));
        let fault = loop {
            let limit = if dot_sent.load(Ordering::SeqCst) {
                done_limit
            } else {
                block_limit
            };
            tokio::select! {
                biased;
                sent = &mut sending => match sent {
                    Ok(response) if u16::from(response.code()) / 100 == 2 => return Ok(response.into()),
                    Ok(response) => break unexpected(response),
                    Err(error) => break error.into(),
                },
                () = progress.notified() => {
                    crate::crash::crash_point!("O4", dot_sent.load(Ordering::SeqCst));
                }
                () = tokio::time::sleep(limit) => break too_slow(limit),
            }
        };
        Err((fault, dot_sent.load(Ordering::SeqCst)))
    }

    /// Sends one command; a positive reply of another class than `class` counts as unparseable.
    async fn command(
        &mut self,
        limit: Duration,
        class: u16,
        command: impl fmt::Display,
    ) -> Result<ServerReply, SmtpFault> {
        let response = bounded(limit, self.smtp.command(command)).await?;
        if u16::from(response.code()) / 100 == class {
            Ok(response.into())
        } else {
            Err(unexpected(response))
        }
    }
}

async fn bounded<T>(
    limit: Duration,
    phase: impl Future<Output = Result<T, SmtpError>>,
) -> Result<T, SmtpFault> {
    match timeout(limit, phase).await {
        Ok(result) => Ok(result?),
        Err(_elapsed) => Err(too_slow(limit)),
    }
}

async fn tcp(peer: &Peer) -> Result<TcpStream, SmtpFault> {
    let connecting = TcpStream::connect((peer.host.as_str(), peer.port));
    let connected = timeout(peer.timeouts.connect, connecting).await;
    let connected = connected.map_err(|_elapsed| too_slow(peer.timeouts.connect))?;
    let stream =
        connected.map_err(|error| SmtpFault::broken(format!("cannot connect: {error}")))?;
    // The mail and its final dot are two writes: Nagle's algorithm would delay the dot until an
    // acknowledgement that the server delays by 40 ms.
    stream
        .set_nodelay(true)
        .map_err(|error| SmtpFault::broken(format!("cannot connect: {error}")))?;
    Ok(stream)
}

/// Reads the greeting and sends EHLO.
async fn greet(
    peer: &Peer,
    stream: SharedStream,
) -> Result<(AsyncSmtpConnection, SharedStream), SmtpFault> {
    let greeting =
        AsyncSmtpConnection::connect_with_transport(Box::new(stream.clone()), &peer.hello);
    Ok((bounded(peer.timeouts.greeting, greeting).await?, stream))
}

/// Goes through the plain-text phases before STARTTLS. Extensions offered there do not count
/// afterwards.
async fn start_tls(
    peer: &Peer,
    tcp: TcpStream,
    phase: &mut TransportPhase,
) -> Result<TcpStream, SmtpFault> {
    *phase = TransportPhase::Greeting;
    let (mut smtp, stream) = greet(peer, SharedStream::plain(tcp)).await?;
    *phase = TransportPhase::Tls;
    if !smtp.can_starttls() {
        return Err(SmtpFault::broken(
            "the server offers no STARTTLS, and mail is not sent in clear (see `outbound.tls`)",
        ));
    }
    bounded(peer.timeouts.command, smtp.command(Starttls)).await?;
    drop(smtp);
    stream
        .into_plain()
        .ok_or_else(|| SmtpFault::broken("something was said in clear after the reply to STARTTLS"))
}

async fn handshake(
    setup: &TlsSetup,
    tcp: TcpStream,
    limit: Duration,
) -> Result<TlsStream<TcpStream>, SmtpFault> {
    let shaking = setup.connector.connect(setup.server.clone(), tcp);
    let shaken = timeout(limit, shaking)
        .await
        .map_err(|_elapsed| too_slow(limit))?;
    shaken.map_err(|error| SmtpFault::broken(format!("no TLS: {}", why_no_tls(&error))))
}

async fn authenticate(
    smtp: &mut AsyncSmtpConnection,
    credentials: &Credentials,
    limit: Duration,
) -> Result<(), SmtpFault> {
    let Err(error) = timeout(limit, smtp.auth(DEFAULT_MECHANISMS, credentials))
        .await
        .map_err(|_elapsed| too_slow(limit))?
    else {
        return Ok(());
    };
    // 454 is transient; every other refusal, and a server without a mechanism of ours, needs an
    // operator.
    let needs_a_person = error.is_permanent() || error.is_client();
    Err(match SmtpFault::from(error) {
        SmtpFault::Refused(reply) | SmtpFault::Broken(reply) if needs_a_person => {
            SmtpFault::Credentials(reply)
        }
        other => other,
    })
}
