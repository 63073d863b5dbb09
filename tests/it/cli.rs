//! The command line as its users meet it: the real binary, its output, its exit codes.

mod output;
mod persona;
mod persona_files;
mod service_manager;

use crate::app::database::is_sqlite_only;
use attache::cli::sample;
use attache::cli::screen::Screen;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// The binary, with an environment that says nothing.
fn attache(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    let ours = [
        "ATTACHE_WORKSPACE",
        "ATTACHE_LOG",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "CLICOLOR_FORCE",
    ];
    for name in ours {
        command.env_remove(name);
    }
    command.args(args);
    command
}

struct Answer {
    code: i32,
    stdout: String,
    stderr: String,
}

fn answer(mut command: Command) -> Answer {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    Answer {
        code: status.code().expect("no signal"),
        stdout: text(stdout),
        stderr: text(stderr),
    }
}

/// The guest house.
struct Workspace(TempDir);

impl Workspace {
    fn new() -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        crate::guest_house::write(folder.path());
        Self(folder)
    }
    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }
    fn run(&self, args: &[&str]) -> Answer {
        answer(attache(
            &[&["--workspace", text(self.0.path())], args].concat(),
        ))
    }
    fn json(&self, args: &[&str]) -> Value {
        let said = self.run(&[args, &["--json"]].concat());
        assert_eq!(said.code, 0, "{}", said.stderr);
        serde_json::from_str(&said.stdout).expect("one JSON value")
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of plain characters")
}

/// Every file below a folder of the repository, by its path from the root.
fn files_below(folder: &str) -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut files, mut folders) = (BTreeSet::new(), vec![root.join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(text(path.strip_prefix(root).expect("below the root")).to_owned());
            }
        }
    }
    files
}

#[test]
fn no_sample_file_is_forgotten() {
    let in_repository = files_below("configs")
        .into_iter()
        .chain(files_below("personas"))
        .collect::<BTreeSet<_>>();
    let embedded = sample::FILES.iter().map(|(path, _)| (*path).to_owned());
    let embedded = embedded
        .filter(|path| path != ".gitignore")
        .collect::<BTreeSet<_>>();
    let missing = in_repository.difference(&embedded).collect::<Vec<_>>();
    assert!(
        missing.is_empty(),
        "add these to FILES in src/cli/sample.rs: {missing:?}"
    );
}

#[test]
fn a_broken_configuration_lists_its_problems_and_exits_with_65() {
    let workspace = Workspace::new();
    let gateway = "{\n  \"mail_domain\": \"guesthouse.example\",\n  \"listners\": []\n}\n";
    std::fs::write(workspace.path("configs/gateway.json"), gateway).expect("an edit");
    let problem = "configs/gateway.json:3:3: listners: unknown key; did you mean `listeners`?";

    let checked = workspace.run(&["config", "check"]);
    assert_eq!(
        (checked.code, checked.stdout),
        (65, format!("{problem}\n1 problem\n"))
    );
    let checked = workspace.run(&["--json", "config", "check"]);
    let report: Value = serde_json::from_str(&checked.stdout).expect("one JSON value");
    let problems = &report["problems"];
    assert_eq!(
        (checked.code, &problems[0]["line"], &problems[0]["path"]),
        (65, &3.into(), &"listners".into())
    );
    let shown = workspace.run(&["config", "show"]);
    assert_eq!((shown.code, shown.stdout.as_str()), (65, ""));
    assert_eq!(shown.stderr, format!("error: {problem}\n"));
}

#[test]
fn a_folder_that_is_no_workspace_is_refused_and_left_alone() {
    let folder = TempDir::new().expect("a temporary folder");
    for args in [["config", "check"], ["config", "show"], ["persona", "list"]] {
        let mut command = attache(&args);
        command.current_dir(folder.path());
        let said = answer(command);
        assert_eq!(said.code, 78, "{args:?}: {}", said.stderr);
        assert!(
            said.stderr.contains("is not a workspace") && said.stderr.contains("\nhint: "),
            "{}",
            said.stderr
        );
    }
    assert_eq!(
        std::fs::read_dir(folder.path())
            .expect("the folder")
            .count(),
        0
    );
}

#[test]
fn the_workspace_is_an_option_a_variable_or_the_current_folder() {
    let workspace = Workspace::new();
    let mut by_variable = attache(&["persona", "list"]);
    by_variable
        .env("ATTACHE_WORKSPACE", workspace.0.path())
        .current_dir("/");
    let mut by_folder = attache(&["persona", "list"]);
    by_folder.current_dir(workspace.0.path());
    let expected = workspace.run(&["persona", "list"]).stdout;
    assert_eq!(answer(by_variable).stdout, expected);
    assert_eq!(answer(by_folder).stdout, expected);
}

#[test]
fn a_piped_listing_is_tab_separated_without_headings_or_colours() {
    let listed = Workspace::new().run(&["persona", "list"]);
    let rows = listed
        .stdout
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .collect::<Vec<_>>();
    let concierge = [
        "concierge",
        "concierge@guesthouse.example",
        "Lena, Lindenhof Guest House",
    ];
    assert_eq!(rows[0][..3], concierge);
    assert_eq!((rows.len(), rows[1][0]), (2, "digest"));
    assert!(!listed.stdout.contains('\u{1b}'));
}

#[test]
fn a_piped_listing_begins_with_its_headings_when_asked_for_them() {
    let workspace = Workspace::new();
    let listed = workspace.run(&["persona", "list", "--header"]).stdout;
    let plain = workspace.run(&["persona", "list"]).stdout;
    assert_eq!(listed, format!("ID\tADDRESS\tNAME\tALIASES\n{plain}"));
    // An empty list has headings all the same, and nothing else.
    assert_eq!(workspace.run(&["outbox", "list"]).stdout, "");
    let headings = "ID\tPERSONA\tSTATE\tTRIES\tNEXT\tTO\tSUBJECT\n";
    assert_eq!(
        workspace.run(&["--header", "outbox", "list"]).stdout,
        headings
    );
}

#[test]
fn settings_are_shown_by_file_and_secrets_are_not() {
    let workspace = Workspace::new();
    let args = ["--workspace", text(workspace.0.path()), "config", "show"];
    let mut command = attache(&args);
    command.env("ATTACHE_SMTP_PASSWORD", "hunter2");
    let shown = answer(command);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert!(
        shown
            .stdout
            .starts_with("configs/gateway.json\n  mail_domain = \"guesthouse.example\"\n")
    );
    assert!(
        shown.stdout.contains("\n  max_tool_turns = 8\n")
            && shown.stdout.contains("api_key = (none)")
    );
    assert!(!shown.stdout.contains("hunter2"));
    let files = workspace.json(&["config", "show"]);
    assert_eq!(files["personas/digest/persona.json"]["reply"], "tool_only");
}

#[test]
fn every_schema_can_be_printed_and_written() {
    let workspace = Workspace::new();
    let all = workspace.json(&["config", "schema"]);
    let one = workspace.json(&["config", "schema", "gateway"]);
    assert_eq!(all["gateway"], one);
    assert_eq!(one["required"], serde_json::json!(["mail_domain"]));
    std::fs::remove_dir_all(workspace.path("configs/schema")).expect("a removal");
    assert_eq!(workspace.run(&["config", "schema", "--write"]).code, 0);
    let written = std::fs::read_to_string(workspace.path("configs/schema/gateway.json"))
        .expect("it was written");
    assert_eq!(serde_json::from_str::<Value>(&written).expect("JSON"), one);
}

#[test]
fn wrong_command_lines_exit_with_2_and_help_with_0() {
    for args in [
        &["confg"][..],
        &["config"],
        &["config", "check", "--colour"],
        &["--log", "=,=", "config", "check"],
    ] {
        let said = answer(attache(args));
        assert_eq!(
            (said.code, said.stdout.as_str()),
            (2, ""),
            "{args:?}: {}",
            said.stderr
        );
    }
    let help = answer(attache(&["--help"]));
    assert_eq!((help.code, help.stderr.as_str()), (0, ""));
    assert!(help.stdout.contains("Usage: attache"));
    // As `git help` and `cargo help` have taught.
    for (args, wanted) in [
        (&["help"][..], "Usage: attache"),
        (&["help", "runs"], "Usage: attache runs"),
        (&["help", "runs", "list"], "Usage: attache runs list"),
    ] {
        let help = answer(attache(args));
        assert_eq!((help.code, help.stderr.as_str()), (0, ""), "{args:?}");
        assert!(help.stdout.contains(wanted), "{args:?}: {}", help.stdout);
    }
}

#[test]
fn log_lines_go_to_stderr_in_the_wanted_shape() {
    let workspace = Workspace::new();
    let args = [
        "--workspace",
        text(workspace.0.path()),
        "--log",
        "trace",
        "--log-format",
        "json",
        "config",
        "check",
    ];
    let said = answer(attache(&args));
    assert_eq!(
        (said.code, said.stdout.lines().next()),
        (0, Some("the configuration is good"))
    );
    let lines = said
        .stderr
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect(line))
        .collect::<Vec<_>>();
    let started = lines
        .iter()
        .find(|line| line["message"] == "command starts")
        .expect("the first line");
    assert_eq!(
        (&started["command"], &started["level"]),
        (&"config".into(), &"DEBUG".into())
    );
}

/// A place to print to that the test can read afterwards.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0
            .lock()
            .expect("no writer panicked")
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What a listing of two mails, one of them hostile, looks like.
fn printed(terminal: bool, json: bool) -> String {
    let paper = Paper::default();
    let screen = Screen::new(Box::new(paper.clone()), terminal, json);
    let mails = [
        ("1", "Hello"),
        ("22", "\u{1b}[2J\u{9b}31mPay\nnow\tplease\u{202e}"),
    ];
    screen
        .list(&mails, &["ID", "SUBJECT"], "no mail", |(id, subject)| {
            vec![(*id).to_owned(), (*subject).to_owned()]
        })
        .expect("paper takes everything");
    let bytes = paper.0.lock().expect("no writer panicked").clone();
    String::from_utf8(bytes).expect("text")
}

#[test]
fn a_listing_suits_its_reader_mail_never_drives_the_terminal() {
    assert_eq!(printed(false, false), "1\tHello\n22\t31mPay now please\n");
    assert_eq!(
        printed(true, false),
        "\u{1b}[1mID  SUBJECT\u{1b}[0m\n1   Hello\n22  31mPay now please\n"
    );
    let json = printed(true, true);
    assert!(!json.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{json:?}");
    let rows: Value = serde_json::from_str(&json).expect("one JSON value");
    assert_eq!(rows[1][1], "\u{1b}[2J\u{9b}31mPay\nnow\tplease\u{202e}");
}

#[test]
fn a_check_finds_what_would_fail_the_first_run() {
    let workspace = Workspace::new();
    let write =
        |path: &str, text: &str| std::fs::write(workspace.path(path), text).expect("an edit");
    write("configs/demo-script.json", "{ \"turns\": 1 }");
    write("configs/prompts/system.md", "{% if %}");
    std::fs::remove_file(workspace.path("configs/prompts/security.md")).expect("a removal");
    std::fs::remove_file(workspace.path("personas/digest/PERSONA.md")).expect("a removal");
    write(
        "personas/digest/responsibilities/weekday-digest.md",
        "---\nname: x\nschedule: 61 9 * * *\n---\nHello\n",
    );
    std::fs::write(workspace.path("personas/concierge/PERSONA.md"), b"K\xfcche").expect("an edit");
    let checked = workspace.run(&["config", "check"]);
    assert_eq!(checked.code, 65, "{}", checked.stdout);
    for found in [
        "personas/concierge/PERSONA.md: not UTF-8",
        "configs/inference.json:14:17: providers.scripted: provider `scripted` (default) cannot be used: ",
        "configs/prompts/system.md: syntax error: ",
        "configs/context.json:5:5: thread[1]: no file `configs/prompts/security.md`; a path is relative to the workspace",
        "personas/digest/PERSONA.md: does not exist; write into it who ",
        "personas/digest/responsibilities/weekday-digest.md: line 3: `schedule`: ",
    ] {
        assert!(
            checked.stdout.contains(found),
            "no `{found}` in {}",
            checked.stdout
        );
    }
}

#[test]
fn a_database_that_is_none_is_left_alone_and_says_what_to_do() {
    if is_sqlite_only("a file that is no database") {
        return;
    }
    let workspace = Workspace::new();
    std::fs::create_dir(workspace.path("data")).expect("a folder");
    let garbage = "no database ".repeat(1000);
    std::fs::write(workspace.path("data/attache.db"), &garbage).expect("a file");
    for args in [&["runs", "list"][..], &["drain"]] {
        let said = workspace.run(args);
        assert_eq!(said.code, 65, "{args:?}: {}", said.stderr);
        assert!(
            said.stderr.contains("file is not a database"),
            "{}",
            said.stderr
        );
        assert!(
            said.stderr
                .contains("\nhint: keep a copy of `data` as it is"),
            "{}",
            said.stderr
        );
    }
    let kept = std::fs::read_to_string(workspace.path("data/attache.db")).expect("the file");
    assert!(kept == garbage, "the file was changed");
}
