//! A certificate made for one test, and a client that believes in it.

use super::client::{Client, PATIENCE, Stream, Way, connect, settings};
use crate::recording_intake::RecordingDoor;
use attache::clock::{Clock, ManualClock};
use attache::config::{Limits, Submitter, TlsFiles};
use attache::domain::{Address, Timestamp};
use attache::gateway::ingress::smtp::{Certificates, ServerContext, SmtpSettings, Submitters, Tls};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

pub struct Authority {
    _folder: tempfile::TempDir,
    pub files: TlsFiles,
    pub clock: Arc<ManualClock>,
}

impl Authority {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = TlsFiles {
            certificate: folder.path().join("house.pem"),
            key: folder.path().join("house.key"),
        };
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(0)));
        let authority = Self {
            _folder: folder,
            files,
            clock,
        };
        authority.issue();
        authority
    }

    /// Replaces certificate and key; gives the certificate.
    pub fn issue(&self) -> Vec<u8> {
        let made = rcgen::generate_simple_self_signed(["mx.engine.test".to_owned()]).unwrap();
        std::fs::write(&self.files.key, made.signing_key.serialize_pem()).unwrap();
        std::fs::write(&self.files.certificate, made.cert.pem()).unwrap();
        made.cert.der().to_vec()
    }

    pub fn certificates(&self) -> Arc<Certificates> {
        let clock: Arc<dyn Clock> = self.clock.clone();
        Certificates::load(self.files.clone(), clock).unwrap()
    }

    pub fn settings(&self, limits: Limits, is_implicit: bool) -> SmtpSettings {
        SmtpSettings {
            tls: Some(Tls {
                certificates: self.certificates(),
                is_implicit,
            }),
            ..settings(limits)
        }
    }

    /// With AUTH for Olga, whose password is `secret`.
    pub fn house(
        &self,
        intake: &Arc<RecordingDoor>,
        limits: Limits,
        is_implicit: bool,
    ) -> ServerContext {
        let olga = Submitter {
            user: "olga".to_owned(),
            address: Address::parse("olga@home.test").unwrap(),
            password: "secret".to_owned().into(),
        };
        let submitters = Some(Arc::new(Submitters::new(&[olga])));
        let settings = SmtpSettings {
            submitters,
            ..self.settings(limits, is_implicit)
        };
        ServerContext::new(intake.clone(), settings, CancellationToken::new())
    }

    /// A TLS handshake by a client that trusts what the file says now.
    pub async fn shake<S: Stream>(&self, stream: S) -> std::io::Result<TlsStream<S>> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(&self.files.certificate).unwrap())
            .unwrap();
        self.shake_with(stream, roots).await
    }

    pub async fn shake_with<S: Stream>(
        &self,
        stream: S,
        roots: RootCertStore,
    ) -> std::io::Result<TlsStream<S>> {
        let provider = attache::web::tls_provider();
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from("mx.engine.test").unwrap();
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
        timeout(PATIENCE, connecting)
            .await
            .expect("the handshake ends")
    }

    /// A client of a house with implicit TLS.
    pub async fn visit(&self, house: ServerContext) -> Client {
        let (stream, _session) = connect(Way::Segments, house).await;
        Client::new(Box::new(self.shake(stream).await.unwrap()))
    }
}

/// Reads lines in the clear, byte for byte, until one begins with `start`.
pub async fn read_until(stream: &mut (impl Stream + ?Sized), start: &str) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let read = timeout(PATIENCE, stream.read_u8())
                .await
                .expect("the server answers");
            line.push(read.expect("the server is there"));
        }
        lines.push(String::from_utf8(line).unwrap().trim_end().to_owned());
        if lines.last().is_some_and(|line| line.starts_with(start)) {
            return lines;
        }
    }
}

/// Greeting, EHLO and whatever else `bytes` says, in one segment, up to the answer to STARTTLS.
pub async fn ask_for_tls(stream: &mut (impl Stream + ?Sized), bytes: &[u8]) {
    read_until(stream, "220 ").await;
    stream.write_all(bytes).await.unwrap();
    stream.flush().await.unwrap();
    read_until(stream, "220 2.0.0 ").await;
}
