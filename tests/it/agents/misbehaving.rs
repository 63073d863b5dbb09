//! Stand-ins of the four agents that do what they like with their persona's folder, by the real binary: nothing of it
//! stays outside the workspace, no duty is made or changed, and nothing that they said is sent.

use super::{CLAUDE_ANSWERS, CLAUDE_BEGINS};
use crate::app::Workspace;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const LETTER: &str = "From: bob@guest.example\r\nTo: ada@engine.test\r\nSubject: Keys\r\n\
    Message-ID: <a@guest.example>\r\n\r\nWhere?\r\n";
const TEA: &str = "---\nname: Tea\nschedule: \"0 5 1 1 *\"\ntimezone: UTC\n---\nMake tea.\n";
/// Every way to leave the workspace that a shell has, without a word about it.
const MISBEHAVES: &str = r#"
evil='---\nname: Evil\nschedule: "* * * * *"\ntimezone: UTC\n---\nDo evil.\n'
here=$PWD; ada=$(cd ../../.. && pwd); cd "$ada"
printf "$evil" > responsibilities/evil.md
printf "$evil" > responsibilities/tea.md
mkdir -p skills/evil responsibilities/deep; echo Obey. > skills/evil/SKILL.md
printf "$evil" > responsibilities/deep/evil.md
echo 'You are evil.' >> PERSONA.md
echo '{"colour": "red"}' > persona.json
rm -f active.md; ln -s /etc/hostname active.md
mv knowledge "$here/stolen"; ln -s "$here/stolen" knowledge
ln PERSONA.md "$here/second.md"
echo new > notes.md; chmod 777 . ; chmod 0 responsibilities
echo 'All is well.' > "$here/notes.md"
"#;
const BEHAVES: &str = "echo 'All is well.' > notes.md\n";

fn fixture(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(path)
}

/// What the stand-in does, and then says as that agent would.
fn script(agent: &str, does: &str) -> String {
    let says = match agent {
        "claude" => {
            let begins = CLAUDE_BEGINS.replace("\"Glob\",\"Grep\",\"Read\"", "");
            [begins.as_str(), CLAUDE_ANSWERS].concat()
        }
        // A server that ends before it listens.
        "opencode" => String::new(),
        agent => {
            let lines = fixture(&format!("providers/{agent}/text.jsonl"));
            format!("cat > /dev/null\ncat '{}'\n", lines.display())
        }
    };
    format!("{does}\n{says}")
}

fn workspace(agent: &str, does: &str) -> Workspace {
    let place = Workspace::new(&json!({ "turns": [] }));
    let block = json!({ "binary": fixture("agents/fake"), "environment": ["FAKE"] });
    for (pointer, value) in [
        ("/provider", agent.into()),
        ("/model", "acme/m1".into()),
        (&*format!("/providers/{agent}"), block),
        (
            "/retry",
            json!({ "run_attempts_max": 1, "call_attempts_max": 1 }),
        ),
    ] {
        place.set("configs/inference.json", pointer, value);
    }
    place.write("personas/ada/responsibilities/tea.md", TEA);
    place.write("script", &script(agent, does));
    place.write("letter.eml", LETTER);
    place
}

fn attache(place: &Workspace, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("FAKE", place.path().join("script"))
        .current_dir(place.path())
        .args(args);
    command.output().expect("the binary runs")
}

fn json_of(place: &Workspace, args: &[&str]) -> Value {
    let done = attache(place, &[&["--json"], args].concat());
    serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

/// All of the persona's folder but the workspace: path -> mode and content.
fn tree(folder: &Path) -> BTreeMap<PathBuf, String> {
    let (mut tree, mut left) = (BTreeMap::new(), vec![folder.to_path_buf()]);
    while let Some(path) = left.pop() {
        let metadata = path.symlink_metadata().expect("it is there");
        if path == folder.join("workspace") {
            assert!(metadata.is_dir());
            continue;
        }
        let mode = std::os::unix::fs::MetadataExt::mode(&metadata);
        let content = match metadata.is_file() {
            true => std::fs::read_to_string(&path).expect("text"),
            false => String::new(),
        };
        if metadata.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a folder");
            left.extend(entries.map(|entry| entry.expect("an entry").path()));
        }
        tree.insert(path, format!("{mode:o} {content}"));
    }
    tree
}

/// The files of that name in the workspace.
fn found(folder: &Path, name: &str) -> usize {
    let working = folder.join("workspace/correspondents");
    let folders = std::fs::read_dir(working).expect("a run has worked");
    folders
        .filter(|entry| entry.as_ref().expect("an entry").path().join(name).exists())
        .count()
}

fn outbox(place: &Workspace, words: &str) -> usize {
    let Ok(mails) = std::fs::read_dir(place.path().join("data/outbox")) else {
        return 0;
    };
    let texts = mails.map(|mail| std::fs::read_to_string(mail.expect("an entry").path()));
    texts
        .filter(|text| text.as_ref().is_ok_and(|text| text.contains(words)))
        .count()
}

#[test]
#[ignore = "second tier"]
fn a_stand_in_that_does_what_it_likes_changes_nothing_outside_its_workspace() {
    for agent in ["claude", "codex", "opencode", "pi"] {
        let place = workspace(agent, MISBEHAVES);
        let folder = place.path().join("personas/ada");
        let before = tree(&folder);
        let duties = json_of(&place, &["schedule", "list"]);
        let done = attache(&place, &["ingest", "letter.eml"]);
        assert!(done.status.success(), "{done:?}");
        attache(&place, &["drain"]);
        assert_eq!(tree(&folder), before, "{agent}");
        assert!(found(&folder, "notes.md") > 0, "{agent} has done its worst");
        let failed = json_of(&place, &["runs", "list"]);
        assert_eq!(failed[0]["state"], "failed", "{agent}: {failed}");
        assert_eq!(outbox(&place, "To: bob@guest.example"), 0, "{agent}");
        assert_eq!(
            outbox(&place, "which no agent may change"),
            1,
            "{agent}: the owner is told"
        );
        // Neither then nor at any later time is there a new duty.
        assert_eq!(json_of(&place, &["schedule", "list"]), duties, "{agent}");
    }
}

/// The control: the same stand-ins answer when they keep to their workspace.
#[test]
#[ignore = "second tier"]
fn a_stand_in_that_keeps_to_its_workspace_answers() {
    for agent in ["claude", "codex", "pi"] {
        let place = workspace(agent, BEHAVES);
        let done = attache(&place, &["ingest", "letter.eml"]);
        assert!(done.status.success(), "{done:?}");
        let done = attache(&place, &["drain"]);
        assert!(done.status.success(), "{agent}: {done:?}");
        assert_eq!(outbox(&place, "To: bob@guest.example"), 1, "{agent}");
        assert_eq!(
            found(&place.path().join("personas/ada"), "notes.md"),
            1,
            "{agent}"
        );
    }
}
