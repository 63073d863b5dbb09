//! Commands in the sandbox: what they can and cannot do, who gets them, what is kept of them. Without bubblewrap the tests that
//! need it say SKIPPED.

mod absent;
mod bounds;
mod killed;
mod letters;
mod locked;

use attache::shell::{CommandEnd, CommandLimits, CommandOrder, CommandResult, CommandSandbox};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Reports whether a program is there.
fn has(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .any(|folder| Path::new(folder).join(program).is_file())
}

/// Reports whether these programs are there, and says SKIPPED otherwise.
pub fn is_there(programs: &[&str]) -> bool {
    let missing: Vec<_> = programs.iter().filter(|program| !has(program)).collect();
    if !missing.is_empty() {
        println!("SKIPPED: a command in the sandbox, because {missing:?} is not installed");
    }
    missing.is_empty()
}

/// A sandbox with an empty workspace.
struct Yard {
    sandbox: CommandSandbox,
    folder: TempDir,
}

impl Yard {
    fn new() -> Self {
        Self::within(CommandLimits::default())
    }

    fn within(limits: CommandLimits) -> Self {
        let program = env!("CARGO_BIN_EXE_attache").into();
        Self {
            sandbox: CommandSandbox::new(program, limits),
            folder: TempDir::new().expect("a folder"),
        }
    }

    fn order(&self, argv: &[&str]) -> CommandOrder {
        CommandOrder {
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            folder: String::new(),
            workspace: self.folder.path().to_owned(),
            hidden: Vec::new(),
            read_only: Vec::new(),
            workspace_is_full: false,
            workspace_bytes_max: 64 * 1024 * 1024,
            workspace_files_max: 1000,
        }
    }

    async fn run(&self, argv: &[&str]) -> CommandResult {
        let result = self.sandbox.run(&self.order(argv)).await;
        result.unwrap_or_else(|error| panic!("{argv:?}: {error}"))
    }

    async fn sh(&self, script: &str) -> CommandResult {
        self.run(&["sh", "-c", script]).await
    }

    /// What a script writes to standard output, whatever its end.
    async fn said(&self, script: &str) -> String {
        self.sh(script).await.stdout.head
    }

    /// What Python says, line by line.
    async fn python(&self, script: &str) -> CommandResult {
        self.run(&["python3", "-c", script]).await
    }
}

/// Processes of this machine whose command line has the word.
fn alive(word: &str) -> Vec<String> {
    let output = Command::new("ps").args(["-eo", "pid,args", "-ww"]).output();
    let output = output.expect("ps");
    let listed = String::from_utf8_lossy(&output.stdout);
    let lines = listed
        .lines()
        .filter(|line| line.contains(word) && !line.contains("ps -eo"));
    lines.map(str::to_owned).collect()
}

#[tokio::test]
async fn a_command_reads_and_writes_its_workspace_and_says_how_it_ended() {
    if !is_there(&["bwrap"]) {
        return;
    }
    let yard = Yard::new();
    std::fs::write(yard.folder.path().join("guests.txt"), "Ada\nBea\n").expect("a file");
    let counted = yard.run(&["wc", "-l", "guests.txt"]).await;
    assert_eq!(counted.end, CommandEnd::Exited(0));
    assert_eq!(counted.stdout.head, "2 guests.txt\n");
    let wrote = yard
        .sh("mkdir -p out && sort -r guests.txt >out/sorted && pwd; echo no >&2; exit 3")
        .await;
    assert_eq!(wrote.end, CommandEnd::Exited(3));
    assert_eq!(
        (wrote.stdout.head.as_str(), wrote.stderr.head.as_str()),
        ("/workspace\n", "no\n")
    );
    let sorted = std::fs::read_to_string(yard.folder.path().join("out/sorted"));
    assert_eq!(sorted.expect("a file"), "Bea\nAda\n");
    let mut below = yard.order(&["cat", "sorted"]);
    below.folder = "out".to_owned();
    let below = yard.sandbox.run(&below).await.expect("run");
    assert_eq!(below.stdout.head, "Bea\nAda\n");
    let mut nowhere = yard.order(&["true"]);
    nowhere.folder = "nope".to_owned();
    let nowhere = yard.sandbox.run(&nowhere).await.expect("run");
    assert!(matches!(nowhere.end, CommandEnd::NotStarted(why) if why.contains("`nope`")));
    let unknown = yard.run(&["no-such-program"]).await;
    assert!(matches!(unknown.end, CommandEnd::NotStarted(why) if why.contains("no-such-program")));
    let killed = yard.sh("kill -9 $$").await;
    assert_eq!(killed.end, CommandEnd::Signalled(9));
    let stdin = yard.run(&["cat"]).await;
    assert_eq!(
        (stdin.end, stdin.stdout.bytes),
        (CommandEnd::Exited(0), 0),
        "no standard input"
    );
}
