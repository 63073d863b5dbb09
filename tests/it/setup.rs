//! `attache setup`: answers are checked at real servers on loopback, and a workspace is written that answers a letter.

mod mistakes;
mod terminal;
mod world;

use crate::dns::Record;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use world::{KEY, SECRETS, SMTP_PASSWORD, World};

const LETTER: &str = "From: Bob <bob@friends.test>\r\nTo: ada@engine.test\r\nSubject: Bicycles\r\n\
    Message-ID: <1@friends.test>\r\nDate: Thu, 26 Nov 2026 08:00:00 +0000\r\n\r\nAre there bicycles?\r\n";

#[tokio::test]
#[ignore = "second tier"]
async fn flags_make_a_workspace_that_answers_a_letter() {
    let world = World::new().await;
    world.half("configs/security.json", &world.security());
    let said = world.setup(&world.with(&[("reply", "final")])).await;
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    for line in [
        "persona  ada@engine.test answers",
        "letters; the server tells of new letters",
        "can be used: connected without TLS; logged in; takes mail from <ada@engine.test>",
        "model    `openai` answers: text, says `",
        "DNS      MX of engine.test: missing: ",
        "publish   engine.test. IN TXT \"v=spf1 a:engine.test ~all\"",
        "wrote    configs/gateway.json",
        "wrote    personas/ada/PERSONA.md",
        "wrote    .secrets: ATTACHE_SMTP_PASSWORD",
        "then write to ada@engine.test from olga@home.test",
    ] {
        assert!(said.stdout.contains(line), "{line}\n{}", said.stdout);
    }
    let mode = |path: &str| {
        let metadata = std::fs::metadata(world.house().join(path)).expect(path);
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(
        (mode(".secrets"), mode("configs/gateway.json")),
        (0o600, 0o600)
    );
    world.write("letter.eml", LETTER);
    world.ok(&["config", "check"]).await;
    world.ok(&["ingest", "../letter.eml"]).await;
    world.ok(&["drain"]).await;
    world.smarthost.heard(|heard| {
        let mails = heard.accepted();
        assert_eq!(mails.len(), 1, "{:?}", heard.commands);
        assert_eq!(
            (mails[0].from.as_str(), mails[0].to.as_slice()),
            (
                "MAIL FROM:<ada@engine.test>",
                &["bob@friends.test".to_owned()][..]
            )
        );
    });
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_second_run_changes_nothing() {
    let world = World::new().await;
    world.half("configs/security.json", &world.security());
    let first = world.setup(&world.flags()).await;
    assert_eq!(first.code, 0, "{}{}", first.stdout, first.stderr);
    let before = world.files();
    assert!(before.len() > 15, "the workspace was not read");
    for flags in [world.flags(), Vec::new()] {
        let again = world.setup(&flags).await;
        assert_eq!(again.code, 0, "{}{}", again.stdout, again.stderr);
        assert!(again.stdout.contains("nothing changes"), "{}", again.stdout);
        assert!(world.files() == before, "a file changed");
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn another_smarthost_is_shown_as_a_difference_and_the_rest_stays() {
    let world = World::new().await;
    world.half("configs/security.json", &world.security());
    assert_eq!(world.setup(&world.flags()).await.code, 0);
    let path = "configs/gateway.json";
    let mine = world.read(path).replace(
        "\"mail_domain\"",
        "\"retry\":   { \"give_up_after\": \"3d\" },\n  \"mail_domain\"",
    );
    world.half(path, &mine);
    let other = world.another_smarthost().await;
    let port = other.address.port().to_string();
    let flags = ["--smtp-port", &port, "--bounce-address", "tagged"].map(str::to_owned);
    let shown = world.setup(&flags).await;
    assert_eq!(shown.code, 73, "{}{}", shown.stdout, shown.stderr);
    assert!(shown.stderr.contains("nothing was written") && shown.stderr.contains("--yes"));
    let signed = |sign: &str| -> Vec<String> {
        let lines = shown.stdout.lines().filter(|line| line.starts_with(sign));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(
        (signed("- ").len(), signed("+ ").len()),
        (2, 2),
        "{}",
        shown.stdout
    );
    assert!(signed("+ ")[0].contains(&format!("\"port\": {port}")));
    assert_eq!(world.read(path), mine, "not without --yes");
    let agreed = world
        .setup(&[&flags[..], &["--yes".to_owned()]].concat())
        .await;
    assert_eq!(agreed.code, 0, "{}{}", agreed.stdout, agreed.stderr);
    let written = world.read(path);
    assert!(
        written.contains("\"retry\":   { \"give_up_after\": \"3d\" }"),
        "{written}"
    );
    let value: Value = serde_json::from_str(&written).expect("JSON");
    assert_eq!(
        (
            &value["outbound"]["port"],
            &value["outbound"]["bounce_address"]
        ),
        (&json!(other.address.port()), &json!("tagged"))
    );
    assert_eq!(
        other.heard(|heard| heard.count("AUTH")),
        2,
        "each run asks it"
    );
}

#[tokio::test]
async fn half_an_installation_is_completed() {
    let world = World::new().await;
    world.half(
        "configs/gateway.json",
        r#"{ "mail_domain": "engine.test", "owners": ["olga@home.test"] }"#,
    );
    world.half("configs/security.json", &world.security());
    world.half("personas/ada/PERSONA.md", "# Mine\n");
    let flags = world.flags();
    let said = world
        .setup(&[&flags[..], &["--yes".to_owned()]].concat())
        .await;
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    assert_eq!(world.read("personas/ada/PERSONA.md"), "# Mine\n");
    assert_eq!(world.read("configs/security.json"), world.security());
    world.ok(&["config", "check"]).await;
}

#[tokio::test]
async fn secrets_come_from_standard_input_and_from_variables_too() {
    let world = World::new().await;
    let (password, key) = ("smtp-password-file", "key-file");
    let quoted = |flag: String| format!("'{flag}'");
    let flags = world.with(&[("offline", ""), (password, "/dev/stdin"), (key, "-")]);
    let flags: Vec<String> = flags.into_iter().map(quoted).collect();
    let line = format!(
        "printf '%s\\n' '{SMTP_PASSWORD}' | MY_KEY={KEY} {} setup house --key-variable MY_KEY {}",
        env!("CARGO_BIN_EXE_attache"),
        flags.join(" ").replace("'/dev/stdin'", "-")
    );
    let said = world.outside("sh", &["-c", &line]).await;
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    let secrets = world.read(".secrets");
    for kept in [
        format!("ATTACHE_SMTP_PASSWORD=\"{SMTP_PASSWORD}\"\n"),
        format!("OPENAI_API_KEY={KEY}\n"),
    ] {
        assert!(secrets.contains(&kept), "{secrets}");
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn another_persona_is_added_only_by_name() {
    let world = World::new().await;
    let first = world.setup(&world.with(&[("offline", "")])).await;
    assert_eq!(first.code, 0, "{}{}", first.stdout, first.stderr);
    let second = world.with(&[("offline", ""), ("persona", "paul"), ("name", "Paul")]);
    assert_eq!(
        world.setup(&second).await.code,
        0,
        "a new persona overwrites nothing"
    );
    let before = world.files();
    let flags = ["--offline".to_owned(), "--yes".to_owned()];
    assert_eq!(world.setup(&flags).await.code, 0);
    assert!(world.files() == before, "two personas stay two");
    assert!(
        world
            .read("personas/paul/persona.json")
            .contains("\"Paul\"")
    );
}

#[tokio::test]
async fn offline_asks_nobody_and_says_so() {
    let world = World::new().await;
    let flags = world.with(&[
        ("offline", ""),
        ("in", "lmtp"),
        ("listen", "unix:data/lmtp.sock"),
    ]);
    let said = world.setup(&flags).await;
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    for part in ["way in", "way out", "model", "DNS"] {
        let line = format!("{part:<9}not asked, because of --offline\n");
        assert!(said.stdout.contains(&line), "{line}{}", said.stdout);
    }
    assert_eq!(world.smarthost.heard(|heard| heard.connections), 0);
    assert_eq!(world.model.connections(), 0);
    assert!(world.dns.asked().is_empty());
    let gateway: Value = serde_json::from_str(&world.read("configs/gateway.json")).expect("JSON");
    assert_eq!(
        gateway["listeners"],
        json!([{ "kind": "lmtp", "address": "unix:data/lmtp.sock" }])
    );
}

#[tokio::test]
async fn records_that_are_published_are_called_good_and_the_report_is_json() {
    let world = World::new().await;
    world.half("configs/security.json", &world.security());
    let dns = &world.dns;
    dns.add("engine.test", Record::Mx(10, "mx.rented.test".to_owned()));
    for host in ["mx.rented.test", "engine.test"] {
        dns.add(host, Record::A([192, 0, 2, 7].into()));
    }
    dns.txt("engine.test", "v=spf1 a -all");
    dns.txt("_dmarc.engine.test", "v=DMARC1; p=none");
    let flags = [&world.flags()[..], &["--json".to_owned()]].concat();
    let said = world.setup(&flags).await;
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    let report: Value = serde_json::from_str(&said.stdout).expect("one JSON value");
    let states: Vec<&Value> = report["records"]
        .as_array()
        .expect("records")
        .iter()
        .map(|record| &record["state"])
        .collect();
    assert_eq!(states, ["good", "good", "good"], "{report:#}");
    assert_eq!(
        report["secrets"],
        json!([
            "ATTACHE_IMAP_PASSWORD",
            "ATTACHE_SMTP_PASSWORD",
            "OPENAI_API_KEY"
        ])
    );
    assert!(SECRETS.iter().all(|secret| !said.stdout.contains(secret)));
}

#[tokio::test]
async fn a_mail_server_in_front_is_trusted_by_its_name_alone() {
    let world = World::new().await;
    let more = [
        ("offline", ""),
        ("in", "lmtp"),
        ("authserv-id", "mx.engine.test"),
    ];
    let said = world.setup(&world.with(&more)).await;
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    let security: Value = serde_json::from_str(&world.read("configs/security.json")).expect("JSON");
    assert_eq!(
        security["authentication"]["trusted_relays"],
        json!([{ "peers": ["127.0.0.1", "::1"], "authserv_id": "mx.engine.test" }])
    );
}

#[tokio::test]
async fn letters_of_this_machine_are_no_first_letters_where_nobody_vouches_for_them() {
    let world = World::new().await;
    world.half("configs/security.json", &world.security());
    let sockets = tempfile::tempdir().expect("a folder");
    let socket = format!("unix:{}/lmtp.sock", sockets.path().display());
    let local = world.with(&[("in", "lmtp"), ("listen", &socket)]);
    let said = world.setup(&local).await;
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    for line in [
        "a socket can be made at",
        "then write to ada@engine.test from olga@home.test",
        "is filed as unauthenticated",
        " ask ada \"Are you there?\"",
    ] {
        assert!(said.stdout.contains(line), "{line}\n{}", said.stdout);
    }
    let fetched = world
        .setup(&[&world.flags()[..], &["--yes".to_owned()]].concat())
        .await;
    assert_eq!(fetched.code, 0, "{}{}", fetched.stdout, fetched.stderr);
    assert!(
        !fetched.stdout.contains("is filed as unauthenticated"),
        "{}",
        fetched.stdout
    );
}

/// Flags, what the persona's file says before, and `reply` in it afterwards.
type ReplyCase = (
    &'static [(&'static str, &'static str)],
    &'static str,
    &'static str,
);
const REPLIES: [ReplyCase; 14] = [
    (&[], "", "draft"),
    (&[("reply", "final")], "", "final"),
    (&[("reply", "tool_only")], "", "tool_only"),
    (&[("mail-provider", "fastmail")], "", "draft"),
    (&[("in", "imap"), ("out", "folder")], "", "draft"),
    (&[("in", "smtp")], "", "final"),
    (&[("in", "lmtp")], "", "final"),
    (&[("in", "folder")], "", "final"),
    (&[("in", "smtp"), ("reply", "draft")], "", "draft"),
    (
        &[],
        r#"{ "name": "Ada", "address": "ada", "reply": "final" }"#,
        "final",
    ),
    (
        &[],
        r#"{ "name": "Ada", "address": "ada", "reply": "tool_only" }"#,
        "tool_only",
    ),
    // As `attache init` writes it.
    (&[], r#"{ "name": "Ada", "address": "ada" }"#, "draft"),
    (
        &[("in", "smtp")],
        r#"{ "name": "Ada", "address": "ada" }"#,
        "",
    ),
    (
        &[("reply", "draft")],
        r#"{ "name": "Ada", "address": "ada" }"#,
        "draft",
    ),
];

#[tokio::test]
#[ignore = "second tier"]
async fn somebodys_own_mailbox_answers_nobody_without_a_yes() {
    for (flags, before, reply) in REPLIES {
        let world = World::new().await;
        if !before.is_empty() {
            world.half("personas/ada/persona.json", before);
        }
        let flags = [flags, &[("offline", ""), ("yes", "")]].concat();
        let said = world.setup(&world.with(&flags)).await;
        assert_eq!(said.code, 0, "{flags:?}: {}{}", said.stdout, said.stderr);
        let settings: Value =
            serde_json::from_str(&world.read("personas/ada/persona.json")).expect("JSON");
        let found = settings["reply"].as_str().unwrap_or_default();
        assert_eq!(found, reply, "{flags:?} {before}");
        let checked = world.ok(&["config", "check"]).await;
        let when = match reply {
            "draft" => "after your yes",
            "tool_only" => "only by tools",
            _ => "at once",
        };
        let line = format!("goes out     {when}, ");
        assert!(
            checked.stdout.contains(&line),
            "{flags:?} {}",
            checked.stdout
        );
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_letter_to_somebodys_own_mailbox_waits_as_a_draft() {
    let world = World::new().await;
    world.half("configs/security.json", &world.security());
    assert_eq!(world.setup(&world.flags()).await.code, 0);
    world.write("letter.eml", LETTER);
    world.ok(&["ingest", "../letter.eml"]).await;
    world.ok(&["drain"]).await;
    let drafts = world.ok(&["drafts", "list"]).await;
    assert!(
        drafts.stdout.contains("bob@friends.test"),
        "{}",
        drafts.stdout
    );
    world.smarthost.heard(|heard| {
        let to: Vec<&String> = heard.accepted().iter().flat_map(|mail| &mail.to).collect();
        assert_eq!(to, ["olga@home.test"], "the owner alone hears of it");
    });
}

#[tokio::test]
#[ignore = "second tier"]
async fn the_zone_of_this_machine_is_the_personas() {
    let world = World::new().await;
    let flags = world.with(&[("offline", "")]).join(" ");
    let zones = [
        ("Europe/Berlin", "Europe/Berlin"),
        (":America/New_York", "America/New_York"),
        ("Asia/Kolkata", "Asia/Kolkata"),
    ];
    for (at, (variable, zone)) in zones.iter().enumerate() {
        let id = format!("p{at}");
        let line = format!(
            "TZ={variable} {} setup house {} --yes",
            env!("CARGO_BIN_EXE_attache"),
            flags.replace("--persona ada", &format!("--persona {id}"))
        );
        let said = world.outside("sh", &["-c", &line]).await;
        assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
        let settings = world.read(&format!("personas/{id}/persona.json"));
        assert!(
            settings.contains(&format!("\"timezone\": \"{zone}\"")),
            "{settings}"
        );
        let again = world
            .outside("sh", &["-c", &line.replace(variable, "UTC")])
            .await;
        assert!(
            again.stdout.contains("nothing changes"),
            "what is there stays: {}",
            again.stdout
        );
    }
    let said = world
        .setup(&world.with(&[
            ("offline", ""),
            ("timezone", "Asia/Tokyo"),
            ("persona", "q"),
        ]))
        .await;
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    assert!(world.read("personas/q/persona.json").contains("Asia/Tokyo"));
}

/// What `setup` takes for a provider's servers is what its guide shows.
#[test]
fn providers_of_mailboxes_are_those_of_the_guide() {
    let guide = include_str!("../../docs/guide/mail-providers.md");
    let source = include_str!("../../src/cli/setup/rented.rs");
    let mut found = 0;
    for block in guide.split("configs/gateway.json\n").skip(1) {
        let json = block.split("```").next().expect("a block");
        let Ok(value) = serde_json::from_str::<Value>(json) else {
            continue;
        };
        let (mailbox, out) = (&value["mailboxes"][0], &value["outbound"]);
        if mailbox["oauth"].is_object() {
            continue;
        }
        found += 1;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let host = text(&mailbox["host"]);
        let entry = source
            .split("    Rented {")
            .find(|entry| entry.contains(&host));
        let entry = entry.unwrap_or_else(|| panic!("{host} is not in rented.rs"));
        let tls = out["tls"].as_str().unwrap_or("starttls");
        for wanted in [
            text(&out["host"]),
            tls.to_owned(),
            text(&mailbox["authserv_id"]),
        ] {
            assert!(entry.contains(&wanted), "{wanted} of {host}");
        }
    }
    assert_eq!(found, 4);
}

/// Whose domain it is publishes its records; nobody is told to change those of a provider.
#[tokio::test]
#[ignore = "second tier"]
async fn nothing_is_to_be_published_for_the_domain_of_a_mailboxs_provider() {
    for (domain, is_own) in [
        ("gmail.com", false),
        ("fastmail.com", false),
        ("mailbox.org", false),
        ("engine.test", true),
    ] {
        let world = World::new().await;
        world.half("configs/security.json", &world.security());
        let said = world.setup(&world.with(&[("domain", domain)])).await;
        assert_eq!(said.code, 0, "{domain}: {}{}", said.stdout, said.stderr);
        for word in ["publish", "DNS      "] {
            let is_there = said.stdout.contains(word);
            assert_eq!(is_there, is_own, "{domain}: {word}: {}", said.stdout);
        }
        let asked = world.dns.asked();
        let is_asked = asked.iter().any(|name| name.contains(domain));
        assert_eq!(is_asked, is_own, "{domain}: {asked:?}");
    }
}
