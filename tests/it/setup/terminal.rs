//! Answers that are typed on a pseudo-terminal, made by python3.

use super::world::{KEY, SMTP_PASSWORD, World};
use crate::imap::server::{PASSWORD, USER};
use crate::readme::place::installed;
use serde_json::Value;

const TERMINAL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/fixtures/setup/terminal.py"
);
const ATTACHE: &str = env!("CARGO_BIN_EXE_attache");

/// Types answers; returns the exit code and everything that the terminal showed.
async fn typed(world: &World, args: &[&str], dialog: &[(&str, &str)]) -> (i32, String) {
    let dialog = serde_json::to_string(dialog).expect("JSON");
    let program = [TERMINAL, &dialog, ATTACHE, "setup", "house"];
    let said = world.outside("python3", &[&program, args].concat()).await;
    (said.code, said.stdout + &said.stderr)
}

#[tokio::test]
async fn answers_are_asked_checked_and_asked_again() {
    if !installed("python3") {
        eprintln!("SKIPPED: python3 is not installed; nothing is typed on a terminal");
        return;
    }
    let world = World::new().await;
    world.half("configs/security.json", &world.security());
    let (imap, smtp) = (world.mailbox.port, world.smarthost.address.port());
    let (imap, smtp, url) = (imap.to_string(), smtp.to_string(), world.model.url.clone());
    let again = "answer again (a), keep it unchecked (k), or stop (s)? [a]: ";
    let dialog = [
        ("your own mail address: ", "olga at home"),
        ("your own mail address: ", "olga@home.test"),
        ("the part behind the @: ", "engine.test"),
        ("part before the @ [assistant]: ", "ada"),
        ("name in its mails [ada]: ", "Ada"),
        ("such as Europe/Berlin [", "Berlin"),
        ("such as Europe/Berlin [", "Europe/Berlin"),
        ("how mail comes in: ", "1"),
        ("the mailbox's provider [other]: ", ""),
        ("IMAP server: ", "127.0.0.1"),
        ("or none [implicit]: ", "none"),
        ("usual one [-]: ", &imap),
        ("user of the mailbox: ", USER),
        ("the mailbox's password, which is not shown: ", "wrong"),
        (again, "a"),
        ("how mail comes in [imap]: ", ""),
        ("provider [other]: ", ""),
        ("IMAP server [127.0.0.1]: ", ""),
        ("or none [none]: ", ""),
        ("usual one", ""),
        ("user of the mailbox", ""),
        ("for none [-]: ", ""),
        ("the mailbox's password, which is not shown: ", PASSWORD),
        ("answers to others [draft]: ", "<"),
        ("the mailbox's password, which is not shown: ", PASSWORD),
        ("answers to others [draft]: ", "2"),
        ("how mail leaves: ", "1"),
        ("server that sends: ", "<"),
        ("how mail leaves [smarthost]: ", ""),
        ("server that sends: ", "127.0.0.1"),
        ("or none [starttls]: ", "none"),
        ("usual one [-]: ", &smtp),
        ("user there; - for none [-]: ", "ada"),
        ("the user's password, which is not shown: ", SMTP_PASSWORD),
        ("the model's provider [scripted]: ", "opnai"),
        ("the model's provider [scripted]: ", "2"),
        ("its model: ", "model-a"),
        ("vendor's own [-]: ", &url),
        ("the provider's key, which is not shown: ", KEY),
        ("change these files? [y/N]: ", "y"),
    ];
    // The file was there before: `setup` itself writes only what is new.
    world.half(
        "configs/inference.json",
        r#"{ "provider": "scripted", "model": "s", "providers": { "scripted": { "script": "configs/script.json" } } }"#,
    );
    let (code, seen) = typed(&world, &[], &dialog).await;
    assert_eq!(code, 0, "{seen}");
    for words in [
        "write one such as `anna@example.org`",
        "did you mean `Europe/Berlin`?",
        "  1  imap        from a mailbox at a provider",
        "did you mean `openai`?",
        "the server refuses the login: ",
        "`openai` answers: text, says `",
    ] {
        assert!(seen.contains(words), "{words}\n{seen}");
    }
    for secret in [PASSWORD, SMTP_PASSWORD, KEY] {
        assert!(!seen.contains(secret), "a secret was shown\n{seen}");
    }
    let settings: Value =
        serde_json::from_str(&world.read("personas/ada/persona.json")).expect("JSON");
    assert_eq!(
        (&settings["reply"], &settings["timezone"]),
        (&"final".into(), &"Europe/Berlin".into())
    );
    let gateway = world.read("configs/gateway.json");
    assert!(
        gateway.contains("\"bounce_address\": \"plain\""),
        "{gateway}"
    );
    let secrets = world.read(".secrets");
    assert!(secrets.contains(&format!("ATTACHE_IMAP_PASSWORD={PASSWORD}\n")));
    assert!(secrets.contains(&format!("ATTACHE_SMTP_PASSWORD=\"{SMTP_PASSWORD}\"\n")));
    world.ok(&["config", "check"]).await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn who_says_no_or_stops_has_changed_nothing() {
    if !installed("python3") {
        eprintln!("SKIPPED: python3 is not installed; nothing is typed on a terminal");
        return;
    }
    let world = World::new().await;
    world.half("configs/security.json", &world.security());
    let first = world.setup(&world.flags()).await;
    assert_eq!(first.code, 0, "{}{}", first.stdout, first.stderr);
    let before = world.files();
    let enter = |asked| (asked, "");
    // A provider that differs has another model, which is asked; Enter keeps all that is there.
    let kept = [
        "your own mail address [olga@home.test]: ",
        "behind the @ [engine.test]: ",
        "before the @ [ada]: ",
        "in its mails [Ada]: ",
        "such as Europe/Berlin [",
        "how mail comes in [imap]: ",
        "the mailbox's provider [other]: ",
        "IMAP server [127.0.0.1]: ",
        "or none [none]: ",
        "usual one",
        "user of the mailbox",
        "the mailbox's password [as it is], which is not shown: ",
        "answers to others [draft]: ",
        "how mail leaves [smarthost]: ",
        "server that sends [127.0.0.1]: ",
        "or none [none]: ",
        "usual one",
        "for none [ada]: ",
        "the user's password [as it is], which is not shown: ",
        "the model's provider [openai]: ",
        "its model [model-a]: ",
        "vendor's own",
        "the provider's key [as it is], which is not shown: ",
    ];
    let (code, seen) = typed(&world, &[], &kept.map(enter)).await;
    assert_eq!(code, 0, "{seen}");
    assert!(seen.contains("nothing changes"), "{seen}");
    let mut refusing: Vec<(&str, &str)> = kept.map(enter).to_vec();
    refusing[0].1 = "anna@home.test";
    refusing.push(("change these files? [y/N]: ", ""));
    let (code, seen) = typed(&world, &[], &refusing).await;
    assert_eq!(code, 73, "{seen}");
    assert!(
        seen.contains("+   \"owners\": [\"anna@home.test\"]"),
        "{seen}"
    );
    let stopping = [("your own mail address", "\u{3}")];
    let (code, seen) = typed(&world, &[], &stopping).await;
    assert_eq!(code, 1, "{seen}");
    assert!(seen.contains("stopped; nothing was written"), "{seen}");
    assert!(world.files() == before, "a file changed");
    let settings: Value =
        serde_json::from_str(&world.read("configs/inference.json")).expect("JSON");
    assert_eq!(settings["provider"], "openai");
}

/// Answers of one person who knows little: a rented mailbox needs no server's name, and nothing is asked in jargon.
#[tokio::test]
async fn a_rented_mailbox_is_set_up_by_its_providers_number() {
    if !installed("python3") {
        eprintln!("SKIPPED: python3 is not installed; nothing is typed on a terminal");
        return;
    }
    let world = World::new().await;
    let first = [
        ("your own mail address: ", "freda@home.test"),
        ("the part behind the @: ", "gmail.com"),
        ("part before the @ [assistant]: ", "fredda"),
        ("name in its mails [fredda]: ", "<"),
        ("part before the @ [fredda]: ", "freda"),
        ("name in its mails [freda]: ", "Freda"),
        ("such as Europe/Berlin [", "<"),
        ("name in its mails [Freda]: ", "<"),
        ("part before the @ [freda]: ", "<"),
        ("the part behind the @ [gmail.com]: ", ""),
        ("part before the @ [freda]: ", ""),
        ("name in its mails [Freda]: ", ""),
        ("such as Europe/Berlin [", "Europe/Berlin"),
        ("how mail comes in: ", "<"),
        ("such as Europe/Berlin [Europe/Berlin]: ", ""),
        ("how mail comes in: ", "1"),
        ("the mailbox's provider [other]: ", "1"),
        ("user of the mailbox: ", "freda@gmail.com"),
        (
            "the mailbox's password, which is not shown: ",
            "app-password",
        ),
        ("answers to others [draft]: ", ""),
        ("how mail leaves: ", "1"),
        ("user there; - for none [-]: ", "freda@gmail.com"),
        ("the user's password, which is not shown: ", "app-password"),
        ("the model's provider: ", "11"),
        ("its model [scripted]: ", ""),
    ];
    let (code, seen) = typed(&world, &["--offline"], &first).await;
    assert_eq!(code, 0, "{seen}");
    for jargon in ["authserv", "Authentication-Results", "envelope"] {
        assert!(!seen.contains(jargon), "{jargon}\n{seen}");
    }
    let gateway: Value = serde_json::from_str(&world.read("configs/gateway.json")).expect("JSON");
    let (mailbox, out) = (&gateway["mailboxes"][0], &gateway["outbound"]);
    assert_eq!(
        [
            &mailbox["host"],
            &mailbox["authserv_id"],
            &out["host"],
            &out["bounce_address"]
        ],
        ["imap.gmail.com", "mx.google.com", "smtp.gmail.com", "plain"],
        "{gateway:#}"
    );
    let settings = world.read("personas/freda/persona.json");
    assert!(settings.contains("\"reply\": \"draft\""), "{settings}");
    let checked = world.ok(&["config", "check"]).await;
    let line = "goes out     after your yes, by smtp.gmail.com:587 (STARTTLS)";
    assert!(checked.stdout.contains(line), "{}", checked.stdout);
}

/// Everything that a way back has to keep: secrets that were typed, parts that were checked, the answer in question.
#[tokio::test]
async fn a_way_back_over_parts_asks_only_the_one_question() {
    if !installed("python3") {
        eprintln!("SKIPPED: python3 is not installed; nothing is typed on a terminal");
        return;
    }
    let world = World::new().await;
    let mut flags = world.with(&[
        ("persona", "-"),
        ("name", "-"),
        ("in", "-"),
        ("out", "-"),
        ("provider", "-"),
        ("model", "-"),
        ("base-url", "-"),
        ("key-file", "-"),
        ("offline", ""),
    ]);
    flags.extend(["--timezone", "UTC"].map(str::to_owned));
    let flags: Vec<&str> = flags
        .iter()
        .map(String::as_str)
        .filter(|flag| *flag != "-")
        .collect();
    let dialog = [
        ("part before the @ [assistant]: ", "ada"),
        ("name in its mails [ada]: ", ""),
        ("how mail comes in: ", "1"),
        ("the mailbox's provider [other]: ", ""),
        ("answers to others [draft]: ", "3"),
        ("how mail leaves: ", "smarthost"),
        ("the model's provider: ", "<"),
        ("how mail leaves [smarthost]: ", "<"),
        ("answers to others [tool_only]: ", "<"),
        ("the mailbox's provider [other]: ", ""),
        ("answers to others [tool_only]: ", "final"),
        ("how mail leaves [smarthost]: ", ""),
        ("the model's provider: ", "openai"),
        ("its model: ", "model-x"),
        ("vendor's own [-]: ", ""),
        ("the provider's key, which is not shown: ", "<"),
        ("vendor's own [-]: ", ""),
        ("the provider's key, which is not shown: ", "sk-typed"),
    ];
    let (code, seen) = typed(&world, &flags, &dialog).await;
    assert_eq!(code, 0, "{seen}");
    let settings = world.read("personas/ada/persona.json");
    assert!(settings.contains("\"reply\": \"final\""), "{settings}");
    assert!(world.read(".secrets").contains("OPENAI_API_KEY=sk-typed\n"));
    let checks = seen.matches("way in   not asked").count();
    assert_eq!(checks, 2, "{seen}");
}
