//! Our certificate: read at start, read again when its files change, sent in TLS handshakes.
//!
//! Absent on purpose: certificates of clients, several certificates by server name, renewal.
//! Another program renews the files; a new certificate applies from the next handshake on.

use crate::clock::Clock;
use crate::config::TlsFiles;
use crate::web::tls_provider;
use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio_rustls::TlsAcceptor;

/// Minimum time between two checks of the files, with any number of handshakes.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Maximum bytes of a file; a chain has some kilobytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Error of a certificate that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read `{}`", path.display())]
    Unreadable { path: PathBuf, source: pem::Error },
    #[error("`{}` is no file of a certificate or a key", .0.display())]
    NoPemFile(PathBuf),
    #[error("`{}` holds no certificate", .0.display())]
    NoCertificate(PathBuf),
    /// The key belongs to another certificate, or its kind is not supported.
    #[error("certificate and key cannot be used")]
    Unusable(#[from] rustls::Error),
}

/// TLS of a listener.
#[derive(Clone)]
pub struct Tls {
    pub certificates: Arc<Certificates>,
    /// `true`: implicit TLS from the first byte, without STARTTLS.
    pub is_implicit: bool,
}

/// The certificate in use, and the state of its files when it was read.
pub struct Certificates {
    files: TlsFiles,
    clock: Arc<dyn Clock>,
    state: Mutex<TlsState>,
}

struct TlsState {
    config: Arc<ServerConfig>,
    seen: CertificateStamp,
    /// [`Clock::monotonic`] of the last check.
    looked_at: Duration,
}

/// Properties that change when a file is written or replaced: of the certificate, then of the key.
type CertificateStamp = [Option<(Option<SystemTime>, u64, u64)>; 2];

impl Certificates {
    pub fn load(files: TlsFiles, clock: Arc<dyn Clock>) -> Result<Arc<Self>, TlsError> {
        // Checked before it is read: a change in between is noticed later instead of never.
        let seen = look(&files);
        let config = read(&files)?;
        let state = Mutex::new(TlsState {
            config,
            seen,
            looked_at: clock.monotonic(),
        });
        Ok(Arc::new(Self {
            files,
            clock,
            state,
        }))
    }

    /// Returns the files of the certificate and its key.
    pub fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// Returns an acceptor for the next handshake. New files that cannot be used are logged once,
    /// and the old certificate stays in use.
    pub fn acceptor(&self) -> TlsAcceptor {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.monotonic();
        if now.saturating_sub(state.looked_at) >= LOOK_EVERY {
            state.looked_at = now;
            let seen = look(&self.files);
            if seen != state.seen {
                state.seen = seen;
                match read(&self.files) {
                    Ok(config) => {
                        tracing::info!("the certificate was renewed");
                        state.config = config;
                    }
                    Err(error) => {
                        let cause = &error as &dyn std::error::Error;
                        tracing::error!(
                            error = cause,
                            "the new certificate cannot be used; the old one stays in use"
                        );
                    }
                }
            }
        }
        TlsAcceptor::from(state.config.clone())
    }
}

fn look(files: &TlsFiles) -> CertificateStamp {
    let look = |path: &Path| {
        let about = |file: Metadata| (file.modified().ok(), file.len(), file.ino());
        std::fs::metadata(path).ok().map(about)
    };
    [look(&files.certificate), look(&files.key)]
}

fn read(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| TlsError::Unreadable { path, source }
    };
    for path in [&files.certificate, &files.key] {
        // Opening a pipe would block, and every handshake with it.
        let kind = std::fs::metadata(path)
            .map_err(pem::Error::Io)
            .map_err(unreadable(path))?;
        if !kind.is_file() || kind.len() > FILE_BYTES_MAX {
            return Err(TlsError::NoPemFile(path.clone()));
        }
    }
    let chain = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(unreadable(&files.certificate))?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate(files.certificate.clone()));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(unreadable(&files.key))?;
    let provider = tls_provider();
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(Arc::new(
        builder.with_no_client_auth().with_single_cert(chain, key)?,
    ))
}

/// Reports whether a handshake failed because the peer closed the connection, which is not an
/// error.
pub fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::UnexpectedEof | Kind::ConnectionReset | Kind::BrokenPipe | Kind::NotConnected
    )
}
