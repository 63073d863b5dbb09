//! The smarthost transport: a few cached connections, one SMTP transaction per mail, a verdict per
//! recipient.
//!
//! | event | result |
//! | --- | --- |
//! | no connection, no TLS, no greeting, 421 | deferred, and the transport is unreachable |
//! | 530 or 535, or no AUTH mechanism of ours | deferred, and the credentials are refused |
//! | 4xx, timeout, connection lost, unparseable reply | deferred |
//! | 5xx to RCPT | failed for that recipient; deferred when it means "too many recipients" |
//! | 5xx to MAIL, DATA or the end of data | failed for every open recipient |
//! | connection lost or timeout after the final dot | deferred, and a copy may exist |
//!
//! Absent on purpose: MX lookup, pipelining, fallback from TLS to plain text, converting bodies.

mod connection;
mod fault;
mod stream;
mod timeouts;

pub use timeouts::SmtpTimeouts;

use super::{
    Checked, Obstacle, PointOfNoReturn, RecipientResult, Setup, SetupError, Transport,
    TransportAttempt, TransportCondition, TransportPhase, printable,
};
use crate::clock::Clock;
use crate::config::TransportSettings;
use crate::config::{MailTls, Smarthost, is_loopback_host};
use crate::domain::Address;
use crate::store::{ClaimedDelivery, RecipientState};
use crate::web::tls_provider;
use connection::{OutboundConnection, Peer, TlsSetup};
use fault::{ServerReply, SmtpFault};
use futures_util::future::{BoxFuture, join_all};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::extension::ClientId;
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls_platform_verifier::Verifier;
use secrecy::ExposeSecret;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_rustls::TlsConnector;

/// Idle time after which a connection is closed: servers count idle clients against us.
const IDLE_MAX: Duration = Duration::from_secs(5);
/// Maximum mails over one connection; many servers close it after about as many.
const MAILS_PER_CONNECTION_MAX: u32 = 100;

/// Timeout of a check of the transport.
const CHECK_MAX: Duration = Duration::from_secs(30);

pub struct SmtpTransport {
    peer: Peer,
    connections_max: usize,
    idle: Mutex<Vec<OutboundConnection>>,
    clock: Arc<dyn Clock>,
}

/// Builds this transport if the settings name it.
pub(super) fn build(setup: &Setup<'_>) -> Option<Result<Arc<dyn Transport>, SetupError>> {
    let TransportSettings::Smarthost(smarthost) = setup.transport else {
        return None;
    };
    let options = Options::default();
    Some(
        match SmtpTransport::new(smarthost, setup.host_name, setup.clock.clone(), &options) {
            Ok(transport) => Ok(Arc::new(transport)),
            Err(error) => Err(error),
        },
    )
}

/// Options that are not in the settings.
#[derive(Default)]
pub struct Options {
    pub timeouts: SmtpTimeouts,
    /// A certificate authority in PEM that is trusted in addition to the system's.
    pub extra_root_pem: Option<Vec<u8>>,
}

impl SmtpTransport {
    /// Errors: [`SetupError::ClearText`] for a remote host without TLS, [`SetupError::Tls`].
    pub fn new(
        smarthost: &Smarthost,
        host_name: &str,
        clock: Arc<dyn Clock>,
        options: &Options,
    ) -> Result<Self, SetupError> {
        let connections_max = smarthost.connections_max.max(1);
        let credentials = smarthost.credentials.as_ref().map(|(user, password)| {
            Credentials::new(user.clone(), password.expose_secret().to_owned())
        });
        let peer = Peer {
            host: smarthost.host.clone(),
            port: smarthost.port,
            tls: smarthost.tls,
            tls_setup: tls_setup(smarthost, options.extra_root_pem.as_deref())?,
            hello: ClientId::Domain(host_name.to_owned()),
            credentials,
            timeouts: options.timeouts,
        };
        Ok(Self {
            peer,
            connections_max,
            idle: Mutex::default(),
            clock,
        })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<OutboundConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the connection that was used last, unless it was idle for too long.
    fn reuse(&self) -> Option<OutboundConnection> {
        let now = self.clock.monotonic();
        let connection = self.idle().pop()?;
        // `close_idle` closes a connection that is too old, together with older ones; here it would
        // be unreliable.
        if now.saturating_sub(connection.idle_since) < IDLE_MAX {
            Some(connection)
        } else {
            None
        }
    }

    /// Caches a connection for the next mail, in a state in which MAIL is the next command.
    async fn keep(&self, mut connection: OutboundConnection, transaction_open: bool) {
        if connection.mails >= MAILS_PER_CONNECTION_MAX {
            return connection.quit().await;
        }
        if transaction_open && connection.rset().await.is_err() {
            return;
        }
        connection.idle_since = self.clock.monotonic();
        self.idle().push(connection);
    }

    /// Connects, starts TLS, logs in, and checks that each sender may send.
    async fn look(
        &self,
        senders: &[String],
        phase: &mut TransportPhase,
    ) -> Result<Vec<String>, SmtpFault> {
        let mut connection = OutboundConnection::open_noting(&self.peer, phase).await?;
        let tls = if self.peer.tls == MailTls::None {
            "connected without TLS"
        } else {
            "connected, TLS verified"
        };
        let mut seen = vec![tls.to_owned()];
        seen.push(match self.peer.credentials {
            Some(_) => "logged in".to_owned(),
            None => "not logged in: no `user` is configured".to_owned(),
        });
        *phase = TransportPhase::Sender;
        for sender in senders {
            let asked = connection.ask_sender(sender).await;
            if let Err(SmtpFault::Refused(reply)) = asked {
                let text = format!("<{sender}>: {}", reply.text);
                connection.quit().await;
                return Err(SmtpFault::Refused(ServerReply { text, ..reply }));
            }
            asked?;
            seen.push(format!("takes mail from <{sender}>"));
        }
        connection.quit().await;
        Ok(seen)
    }

    async fn send_mail(
        &self,
        mail: &ClaimedDelivery,
        point: &dyn PointOfNoReturn,
    ) -> TransportAttempt {
        let mut transaction = OutboundTransaction::new(mail);
        if transaction.open.is_empty() {
            return transaction.finish(None);
        }
        loop {
            let (mut connection, reused) = match self.reuse() {
                Some(connection) => (connection, true),
                None => match OutboundConnection::open(&self.peer).await {
                    Ok(connection) => (connection, false),
                    Err(fault) => return transaction.finish(Some(fault)),
                },
            };
            connection.mails += 1;
            let fault = transaction.run(&mut connection, point).await.err();
            let stale = matches!(
                fault,
                Some(SmtpFault::Broken(_) | SmtpFault::Unavailable(_))
            );
            if stale && reused && !transaction.begun {
                // The server had closed it meanwhile, before any command of this mail. Each
                // iteration uses up one connection.
                continue;
            }
            if matches!(fault, None | Some(SmtpFault::Refused(_))) {
                self.keep(connection, transaction.begun && !transaction.completed)
                    .await;
            }
            return transaction.finish(fault);
        }
    }
}

impl Transport for SmtpTransport {
    fn name(&self) -> String {
        self.peer.host.clone()
    }

    fn connections_max(&self) -> usize {
        self.connections_max
    }

    fn send<'a>(
        &'a self,
        mail: &'a ClaimedDelivery,
        point: &'a dyn PointOfNoReturn,
    ) -> BoxFuture<'a, TransportAttempt> {
        Box::pin(self.send_mail(mail, point))
    }

    fn check<'a>(&'a self, senders: &'a [String]) -> BoxFuture<'a, Result<Checked, Obstacle>> {
        Box::pin(async move {
            let to = format!("{}:{}", self.peer.host, self.peer.port);
            let mut phase = TransportPhase::Connect;
            // A user waits: the timeouts of a mail would be too long.
            let checked = tokio::time::timeout(CHECK_MAX, self.look(senders, &mut phase)).await;
            let reply = match checked {
                Ok(Ok(seen)) => return Ok(Checked { to, seen }),
                Ok(Err(fault)) => fault.reply().to_string(),
                Err(_elapsed) => format!("no reply within {CHECK_MAX:?}"),
            };
            Err(Obstacle {
                to,
                at: phase,
                reply: printable(&reply),
            })
        })
    }

    fn close_idle(&self, all: bool) -> BoxFuture<'_, ()> {
        let now = self.clock.monotonic();
        let old = |connection: &mut OutboundConnection| {
            all || now.saturating_sub(connection.idle_since) >= IDLE_MAX
        };
        let closing: Vec<OutboundConnection> = self.idle().extract_if(.., old).collect();
        Box::pin(async move {
            join_all(closing.into_iter().map(OutboundConnection::quit)).await;
        })
    }
}

/// One mail over one connection.
struct OutboundTransaction<'m> {
    mail: &'m ClaimedDelivery,
    verdicts: Vec<(String, RecipientResult)>,
    /// Recipients without a verdict.
    open: Vec<&'m str>,
    /// `true`: the server answered MAIL.
    begun: bool,
    /// `true`: the server answered the end of data, so that there is nothing to reset.
    completed: bool,
    possible_duplicate: bool,
}

impl<'m> OutboundTransaction<'m> {
    /// Fails mail that must not reach a server: addresses that could contain commands, line ends
    /// that servers parse differently (RFC 5321 section 2.3.8).
    fn new(mail: &'m ClaimedDelivery) -> Self {
        let unsendable = if !has_clean_line_ends(&mail.bytes) {
            Some("the mail has a bare CR or LF")
        } else if !mail.envelope_from.is_empty() && Address::parse(&mail.envelope_from).is_err() {
            Some("the envelope sender is not a mail address")
        } else {
            None
        };
        let (mut open, mut verdicts) = (Vec::new(), Vec::new());
        for recipient in &mail.recipients {
            let illegal = Address::parse(recipient)
                .is_err()
                .then_some("not a mail address");
            match unsendable.or(illegal) {
                Some(why) => verdicts.push((recipient.clone(), RecipientResult::failed(None, why))),
                None => open.push(recipient.as_str()),
            }
        }
        Self {
            mail,
            verdicts,
            open,
            begun: false,
            completed: false,
            possible_duplicate: false,
        }
    }

    /// Goes through the phases. A fault concerns every recipient that is still open; after `Ok`
    /// there is none.
    async fn run(
        &mut self,
        connection: &mut OutboundConnection,
        point: &dyn PointOfNoReturn,
    ) -> Result<(), SmtpFault> {
        if !self.mail.bytes.is_ascii() && !connection.takes_eight_bit() {
            // RFC 6152 section 3. The bytes are final, so they are not converted.
            self.resolve_recipients(
                RecipientState::Failed,
                &local("the server takes no 8-bit mail"),
            );
            return Ok(());
        }
        let answer = connection.mail(self.mail).await;
        self.begun = matches!(answer, Ok(_) | Err(SmtpFault::Refused(_)));
        answer?;
        self.recipients(connection).await?;
        if self.open.is_empty() {
            return Ok(());
        }
        connection.data().await?;
        crate::crash::crash_point!("O3");
        if let Err(error) = point.pass().await {
            // Without the final dot the server has no mail; the connection must be closed.
            return Err(SmtpFault::Broken(local(&format!("not sent: {error}"))));
        }
        match connection.message(&self.mail.bytes).await {
            Ok(reply) => {
                crate::crash::crash_point!("O5");
                self.completed = true;
                self.resolve_recipients(RecipientState::Delivered, &reply);
                Ok(())
            }
            Err((fault, dot_sent)) => {
                self.completed = matches!(fault, SmtpFault::Refused(_));
                match fault {
                    SmtpFault::Broken(reply) if dot_sent => {
                        self.possible_duplicate = true;
                        let text = format!("no answer to the whole mail: {}", reply.text);
                        Err(SmtpFault::Broken(local(&text)))
                    }
                    fault => Err(fault),
                }
            }
        }
    }

    /// Sends one RCPT for each open recipient; refused ones get their verdict.
    async fn recipients(&mut self, connection: &mut OutboundConnection) -> Result<(), SmtpFault> {
        let mut accepted = Vec::with_capacity(self.open.len());
        for recipient in self.open.clone() {
            match connection.rcpt(self.mail, recipient).await {
                Ok(_) => accepted.push(recipient),
                Err(SmtpFault::Refused(reply)) => {
                    // RFC 5321 section 4.5.3.1.10: 552 may be the old code for "too many
                    // recipients". It means that if its text says so, or if some recipients are
                    // accepted already; otherwise it concerns this recipient's mailbox.
                    let too_many = reply.code == Some(552)
                        && (!accepted.is_empty() || reply.text.starts_with("5.5.3"));
                    let verdict = match reply.code {
                        Some(code) if code >= 500 && !too_many => {
                            RecipientResult::failed(reply.code, &reply.text)
                        }
                        _ => RecipientResult::deferred(reply.code, &reply.text),
                    };
                    self.verdicts.push((recipient.to_owned(), verdict));
                }
                Err(fault) => {
                    self.open
                        .retain(|open| !self.verdicts.iter().any(|(settled, _)| settled == open));
                    return Err(fault);
                }
            }
        }
        self.open = accepted;
        Ok(())
    }

    fn resolve_recipients(&mut self, state: RecipientState, reply: &ServerReply) {
        let verdict = match state {
            RecipientState::Delivered => RecipientResult::delivered(reply.code, &reply.text),
            RecipientState::Failed => RecipientResult::failed(reply.code, &reply.text),
            _ => RecipientResult::deferred(reply.code, &reply.text),
        };
        self.verdicts.extend(
            self.open
                .drain(..)
                .map(|open| (open.to_owned(), verdict.clone())),
        );
    }

    fn finish(mut self, fault: Option<SmtpFault>) -> TransportAttempt {
        let mut health = TransportCondition::Well;
        if let Some(fault) = fault {
            let permanent =
                matches!(&fault, SmtpFault::Refused(reply) if reply.code.is_some_and(|c| c >= 500));
            health = match fault {
                SmtpFault::Unavailable(_) => TransportCondition::Unreachable,
                SmtpFault::Credentials(_) => TransportCondition::CredentialsRefused,
                // A server that takes whole mails and does not say so works for none.
                SmtpFault::Broken(_) if self.possible_duplicate => TransportCondition::Unreachable,
                SmtpFault::Refused(_) | SmtpFault::Broken(_) => TransportCondition::Well,
            };
            let state = if permanent {
                RecipientState::Failed
            } else {
                RecipientState::Deferred
            };
            self.resolve_recipients(state, fault.reply());
        }
        TransportAttempt {
            verdicts: self.verdicts,
            possible_duplicate: self.possible_duplicate,
            health,
        }
    }
}

fn local(text: &str) -> ServerReply {
    ServerReply {
        code: None,
        text: text.to_owned(),
    }
}

/// Reports whether CR and LF occur only together.
fn has_clean_line_ends(bytes: &[u8]) -> bool {
    let bare_lf = bytes
        .iter()
        .enumerate()
        .any(|(i, b)| *b == b'\n' && (i == 0 || bytes[i - 1] != b'\r'));
    let bare_cr = bytes
        .iter()
        .enumerate()
        .any(|(i, b)| *b == b'\r' && bytes.get(i + 1) != Some(&b'\n'));
    !bare_lf && !bare_cr
}

/// Builds the TLS setup; `None` for plain text. The system's certificate authorities are trusted,
/// and the given one in addition.
fn tls_setup(
    smarthost: &Smarthost,
    extra_root_pem: Option<&[u8]>,
) -> Result<Option<TlsSetup>, SetupError> {
    let host = || smarthost.host.clone();
    if smarthost.tls == MailTls::None {
        return if is_loopback_host(&smarthost.host) {
            Ok(None)
        } else {
            Err(SetupError::ClearText { host: host() })
        };
    }
    let failed = |source| SetupError::Tls {
        host: host(),
        source,
    };
    let unreadable = |_| {
        failed(rustls::Error::General(
            "a root certificate is not PEM".to_owned(),
        ))
    };
    let roots = CertificateDer::pem_slice_iter(extra_root_pem.unwrap_or_default());
    let roots = roots.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    let provider = tls_provider();
    let verifier = Verifier::new_with_extra_roots(roots, provider.clone()).map_err(failed)?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .dangerous() // rustls' name for any verifier but its own; this one uses the system's
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    let name = smarthost
        .host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    let unnamed = |_| {
        failed(rustls::Error::General(format!(
            "`{}` is not a host name",
            smarthost.host
        )))
    };
    let server = ServerName::try_from(name).map_err(unnamed)?;
    Ok(Some(TlsSetup {
        connector: TlsConnector::from(Arc::new(config)),
        server,
    }))
}
