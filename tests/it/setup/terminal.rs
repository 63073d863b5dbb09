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
        ("imap or folder: ", "imap"),
        ("IMAP server: ", "127.0.0.1"),
        ("or none [implicit]: ", "none"),
        ("usual one [-]: ", &imap),
        ("user of the mailbox: ", USER),
        ("for none [-]: ", ""),
        ("the mailbox's password, which is not shown: ", "wrong"),
        (again, "a"),
        ("imap or folder [imap]: ", ""),
        ("IMAP server [127.0.0.1]: ", ""),
        ("or none [none]: ", ""),
        ("usual one", ""),
        ("user of the mailbox", ""),
        ("for none [-]: ", ""),
        ("the mailbox's password, which is not shown: ", PASSWORD),
        ("smarthost or folder: ", "smarthost"),
        ("server that sends: ", "127.0.0.1"),
        ("or none [starttls]: ", "none"),
        ("usual one [-]: ", &smtp),
        ("user there; - for none [-]: ", "ada"),
        ("no other address [plain]: ", ""),
        ("the user's password, which is not shown: ", SMTP_PASSWORD),
        ("provider of the model [scripted]: ", "openai"),
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
        "the server refuses the login: ",
        "`openai` answers: text, says `",
    ] {
        assert!(seen.contains(words), "{words}\n{seen}");
    }
    for secret in [PASSWORD, SMTP_PASSWORD, KEY] {
        assert!(!seen.contains(secret), "a secret was shown\n{seen}");
    }
    let secrets = world.read(".secrets");
    assert!(secrets.contains(&format!("ATTACHE_IMAP_PASSWORD={PASSWORD}\n")));
    assert!(secrets.contains(&format!("ATTACHE_SMTP_PASSWORD=\"{SMTP_PASSWORD}\"\n")));
    world.ok(&["config", "check"]).await;
}

#[tokio::test]
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
        "imap or folder [imap]: ",
        "IMAP server [127.0.0.1]: ",
        "or none [none]: ",
        "usual one",
        "user of the mailbox",
        "for none [-]: ",
        "the mailbox's password [as it is], which is not shown: ",
        "smarthost or folder [smarthost]: ",
        "server that sends [127.0.0.1]: ",
        "or none [none]: ",
        "usual one",
        "for none [ada]: ",
        "no other address [plain]: ",
        "the user's password [as it is], which is not shown: ",
        "provider of the model [openai]: ",
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
