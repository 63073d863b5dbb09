//! From a host name to a logged-in session: TCP, TLS, greeting, login.

use super::connection::{ImapConnection, Stream};
use super::error::{MailboxError, server_text};
use super::formatting::quoted;
use super::session::ImapSession;
use super::timeouts::ImapTimeouts;
use super::token::MailboxTokens;
use crate::config::{ImapMailbox, MailTls, MailboxLogin};
use crate::web::tls_provider;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use imap_proto::{Response, Status};
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls_platform_verifier::Verifier;
use secrecy::{ExposeSecret, SecretString};
use std::io;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Opens a logged-in session with known capabilities. `tokens` is present for logins by OAuth.
pub(super) async fn dial(
    mailbox: &ImapMailbox,
    letter_bytes_max: usize,
    timeouts: &ImapTimeouts,
    tokens: Option<&mut MailboxTokens>,
) -> Result<ImapSession, MailboxError> {
    let connecting = connect(mailbox, letter_bytes_max, timeouts);
    let mut session = connecting.await?;
    log_in(&mut session, mailbox, tokens).await?;
    // The capabilities change with the login.
    session.ask_capabilities().await?;
    session.say_who_asks().await?;
    Ok(session)
}

async fn connect(
    mailbox: &ImapMailbox,
    letter_bytes_max: usize,
    timeouts: &ImapTimeouts,
) -> Result<ImapSession, MailboxError> {
    let dialled = TcpStream::connect((mailbox.host.as_str(), mailbox.port));
    let tcp = timeout(timeouts.connect_max, dialled)
        .await
        .map_err(|_| MailboxError::Silent)?;
    let tcp = tcp.map_err(MailboxError::Unreachable)?;
    let _best_effort = tcp.set_nodelay(true);
    let connection = |stream: Box<dyn Stream>| {
        ImapConnection::new(stream, letter_bytes_max, timeouts.silence_max)
    };
    let stream: Box<dyn Stream> = match mailbox.tls {
        MailTls::Implicit => secure(Box::new(tcp), mailbox, timeouts).await?,
        MailTls::StartTls => {
            let mut clear = greeted(connection(Box::new(tcp)), timeouts).await?;
            match clear.run("STARTTLS", "STARTTLS", |_| ()).await {
                Err(MailboxError::Refused { .. }) => {
                    return Err(MailboxError::Unusable(
                        "the server has no STARTTLS, and nothing is said in clear",
                    ));
                }
                started => started?,
            }
            let stream = secure(clear.into_wire().into_stream()?, mailbox, timeouts).await?;
            // No second greeting follows (RFC 9051 section 6.2.1).
            let mut session = ImapSession::new(connection(stream), timeouts);
            session.ask_capabilities().await?;
            return Ok(session);
        }
        MailTls::None => Box::new(tcp),
    };
    let mut session = greeted(connection(stream), timeouts).await?;
    session.ask_capabilities().await?;
    Ok(session)
}

/// Reads the greeting. A server that accepts the session without a login (`PREAUTH`) is not the
/// intended one, and before STARTTLS it would prevent encryption.
async fn greeted(
    mut connection: ImapConnection<Box<dyn Stream>>,
    timeouts: &ImapTimeouts,
) -> Result<ImapSession, MailboxError> {
    let greeting = connection.receive(|response| match response {
        Response::Data {
            status: Status::Ok, ..
        } => Ok(()),
        Response::Data {
            status: Status::Bye,
            outcome,
        } => Err(MailboxError::Bye(server_text(
            outcome.information.as_deref(),
        ))),
        Response::Data {
            status: Status::PreAuth,
            ..
        } => Err(MailboxError::Unusable(
            "the server greets with PREAUTH, as if we were somebody already",
        )),
        _ => Err(MailboxError::Garbled),
    });
    greeting.await??;
    Ok(ImapSession::new(connection, timeouts))
}

async fn secure(
    stream: Box<dyn Stream>,
    mailbox: &ImapMailbox,
    timeouts: &ImapTimeouts,
) -> Result<Box<dyn Stream>, MailboxError> {
    let tls = |error: io::Error| MailboxError::Tls(error);
    let name =
        ServerName::try_from(mailbox.host.clone()).map_err(|error| tls(io::Error::other(error)))?;
    let connector = TlsConnector::from(Arc::new(client_config(mailbox).map_err(tls)?));
    let shaking = connector.connect(name, stream);
    let secured = timeout(timeouts.connect_max, shaking)
        .await
        .map_err(|_| MailboxError::Silent)?;
    Ok(Box::new(secured.map_err(tls)?))
}

/// Builds a TLS configuration from the system's certificate authorities and that of `ca_file`. Read
/// for every connection: both may change.
fn client_config(mailbox: &ImapMailbox) -> io::Result<ClientConfig> {
    let provider = tls_provider();
    let mut extra = Vec::new();
    if let Some(file) = &mailbox.ca_file {
        let unreadable =
            |error| io::Error::other(format!("cannot read `{}`: {error}", file.display()));
        for certificate in CertificateDer::pem_file_iter(file).map_err(unreadable)? {
            extra.push(certificate.map_err(unreadable)?);
        }
    }
    let verifier =
        Verifier::new_with_extra_roots(extra, provider.clone()).map_err(io::Error::other)?;
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    Ok(config.with_no_client_auth())
}

async fn log_in(
    session: &mut ImapSession,
    mailbox: &ImapMailbox,
    tokens: Option<&mut MailboxTokens>,
) -> Result<(), MailboxError> {
    let (MailboxLogin::OAuth(_), Some(tokens)) = (&mailbox.login, tokens) else {
        let MailboxLogin::Password(password) = &mailbox.login else {
            return Err(MailboxError::Unusable("this login needs tokens"));
        };
        return by_password(session, &mailbox.user, password).await;
    };
    let token = tokens.access().await?;
    match by_token(session, &mailbox.user, &token).await {
        // The token may have been revoked before its expiry: one retry with a new token decides.
        Err(MailboxError::LoginRefused(_)) => {
            tokens.forget();
            let token = tokens.access().await?;
            by_token(session, &mailbox.user, &token).await
        }
        done => done,
    }
}

async fn by_password(
    session: &mut ImapSession,
    user: &str,
    password: &SecretString,
) -> Result<(), MailboxError> {
    let password = password.expose_secret();
    if session.can("AUTH=PLAIN") {
        let answer = STANDARD.encode(format!("\0{user}\0{password}"));
        return judged(
            session
                .serve("AUTHENTICATE", "AUTHENTICATE PLAIN", &[answer], |_| ())
                .await,
        );
    }
    let is_plain_line = |text: &str| text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if session.can("LOGINDISABLED") {
        return Err(MailboxError::Unusable(
            "the server offers no login with a password",
        ));
    }
    if !is_plain_line(user) || !is_plain_line(password) {
        return Err(MailboxError::Unusable(
            "the server has no AUTH=PLAIN, which this user or password needs",
        ));
    }
    let line = format!("LOGIN {} {}", quoted(user), quoted(password));
    judged(session.run("LOGIN", &line, |_| ()).await)
}

async fn by_token(
    session: &mut ImapSession,
    user: &str,
    token: &SecretString,
) -> Result<(), MailboxError> {
    // Google's and Microsoft's mechanism; RFC 7628 has an equivalent under another name.
    let answer = STANDARD.encode(format!(
        "user={user}\x01auth=Bearer {}\x01\x01",
        token.expose_secret()
    ));
    judged(
        session
            .serve("AUTHENTICATE", "AUTHENTICATE XOAUTH2", &[answer], |_| ())
            .await,
    )
}

fn judged(login: Result<(), MailboxError>) -> Result<(), MailboxError> {
    match login {
        Err(MailboxError::Refused { text, .. }) => Err(MailboxError::LoginRefused(text)),
        done => done,
    }
}
