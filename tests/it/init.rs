//! `attache init`: a workspace with one persona of one's own, and nothing that somebody else invented.

use crate::guest_house::{Said, attache, run};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use tempfile::TempDir;

const WANTED: &[&str] = &[
    "init",
    "house",
    "--domain",
    "harbour.example",
    "--owner",
    "olga@home.test",
];

fn init(folder: &Path, more: &[&str]) -> Said {
    run(folder, &[WANTED, more].concat())
}

fn read(folder: &Path, path: &str) -> String {
    std::fs::read_to_string(folder.join("house").join(path))
        .unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every file of the workspace with what it says, but the schemas and prices, which name vendors and models.
fn texts(folder: &Path) -> Vec<(String, String)> {
    let (mut texts, mut folders) = (Vec::new(), vec![folder.join("house")]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    texts.push((
                        path.display().to_string(),
                        std::fs::read_to_string(&path).expect("text"),
                    ));
                }
            }
        }
    }
    texts
}

#[test]
fn a_new_workspace_has_its_owners_persona_and_no_guest_house() {
    let folder = TempDir::new().expect("a temporary folder");
    let said = init(
        folder.path(),
        &["--persona", "paul", "--name", "Paul \"the\" porter"],
    );
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    assert!(
        said.stdout.contains("wrote personas/paul/PERSONA.md\n"),
        "{}",
        said.stdout
    );
    assert!(
        said.stdout
            .contains("\npaul@harbour.example is ready for a first letter: "),
        "{}",
        said.stdout
    );
    for (path, text) in texts(folder.path()) {
        for foreign in [
            "guesthouse",
            "Lindenhof",
            "marta",
            "Lena",
            "traveller",
            "postmaster",
        ] {
            assert!(
                !text.contains(foreign) || path.contains("/schema/"),
                "{path} says `{foreign}`"
            );
        }
    }
    let house = folder.path().join("house");
    assert_eq!(run(&house, &["config", "check"]).code, 0);
    let listed: Value =
        serde_json::from_str(&run(&house, &["persona", "list", "--json"]).stdout).expect("JSON");
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
    assert_eq!(
        (
            &listed[0]["address"],
            &listed[0]["name"],
            &listed[0]["aliases"]
        ),
        (
            &"paul@harbour.example".into(),
            &"Paul \"the\" porter".into(),
            &serde_json::json!([])
        )
    );
    let duties: Value =
        serde_json::from_str(&run(&house, &["schedule", "list", "--json"]).stdout).expect("JSON");
    assert_eq!(duties, serde_json::json!([]));
    assert_eq!(read(folder.path(), ".gitignore"), "/.secrets\n/data/\n");
}

#[test]
fn a_new_workspace_has_bounds_on_a_day_also_with_a_model_that_is_paid() {
    let folder = TempDir::new().expect("a temporary folder");
    assert_eq!(init(folder.path(), &[]).code, 0);
    let house = folder.path().join("house");
    let parsed =
        |path: &str| -> Value { serde_json::from_str(&read(folder.path(), path)).expect("JSON") };
    let mut inference = parsed("configs/inference.json");
    assert_eq!(inference["budget"]["day_tokens_max"], 5_000_000);
    assert_eq!(inference["budget"]["persona_day_mails_max"], 200);
    let gateway = parsed("configs/gateway.json");
    assert_eq!(gateway["limits"]["domain_runs_per_day_max"], 30);
    let keeping = parsed("configs/keeping.json");
    assert_eq!(
        keeping["retention"],
        serde_json::json!({ "unproven": "30d" })
    );
    inference["provider"] = "ollama".into();
    inference["model"] = "small".into();
    for (is_bounded, warned) in [(true, false), (false, true)] {
        if !is_bounded {
            inference["budget"] = serde_json::json!({});
        }
        std::fs::write(house.join("configs/inference.json"), inference.to_string())
            .expect("a file");
        let said = run(&house, &["config", "check"]);
        assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
        let text = said.stdout + &said.stderr;
        assert_eq!(text.contains("nothing bounds what a day"), warned, "{text}");
    }
}

#[test]
fn the_first_letter_is_answered_without_any_edit() {
    let folder = TempDir::new().expect("a temporary folder");
    assert_eq!(init(folder.path(), &[]).code, 0);
    let house = folder.path().join("house");
    let letter = "From: Olga <olga@home.test>\nSubject: Hello\n\nAre you there?\n";
    std::fs::write(house.join("first.eml"), letter).expect("a letter");
    let taken = run(
        &house,
        &["ingest", "--to", "assistant@harbour.example", "first.eml"],
    );
    // Nothing proves that Olga wrote it, and the hint says what to type.
    assert!(
        taken
            .stdout
            .contains("filed without a run (unauthenticated)"),
        "{}",
        taken.stdout
    );
    assert!(
        taken.stderr.starts_with("hint: `attache runs answer "),
        "{}",
        taken.stderr
    );
    assert_eq!(run(&house, &["runs", "answer", "last"]).code, 0);
    let drained = run(&house, &["drain"]);
    assert!(
        drained.stdout.contains("1 succeeded"),
        "{}{}",
        drained.stdout,
        drained.stderr
    );
    let mails = std::fs::read_dir(house.join("data/outbox"))
        .expect("an outbox")
        .flatten();
    let mails: Vec<String> = mails
        .map(|mail| std::fs::read_to_string(mail.path()).expect("a mail"))
        .collect();
    assert!(
        mails
            .iter()
            .any(|mail| mail.contains("no model is configured yet")),
        "{mails:?}"
    );
}

#[test]
fn a_workspace_is_left_alone_and_what_was_removed_stays_removed() {
    let folder = TempDir::new().expect("a temporary folder");
    assert_eq!(init(folder.path(), &[]).code, 0);
    let house = folder.path().join("house");
    std::fs::remove_dir_all(house.join("personas/assistant")).expect("a removal");
    std::fs::remove_file(house.join("configs/prompts/system.md")).expect("a removal");
    let before: BTreeSet<_> = texts(folder.path()).into_iter().collect();
    let again = init(folder.path(), &["--persona", "paul"]);
    assert_eq!(again.code, 73, "{}", again.stdout);
    assert!(
        again
            .stderr
            .starts_with("error: `house` is a workspace already; nothing was written\nhint: ")
    );
    assert_eq!(
        texts(folder.path()).into_iter().collect::<BTreeSet<_>>(),
        before
    );
    // Without its gateway it is none, and gets back what belongs to no persona.
    std::fs::remove_file(house.join("configs/gateway.json")).expect("a removal");
    assert_eq!(init(folder.path(), &[]).code, 0);
    assert!(house.join("configs/prompts/system.md").is_file());
    assert_eq!(
        std::fs::read_dir(house.join("personas"))
            .expect("a folder")
            .count(),
        0
    );
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_written() {
    #[rustfmt::skip]
    let cases: &[(&[&str], &str)] = &[
        (&["--domain", "har bour", "--owner", "olga@home.test"], "`har bour` is not a mail domain"),
        (&["--domain", "me@harbour.example", "--owner", "olga@home.test"], "is not a mail domain"),
        (&["--domain", "harbour.example", "--owner", "olga"], "`olga` is not a mail address"),
        (&["--domain", "harbour.example", "--owner", "Assistant@harbour.example"], "is an owner's"),
        (
            &["--domain", "harbour.example", "--owner", "o@home.test", "--persona", "../x"],
            "is not a persona id",
        ),
        (
            &["--domain", "harbour.example", "--owner", "o@home.test", "--name", "a\u{1b}[2Jb"],
            "no control characters",
        ),
        (&["--domain", "harbour.example"], "--owner"),
        (&["--owner", "olga@home.test"], "--domain"),
    ];
    let folder = TempDir::new().expect("a temporary folder");
    for (args, complaint) in cases {
        let said = run(folder.path(), &[&["init", "house"], *args].concat());
        assert_eq!(said.code, 2, "{args:?}: {}", said.stderr);
        assert!(said.stderr.contains(complaint), "{args:?}: {}", said.stderr);
    }
    assert_eq!(
        std::fs::read_dir(folder.path())
            .expect("the folder")
            .count(),
        0
    );
    std::fs::write(folder.path().join("house"), "a file").expect("a file");
    let said = init(folder.path(), &[]);
    assert_eq!(said.code, 73, "{}", said.stderr);
    assert!(
        said.stderr
            .starts_with("error: cannot write `house/configs/"),
        "{}",
        said.stderr
    );
    assert!(said.stderr.contains("\n  caused by: "), "{}", said.stderr);
}

#[test]
fn a_missing_file_says_the_least_it_needs_and_that_is_enough() {
    let folder = TempDir::new().expect("a temporary folder");
    assert_eq!(init(folder.path(), &[]).code, 0);
    let house = folder.path().join("house");
    let files = ["gateway", "inference", "context", "security", "prices"]
        .map(|name| format!("configs/{name}.json"));
    for file in files
        .iter()
        .map(String::as_str)
        .chain(["personas/assistant/persona.json"])
    {
        let whole = read(folder.path(), file);
        std::fs::remove_file(house.join(file)).expect("a removal");
        let checked = run(&house, &["config", "check"]);
        let Some((_, hint)) = checked
            .stdout
            .split_once(&format!("{file}: there is no such file; write it: "))
        else {
            assert!(checked.code == 0, "{file}: {}", checked.stdout);
            std::fs::write(house.join(file), whole).expect("it is put back");
            continue;
        };
        assert!(!checked.stdout.contains("init"), "{}", checked.stdout);
        let (_, least) = hint.split_once('`').expect("an example");
        let (least, _) = least.split_once('`').expect("an end");
        std::fs::write(house.join(file), least).expect("a written file");
        let mut command = attache(&house, &["config", "check"]);
        let checked = command
            .env("ANTHROPIC_API_KEY", "sk-ant-1")
            .output()
            .expect("the binary runs");
        assert!(
            checked.status.success(),
            "{file}: {least}: {}",
            String::from_utf8_lossy(&checked.stdout)
        );
        std::fs::write(house.join(file), whole).expect("it is put back");
    }
}

/// What no prompt may say of what the same request offers: each found in prompts of other engines or in ours.
const DENIALS: [&str; 14] = [
    "nothing here can",
    "cannot open",
    "can not open",
    "cannot read attachments",
    "no access to",
    "you have no tools",
    "cannot search",
    "cannot browse",
    "cannot send",
    "cannot write files",
    "cannot remember",
    "have no memory",
    "cannot see pictures",
    "no calendar",
];

#[test]
fn no_prompt_denies_a_tool_that_is_offered() {
    let folder = TempDir::new().expect("a temporary folder");
    assert_eq!(init(folder.path(), &[]).code, 0);
    let catalog = attache::cli::name_catalog();
    let (mut prompts, mut named) = (0, 0);
    for (path, text) in texts(folder.path()) {
        if !path.ends_with(".md") {
            continue;
        }
        prompts += 1;
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for denial in DENIALS {
            assert!(
                !text.to_lowercase().contains(denial),
                "{path} says `{denial}`"
            );
        }
        let codes = text.split('`').skip(1).step_by(2);
        for tool in codes.filter(|code| code.contains('_') && !code.contains(' ')) {
            named += 1;
            assert!(
                catalog.tools.iter().any(|known| known == tool),
                "{path} names `{tool}`, which is no tool"
            );
        }
    }
    assert!(
        prompts >= 2 && named >= 1,
        "{prompts} prompts name {named} tools"
    );
}
