//! What must never reach the wire, and TLS that never falls back.

use super::server::{Fault, Script, Server, Verb};
use super::world::{House, bytes, only, patient, smtp};
use crate::app::db;
use attache::clock::Clock;
use attache::config::MailTls;
use attache::domain::BreakerState;
use attache::domain::DeliveryId;
use attache::gateway::outbound::{Options, Outbound, SetupError, SmtpTransport};
use attache::store::{DeliveryState, RecipientState};
use secrecy::SecretString;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

pub const CA: &[u8] = include_bytes!("../../fixtures/outbound/ca.pem");
const CERTIFICATE: &[u8] = include_bytes!("../../fixtures/outbound/server.pem");
const KEY: &[u8] = include_bytes!("../../fixtures/outbound/server.key");

fn acceptor() -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(KEY).expect("a key");
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key);
    TlsAcceptor::from(Arc::new(config.expect("they belong together")))
}

fn over_tls(house: &House, server: &Server, tls: MailTls, trusted: bool) -> Outbound {
    let options = Options {
        timeouts: patient(),
        extra_root_pem: trusted.then(|| CA.to_vec()),
    };
    let transport = smtp(&house.clock, server, &options, |smarthost| {
        smarthost.tls = tls;
        smarthost.credentials = Some(("ada".to_owned(), SecretString::from("s3cret".to_owned())));
    });
    house.outbound_over(Arc::new(transport))
}

pub fn tls_script(implicit: bool) -> Script {
    let offers = vec!["STARTTLS", "AUTH PLAIN", "SIZE"];
    Script {
        offers,
        tls: Some(acceptor()),
        implicit,
        ..Script::default()
    }
}

#[tokio::test]
async fn mail_goes_out_through_tls_from_either_start() {
    for (tls, implicit) in [(MailTls::StartTls, false), (MailTls::Implicit, true)] {
        let house = House::new().await;
        let server = Server::start(tls_script(implicit)).await;
        let outbound = over_tls(&house, &server, tls, true);
        let id = house.mail("first", &["you@example.test"]).await;
        outbound.work_once().await.expect("the store works");
        assert_eq!(
            house.states(&id).await,
            (DeliveryState::Done, RecipientState::Delivered),
            "{tls:?}"
        );
        server.heard(|heard| {
            assert_eq!(heard.mails[0].bytes(), bytes("first"));
            assert_eq!(heard.count("STARTTLS"), usize::from(!implicit));
            let of = |verb: &str| {
                heard
                    .commands
                    .iter()
                    .position(|command| command.starts_with(verb))
            };
            assert!(
                implicit || of("STARTTLS") < of("AUTH"),
                "{:?}",
                heard.commands
            );
        });
    }
}

#[tokio::test]
async fn nothing_is_said_to_a_server_that_nobody_vouches_for() {
    for (tls, implicit) in [(MailTls::StartTls, false), (MailTls::Implicit, true)] {
        let house = House::new().await;
        let server = Server::start(tls_script(implicit)).await;
        let outbound = over_tls(&house, &server, tls, false);
        let id = house.mail("first", &["you@example.test"]).await;
        outbound.work_once().await.expect("the store works");
        assert_eq!(
            house.states(&id).await,
            (DeliveryState::Queued, RecipientState::Deferred),
            "{tls:?}"
        );
        server.heard(|heard| {
            assert_eq!(
                heard.count("AUTH") + heard.count("MAIL"),
                0,
                "{:?}",
                heard.commands
            );
        });
    }
}

#[tokio::test]
async fn a_server_without_starttls_gets_neither_password_nor_mail() {
    let house = House::new().await;
    let server = Server::start(Script {
        offers: vec!["AUTH PLAIN"],
        ..Script::default()
    })
    .await;
    let outbound = over_tls(&house, &server, MailTls::StartTls, true);
    let id = house.mail("first", &["you@example.test"]).await;
    outbound.work_once().await.expect("the store works");
    let delivery = house.delivery(&id).await;
    assert_eq!(
        (delivery.state, only(&delivery).state),
        (DeliveryState::Queued, RecipientState::Deferred)
    );
    server.heard(|heard| {
        let said: Vec<&String> = heard
            .commands
            .iter()
            .filter(|command| !command.starts_with("EHLO"))
            .collect();
        assert!(said.is_empty(), "{said:?}");
    });
}

#[tokio::test]
async fn replies_injected_before_tls_are_never_taken_for_the_servers() {
    let house = House::new().await;
    let injected = "\r\n250-smarthost.test\r\n250 AUTH PLAIN";
    let server = Server::start(Script {
        injected,
        ..tls_script(false)
    })
    .await;
    let outbound = over_tls(&house, &server, MailTls::StartTls, true);
    let id = house.mail("first", &["you@example.test"]).await;
    outbound.work_once().await.expect("the store works");
    assert_eq!(
        house.states(&id).await,
        (DeliveryState::Queued, RecipientState::Deferred)
    );
    server.heard(|heard| {
        assert_eq!(
            heard.count("AUTH") + heard.count("MAIL"),
            0,
            "{:?}",
            heard.commands
        );
    });
}

#[tokio::test]
async fn bare_line_ends_and_forged_addresses_never_reach_the_wire() {
    let bare: [&[u8]; 5] = [
        b"Subject: x\n\nhi\r\n",
        b"a\r\n.\n\r\n",
        b"a\rb\r\n",
        b"\na\r\n",
        b"a\r\n\r\nb\r",
    ];
    let house = House::new().await;
    let server = Server::start(Script::default()).await;
    let outbound = house.outbound(&server);
    let mut ids = Vec::new();
    for (n, bytes) in bare.iter().enumerate() {
        ids.push(
            house
                .mail_of(
                    &format!("bare-{n}"),
                    "ada@engine.test",
                    &["you@example.test"],
                    bytes,
                )
                .await,
        );
    }
    let forged = "you@example.test>\r\nRCPT TO:<them@example.test";
    ids.push(house.mail("recipient", &[forged]).await);
    ids.push(
        house
            .mail_of(
                "sender",
                "ada@engine.test> SIZE=1",
                &["you@example.test"],
                &bytes("s"),
            )
            .await,
    );
    assert_eq!(
        outbound.work_once().await.expect("the store works"),
        ids.len()
    );
    for id in &ids {
        let delivery = house.delivery(id).await;
        assert_eq!(
            (delivery.state, only(&delivery).state),
            (DeliveryState::Failed, RecipientState::Failed),
            "{id}"
        );
        assert_eq!(only(&delivery).last_code, None, "our own verdict");
    }
    server.heard(|heard| assert_eq!(heard.connections, 0));
}

#[tokio::test]
async fn a_host_elsewhere_is_refused_without_tls() {
    let house = House::new().await;
    let clock: Arc<dyn Clock> = house.clock.clone();
    let smarthost = |host: &str| attache::config::Smarthost {
        host: host.to_owned(),
        port: 25,
        tls: MailTls::None,
        credentials: None,
        connections_max: 1,
    };
    for host in [
        "mail.example.test",
        "192.0.2.1",
        "localhost.example.test",
        "127.0.0.1.example.test",
    ] {
        let built = SmtpTransport::new(
            &smarthost(host),
            "engine.test",
            clock.clone(),
            &Options::default(),
        );
        assert!(matches!(built, Err(SetupError::ClearText { .. })), "{host}");
    }
    for host in ["localhost", "127.0.0.1", "::1"] {
        let built = SmtpTransport::new(
            &smarthost(host),
            "engine.test",
            clock.clone(),
            &Options::default(),
        );
        assert!(built.is_ok(), "{host}");
    }
}

/// A server's certificate from an authority of its own: for that name, valid until that year. With the authority.
fn certified(name: &str, until: i32) -> (TlsAcceptor, Vec<u8>) {
    let authority_key = rcgen::KeyPair::generate().expect("a key");
    let mut authority = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root = authority.self_signed(&authority_key).expect("a root").pem();
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut leaf = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("parameters");
    leaf.not_before = rcgen::date_time_ymd(2020, 1, 1);
    leaf.not_after = rcgen::date_time_ymd(until, 1, 1);
    let certificate = leaf
        .signed_by(&key, &issuer)
        .expect("a certificate")
        .der()
        .clone();
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key);
    (
        TlsAcceptor::from(Arc::new(config.expect("they belong together"))),
        root.into_bytes(),
    )
}

#[tokio::test]
async fn a_bad_certificate_defers_alarms_and_nothing_goes_in_clear() {
    for (name, until, works) in [
        ("127.0.0.1", 2099, true),
        ("127.0.0.1", 2021, false),
        ("smarthost.test", 2099, false),
    ] {
        for (tls, implicit) in [(MailTls::StartTls, false), (MailTls::Implicit, true)] {
            let case = format!("{name} until {until}, {tls:?}");
            let (acceptor, root) = certified(name, until);
            let house = House::new().await;
            let script = Script {
                tls: Some(acceptor),
                implicit,
                ..tls_script(implicit)
            };
            let server = Server::start(script).await;
            let options = Options {
                timeouts: patient(),
                extra_root_pem: Some(root),
            };
            let transport = smtp(&house.clock, &server, &options, |smarthost| {
                smarthost.tls = tls;
                smarthost.connections_max = 1;
                smarthost.credentials =
                    Some(("ada".to_owned(), SecretString::from("s3cret".to_owned())));
            });
            let outbound = house.outbound_over(Arc::new(transport));
            house.mails(3).await;
            outbound.work_once().await.expect("the store works");
            let delivery = house.delivery(&DeliveryId::new("mail-0")).await;
            if works {
                assert_eq!(
                    delivery.state,
                    DeliveryState::Done,
                    "{case}: {:?}",
                    only(&delivery)
                );
                continue;
            }
            assert_eq!(only(&delivery).state, RecipientState::Deferred, "{case}");
            let reply = only(&delivery).last_reply.clone().unwrap_or_default();
            assert!(reply.contains("certificate"), "{case}: {reply}");
            server.heard(|heard| {
                assert_eq!(
                    heard.count("AUTH") + heard.count("MAIL"),
                    0,
                    "{case}: {:?}",
                    heard.commands
                );
            });
            alarmed(&house, &outbound, &case).await;
        }
    }
}

/// The transport rests by now, and the owner hears of it when it goes on.
async fn alarmed(house: &House, outbound: &Outbound, case: &str) {
    assert_eq!(
        outbound.breaker(),
        (BreakerState::Open(Duration::from_secs(60)), 3),
        "{case}"
    );
    for minutes in [1, 2, 4, 8] {
        house.clock.advance(Duration::from_secs(60 * minutes));
        assert_eq!(
            outbound.work_once().await.expect("the store works"),
            1,
            "{case}"
        );
    }
    let sql = "SELECT summary FROM notices WHERE kind = 'transport_down'";
    let told: Vec<String> = db::query_scalar(sql)
        .fetch_all(&mut house.database().await)
        .await
        .expect("rows");
    assert_eq!(told.len(), 1, "{case}: {told:?}");
}

#[tokio::test]
async fn a_stripped_starttls_and_every_refusal_of_it_defer_and_alarm() {
    let refusals = [
        Fault::Temporary,
        Fault::Permanent,
        Fault::Shutdown,
        Fault::Drop,
    ];
    for fault in refusals.map(Some).into_iter().chain([None]) {
        let house = House::new().await;
        let mut script = tls_script(false);
        match fault {
            Some(fault) => script.fault = Some((Verb::StartTls, fault)),
            // Somebody in the middle takes the offer out.
            None => script.offers = vec!["AUTH PLAIN", "SIZE"],
        }
        let server = Server::start(script).await;
        let options = Options {
            timeouts: patient(),
            extra_root_pem: Some(CA.to_vec()),
        };
        let transport = smtp(&house.clock, &server, &options, |smarthost| {
            smarthost.tls = MailTls::StartTls;
            smarthost.connections_max = 1;
            smarthost.credentials =
                Some(("ada".to_owned(), SecretString::from("s3cret".to_owned())));
        });
        let outbound = house.outbound_over(Arc::new(transport));
        house.mails(3).await;
        outbound.work_once().await.expect("the store works");
        server.heard(|heard| {
            assert_eq!(
                heard.count("AUTH") + heard.count("MAIL"),
                0,
                "{fault:?}: {:?}",
                heard.commands
            );
        });
        alarmed(&house, &outbound, &format!("{fault:?}")).await;
    }
}
