//! The engine is killed with SIGKILL while its agent works: what the agent started dies with it, or with the next engine's
//! start; what is not this engine's lives on. The programs say that they live by answering a ping.

use super::{CLAUDE_ANSWERS, CLAUDE_BEGINS};
use crate::app::Workspace;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LETTER: &str = "From: bob@guest.example\r\nTo: ada@engine.test\r\nSubject: Keys\r\n\
    Message-ID: <a@guest.example>\r\n\r\nWhere?\r\n";
/// Lives until it is killed, and moves `NAME.ping` to `NAME.pong`.
const STAY: &str =
    "while :; do [ -e \"$OUT/$1.ping\" ] && mv \"$OUT/$1.ping\" \"$OUT/$1.pong\"; sleep 0.05; done";
/// While there is a file `stays`: three programs that stay, of which the last has left the group.
const STAYS: &str = "if [ -e \"$OUT/stays\" ]; then sh \"$OUT/stay\" beside & setsid sh \"$OUT/stay\" apart & \
    exec sh \"$OUT/stay\" agent; fi";
const BOUND: Duration = Duration::from_secs(20);

fn fake() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/agents/fake")
}

/// What an agent does that first does this, and then answers.
fn script(first: &str) -> String {
    // Nobody proved the letter, so the agent has no tools of its own.
    let begins = CLAUDE_BEGINS.replace("\"Glob\",\"Grep\",\"Read\"", "");
    [first, begins.as_str(), CLAUDE_ANSWERS].join("\n")
}

/// A folder in which an agent's programs stay.
struct StepPair(tempfile::TempDir);

impl StepPair {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let write =
            |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect(name);
        write("stay", STAY);
        write("stays", "");
        write("script", &script(STAYS));
        Self(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A command that sees this stage and no key.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("FAKE", self.path("script"));
        command
            .env("OUT", self.0.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    fn attache(&self, place: &Workspace, args: &[&str]) -> Command {
        let mut command = self.command(Path::new(env!("CARGO_BIN_EXE_attache")));
        command.current_dir(place.path()).args(args);
        command
    }

    /// It answers, within the bound.
    fn lives(&self, name: &str) {
        let (ping, pong) = (
            self.path(&format!("{name}.ping")),
            self.path(&format!("{name}.pong")),
        );
        std::fs::write(&ping, "").expect("a ping");
        wait(&format!("`{name}` does not live"), || pong.exists());
        std::fs::remove_file(&pong).expect("a pong");
    }

    /// It is gone, within the bound.
    fn dies(&self, name: &str) {
        wait(&format!("`{name}` lives on"), || self.pids(name).is_empty());
    }

    fn pids(&self, name: &str) -> Vec<String> {
        let wanted = format!("sh\0{}\0{name}\0", self.path("stay").display());
        let entries = std::fs::read_dir("/proc")
            .expect("this system has /proc")
            .flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names
            .filter(|pid| {
                std::fs::read(format!("/proc/{pid}/cmdline"))
                    .is_ok_and(|line| line == wanted.as_bytes())
            })
            .collect()
    }
}

impl Drop for StepPair {
    fn drop(&mut self) {
        for name in ["agent", "beside", "apart", "fled"] {
            for pid in self.pids(name) {
                let _gone = Command::new("kill").args(["-9", &pid]).status();
            }
        }
    }
}

fn wait(failure: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < BOUND, "{failure}");
        crate::app::blink();
    }
}

/// A workspace whose provider is the fake.
fn workspace() -> Workspace {
    let place = Workspace::new(&json!({ "turns": [] }));
    let block = json!({ "binary": fake(), "environment": ["FAKE", "OUT"] });
    place.set("configs/inference.json", "/provider", "claude".into());
    place.set("configs/inference.json", "/providers/claude", block);
    place.write("letter.eml", LETTER);
    place
}

fn kill(mut engine: Child) {
    engine.kill().expect("SIGKILL");
    engine.wait().expect("it is gone");
}

fn succeeds(mut command: Command) {
    let done = command
        .stdout(Stdio::piped())
        .output()
        .expect("the binary runs");
    assert!(done.status.success(), "{done:?}");
}

#[test]
#[ignore = "second tier"]
fn what_an_agent_started_dies_with_its_engine_or_the_next_one() {
    let (pair, place) = (StepPair::new(), workspace());
    succeeds(pair.attache(&place, &["ingest", "letter.eml"]));
    let engine = pair
        .attache(&place, &["drain"])
        .spawn()
        .expect("the binary runs");
    for name in ["agent", "beside", "apart"] {
        pair.lives(name);
    }
    kill(engine);
    pair.dies("agent");
    pair.dies("beside");
    // The control of what follows: nothing but the next start ends it.
    pair.lives("apart");

    let (other_stage, elsewhere) = (StepPair::new(), workspace());
    succeeds(other_stage.attache(&elsewhere, &["drain"]));
    pair.lives("apart");
    // A living process beside the engine keeps its agent, too.
    let mut trial =
        other_stage.attache(&place, &["providers", "test", "claude", "--model", "test"]);
    let trial = trial.spawn().expect("the binary runs");
    other_stage.lives("agent");
    other_stage.lives("apart");

    std::fs::remove_file(pair.path("stays")).expect("the next call answers");
    succeeds(pair.attache(&place, &["drain"]));
    pair.dies("apart");
    other_stage.lives("agent");
    other_stage.lives("apart");
    let mails = std::fs::read_dir(place.path().join("data/outbox"))
        .expect("an outbox")
        .count();
    assert_eq!(mails, 1, "the letter was answered by the next engine");

    kill(trial);
    other_stage.dies("agent");
    other_stage.lives("apart");
    succeeds(pair.attache(&place, &["drain"]));
    other_stage.dies("apart");
}

/// The control: by itself, the same agent outlives who started it.
#[test]
fn the_same_agent_outlives_another_parent() {
    let pair = StepPair::new();
    let mut parent = pair.command(Path::new("/bin/sh"));
    parent.args(["-c", "\"$0\" & wait"]).arg(fake());
    let parent = parent.spawn().expect("a shell");
    pair.lives("agent");
    kill(parent);
    for name in ["agent", "beside", "apart"] {
        pair.lives(name);
    }
}

/// Leaves its group, its environment and its parent behind.
const FLEES: &str = "(setsid env -i OUT=\"$OUT\" PATH=\"$PATH\" sh \"$OUT/stay\" fled &)\n\
    while [ ! -e \"$OUT/go\" ]; do sleep 0.05; done";

#[test]
#[ignore = "second tier"]
fn what_threw_its_environment_away_dies_with_its_call() {
    let (pair, place) = (StepPair::new(), workspace());
    std::fs::write(pair.path("script"), script(FLEES)).expect("a script");
    succeeds(pair.attache(&place, &["ingest", "letter.eml"]));
    let mut engine = pair
        .attache(&place, &["drain"])
        .spawn()
        .expect("the binary runs");
    pair.lives("fled");
    std::fs::write(pair.path("go"), "").expect("the agent goes on");
    assert!(engine.wait().expect("an end").success());
    pair.dies("fled");
}
