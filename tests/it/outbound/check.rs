//! `attache outbox check` and `outbox health`: what is wrong with the way out is said before anybody waits for an answer.

use super::security::{CA, tls_script};
use super::server::{Fault, Script, Server, Verb};
use crate::guest_house::{GuestHouse, Said, attache};
use serde_json::{Value, json};

/// A guest house whose mail goes to `port` of this machine.
fn house(port: u16, more: Value) -> GuestHouse {
    let house = GuestHouse::new();
    let mut outbound =
        json!({ "kind": "smarthost", "host": "127.0.0.1", "port": port, "tls": "none" });
    outbound
        .as_object_mut()
        .expect("an object")
        .extend(more.as_object().expect("an object").clone());
    house.set("configs/gateway.json", "/outbound", outbound);
    std::fs::write(house.path().join("ca.pem"), CA).expect("a written file");
    house
}

/// The command, beside the server that it asks.
async fn run(house: &GuestHouse, args: &[&str], ca: bool) -> Said {
    let mut command = attache(house.path(), args);
    command.env("ATTACHE_SMTP_PASSWORD", "s3cret");
    if ca {
        command.env("SSL_CERT_FILE", house.path().join("ca.pem"));
    }
    let output = tokio::task::spawn_blocking(move || command.output())
        .await
        .expect("it ends");
    let output = output.expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    let code = output.status.code().expect("no signal");
    Said {
        code,
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// A port that nobody listens on.
fn closed_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    listener.local_addr().expect("it is bound").port()
}

const TAGGED: [&str; 2] = [
    "concierge+b.000000000000000check",
    "digest+b.000000000000000check",
];

#[tokio::test]
async fn a_way_out_that_works_is_gone_up_to_mail_from_sending_nothing() {
    for (implicit, tls) in [(false, "starttls"), (true, "implicit")] {
        let server = Server::start(tls_script(implicit)).await;
        let house = house(server.address.port(), json!({ "tls": tls, "user": "ada" }));
        let said = run(&house, &["outbox", "check"], true).await;
        assert_eq!(
            (said.code, said.stderr.as_str()),
            (0, ""),
            "{}",
            said.stdout
        );
        let senders = TAGGED
            .map(|local| format!("takes mail from <{local}@guesthouse.example>"))
            .join("; ");
        let to = server.address.port();
        assert_eq!(
            said.stdout,
            format!("127.0.0.1:{to}\tcan be used: connected, TLS verified; logged in; {senders}\n")
        );
        server.heard(|heard| {
            assert_eq!(
                (
                    heard.count("MAIL"),
                    heard.count("RSET"),
                    heard.count("QUIT")
                ),
                (2, 2, 1)
            );
            assert_eq!(
                (heard.count("RCPT"), heard.mails.len()),
                (0, 0),
                "{:?}",
                heard.commands
            );
        });
    }
    let server = Server::start(Script::default()).await;
    let plain = house(server.address.port(), json!({ "bounce_address": "plain" }));
    let said = run(&plain, &["outbox", "check", "--json"], false).await;
    let value: Value = serde_json::from_str(&said.stdout).expect("one JSON value");
    assert_eq!(
        (&value["ok"], &value["seen"][2]),
        (
            &json!(true),
            &json!("takes mail from <concierge@guesthouse.example>")
        )
    );
}

#[tokio::test]
async fn what_is_wrong_with_the_way_out_is_said_with_what_to_do() {
    let rejects = |start: &'static str, reply: &str| Script {
        offers: vec!["AUTH PLAIN LOGIN"],
        replies: [(start, reply.to_owned())].into(),
        ..Script::default()
    };
    let faulty = |verb| Script {
        fault: Some((verb, Fault::Drop)),
        ..Script::default()
    };
    #[rustfmt::skip]
    let cases: Vec<(Script, Value, bool, &str, &str)> = vec![
        (Script::default(), json!({ "tls": "starttls" }), true, "offers no STARTTLS", "for port 465"),
        (tls_script(false), json!({ "tls": "starttls" }), false, "no TLS: ", "SSL_CERT_FILE"),
        (
            tls_script(true),
            json!({ "tls": "implicit" }),
            false,
            "no TLS: ",
            "SSL_CERT_FILE names an authority of your own",
        ),
        (faulty(Verb::Connect), json!({}), false, "", "`\"tls\": \"implicit\"` is for port 465"),
        (rejects("AUTH", "535 5.7.8 no"), json!({ "user": "ada" }), false, "535 5.7.8 no", "an app password"),
        (Script::default(), json!({ "user": "ada" }), false, "", "an app password"),
        (
            rejects("MAIL", "553 5.7.1 not yours"),
            json!({}),
            false,
            "553 <concierge+b.",
            "`\"bounce_address\": \"plain\"`",
        ),
    ];
    for (script, more, ca, cause, remedy) in cases {
        let server = Server::start(script).await;
        let house = house(server.address.port(), more.clone());
        let said = run(&house, &["outbox", "check"], ca).await;
        assert_eq!(
            (said.code, said.stdout.as_str()),
            (69, ""),
            "{more}: {}",
            said.stderr
        );
        let start = format!(
            "error: `127.0.0.1:{}` cannot be used: ",
            server.address.port()
        );
        assert!(
            said.stderr.starts_with(&start) && said.stderr.contains(cause),
            "{more}: {}",
            said.stderr
        );
        let (_, hint) = said.stderr.split_once("\nhint: ").expect("a hint");
        assert!(hint.contains(remedy), "{more}: {hint}");
        assert!(!said.stderr.contains("s3cret"), "{}", said.stderr);
    }
}

#[tokio::test]
async fn a_closed_port_is_said_and_a_folder_is_tried() {
    let nobody = house(closed_port(), json!({}));
    let said = run(&nobody, &["outbox", "check"], false).await;
    assert_eq!(said.code, 69);
    assert!(
        said.stderr.contains("cannot connect: Connection refused")
            && said.stderr.contains("a firewall"),
        "{}",
        said.stderr
    );

    let house = GuestHouse::new();
    let said = run(&house, &["outbox", "check"], false).await;
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(
        said.stdout
            .ends_with("/data/outbox\tcan be used: files can be written\n"),
        "{}",
        said.stdout
    );
    let left = std::fs::read_dir(house.path().join("data/outbox"))
        .expect("the folder")
        .count();
    assert_eq!(left, 0, "the check left a file behind");
}

#[tokio::test]
#[ignore = "second tier"]
async fn after_one_refused_connection_nothing_is_called_well() {
    let port = closed_port();
    let house = house(port, json!({}));
    assert_eq!(
        run(&house, &["ingest", "configs/demo/letter.eml"], false)
            .await
            .code,
        0
    );
    let drained = run(&house, &["drain", "--log", "warn"], false).await;
    assert!(
        drained.stderr.contains("the way out cannot be used"),
        "{}",
        drained.stderr
    );
    assert!(
        drained.stderr.contains("Connection refused"),
        "{}",
        drained.stderr
    );
    let health = run(&house, &["outbox", "health", "--json"], false).await;
    let health: Value = serde_json::from_str(&health.stdout).expect("one JSON value");
    assert_eq!(health["state"], "unreachable", "{health}");
    assert!(
        health["reason"]
            .as_str()
            .is_some_and(|why| why.starts_with("cannot connect: ")),
        "{health}"
    );
    assert!(
        health["since"].is_string() && health["next_probe_at"].is_string(),
        "{health}"
    );
    let listed = run(&house, &["outbox", "list"], false).await;
    assert!(
        listed.stderr.starts_with("mail out has failed since "),
        "{}",
        listed.stderr
    );

    // The first mail that goes makes it well again.
    let server = Server::start(Script::default()).await;
    house.set(
        "configs/gateway.json",
        "/outbound/port",
        server.address.port().into(),
    );
    let id = listed.stdout.split('\t').next().expect("an id").to_owned();
    assert_eq!(run(&house, &["outbox", "retry", &id], false).await.code, 0);
    run(&house, &["drain"], false).await;
    let health = run(&house, &["outbox", "health", "--json"], false).await;
    let health: Value = serde_json::from_str(&health.stdout).expect("one JSON value");
    assert_eq!(
        (&health["state"], &health["reason"]),
        (&json!("well"), &json!(""))
    );
}
