//! Certificates, passwords and other settings of listeners count for the next connection.

use super::{Caller, PATIENCE, Serving, answering};
use crate::app::Workspace;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::BufReader;
use tokio_rustls::TlsConnector;

/// Believes in every certificate: the tests look at which one was shown.
#[derive(Debug)]
struct Believer(Arc<CryptoProvider>);

impl ServerCertVerifier for Believer {
    fn verify_server_cert(
        &self,
        _shown: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Connects, asks for STARTTLS and says EHLO; gives the certificate that was shown, too.
pub async fn under_tls(address: SocketAddr) -> (Caller, Vec<u8>) {
    let mut plain = Caller::of(address).await;
    let said = plain.say("STARTTLS").await;
    assert!(said.starts_with("220"), "{said}");
    let provider = attache::web::tls_provider();
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Believer(provider)))
        .with_no_client_auth();
    let name = ServerName::try_from("mx.engine.test").expect("a name");
    let connecting = TlsConnector::from(Arc::new(config)).connect(name, plain.0.into_inner());
    let shaken = tokio::time::timeout(PATIENCE, connecting).await;
    let stream = shaken.expect("in time").expect("a handshake");
    let shown = stream
        .get_ref()
        .1
        .peer_certificates()
        .expect("a certificate");
    let shown = shown[0].to_vec();
    let mut caller = Caller(BufReader::new(Box::new(stream)));
    caller.say("EHLO guest.example").await;
    (caller, shown)
}

/// Writes a certificate and its key; gives the certificate.
pub fn issue(workspace: &Workspace, name: &str) -> Vec<u8> {
    let made = rcgen::generate_simple_self_signed(["mx.engine.test".to_owned()]).expect("a pair");
    workspace.write(
        &format!("tls/{name}.key"),
        &made.signing_key.serialize_pem(),
    );
    let key = workspace.path().join(format!("tls/{name}.key"));
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(key, private).expect("a mode");
    workspace.write(&format!("tls/{name}.pem"), &made.cert.pem());
    made.cert.der().to_vec()
}

/// Names the certificate in the configuration.
pub fn use_certificate(workspace: &Workspace, name: &str) {
    workspace.set(
        "configs/gateway.json",
        "/tls",
        json!({ "certificate": format!("tls/{name}.pem"), "key": format!("tls/{name}.key") }),
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_certificate_is_shown_from_the_next_handshake() {
    let workspace = Workspace::new(&answering());
    let first = issue(&workspace, "a");
    use_certificate(&workspace, "a");
    let house = Serving::start(workspace).await;
    let (mut old, shown) = under_tls(house.mail).await;
    assert_eq!(shown, first);
    let second = issue(&house.workspace, "b");
    use_certificate(&house.workspace, "b");
    assert!(house.reload().await.refused.is_empty());
    assert_eq!(under_tls(house.mail).await.1, second);
    // Renewed under its name, as programs do that renew certificates: no file of the configuration has changed.
    let third = issue(&house.workspace, "b");
    house.workspace.clock.advance(Duration::from_secs(2));
    assert_eq!(under_tls(house.mail).await.1, third);
    let said = old.bring("ada@engine.test", "t1").await;
    assert!(said.starts_with("250"), "an open session goes on: {said}");
    // A key of another certificate.
    let made = rcgen::generate_simple_self_signed(["other.test".to_owned()]).expect("a pair");
    house
        .workspace
        .write("tls/b.key", &made.signing_key.serialize_pem());
    house.workspace.clock.advance(Duration::from_secs(2));
    let refused = house.reload().await.refused;
    assert!(refused[0].contains("configs/gateway.json"), "{refused:?}");
    assert_eq!(under_tls(house.mail).await.1, third, "the last good one");
    let told = "SELECT count(*) FROM notices WHERE kind = 'config_faulty'";
    house.reload().await;
    house.until(told, 1).await;
    let fourth = issue(&house.workspace, "b");
    house.workspace.clock.advance(Duration::from_secs(2));
    assert!(house.reload().await.refused.is_empty());
    assert_eq!(under_tls(house.mail).await.1, fourth);
    house.ended().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_in_the_secrets_counts_for_the_next_session() {
    let workspace = Workspace::new(&answering());
    issue(&workspace, "a");
    use_certificate(&workspace, "a");
    let submission = json!([{ "user": "olga", "address": "olga@home.test", "password_variable": "OLGA_PASSWORD" }]);
    workspace.set("configs/gateway.json", "/submission", submission);
    let listener =
        json!([{ "kind": "smtp", "address": "127.0.0.1:0", "tls": "starttls", "auth": true }]);
    workspace.set("configs/gateway.json", "/listeners", listener);
    let secrets = |workspace: &Workspace, password: &str| {
        workspace.write(".secrets", &format!("OLGA_PASSWORD={password}\n"));
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(workspace.path().join(".secrets"), private).expect("a mode");
    };
    secrets(&workspace, "first");
    let house = Serving::start(workspace).await;
    // `\0olga\0first` and `\0olga\0second`, in base64.
    let (first, second) = ("AUTH PLAIN AG9sZ2EAZmlyc3Q=", "AUTH PLAIN AG9sZ2EAc2Vjb25k");
    let said = under_tls(house.mail).await.0.say(first).await;
    assert!(said.starts_with("235"), "{said}");
    secrets(&house.workspace, "second");
    assert!(house.reload().await.refused.is_empty());
    let said = under_tls(house.mail).await.0.say(first).await;
    assert!(said.starts_with("535"), "{said}");
    let said = under_tls(house.mail).await.0.say(second).await;
    assert!(said.starts_with("235"), "{said}");
    house.ended().await;
}
