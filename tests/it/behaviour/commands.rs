//! The commands on workspaces that somebody has worked on: broken texts, odd files, runs in every state.

use crate::app::db;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tempfile::TempDir;

struct Said {
    code: i32,
    stdout: String,
    stderr: String,
}

struct House(TempDir);

impl House {
    fn new() -> Self {
        let house = Self(TempDir::new().expect("a temporary folder"));
        crate::guest_house::write(house.0.path());
        house.set("configs/gateway.json", "listeners", json!([]));
        house.set(
            "configs/security.json",
            "access",
            json!({ "allow": ["*@guest.example", "*@traveller.example"] }),
        );
        house
    }
    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }
    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path(path), text).expect("a written file");
    }
    fn set(&self, path: &str, key: &str, value: Value) {
        let text = std::fs::read_to_string(self.path(path)).expect("a file");
        let mut whole: Value = serde_json::from_str(&text).expect("json");
        whole[key] = value;
        self.write(path, whole.to_string());
    }
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
        for name in [
            "ATTACHE_WORKSPACE",
            "ATTACHE_LOG",
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
        ] {
            command.env_remove(name);
        }
        command.current_dir(self.0.path()).args(args);
        command
    }
    fn run_with(&self, args: &[&str], input: &str) -> Said {
        let mut command = self.command(args);
        let piped = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = piped.spawn().expect("the binary runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        // A command that reads nothing may be gone by now.
        if !input.is_empty() {
            stdin.write_all(input.as_bytes()).expect("input is read");
        }
        drop(stdin);
        let output = child.wait_with_output().expect("it ends");
        let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
        let code = output.status.code().expect("no signal");
        Said {
            code,
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
    fn run(&self, args: &[&str]) -> Said {
        self.run_with(args, "")
    }
    fn ok(&self, args: &[&str]) -> String {
        let said = self.run(args);
        assert_eq!(said.code, 0, "{args:?}: {}{}", said.stdout, said.stderr);
        said.stdout
    }
    fn json(&self, args: &[&str]) -> Value {
        let args = [&["--json"], args].concat();
        serde_json::from_str(&self.ok(&args)).unwrap_or_else(|error| panic!("{args:?}: {error}"))
    }
}

fn letter(to: &str, id: &str) -> String {
    format!(
        "From: Bob <bob@guest.example>\nTo: {to}@guesthouse.example\nSubject: Room\nMessage-ID: <{id}@guest.example>\n\
         \nIs there a room?\n"
    )
}

#[test]
#[ignore = "second tier"]
fn config_check_reads_texts_too_a_bad_one_stops_what_needs_it() {
    let house = House::new();
    house.write("configs/prompts/system.md", "You are {{ persona.nmae }}.");
    std::fs::remove_file(house.path("personas/digest/PERSONA.md")).expect("it was there");
    house.write(
        "personas/concierge/responsibilities/late.md",
        "---\nname: Late\nschedule: 0 25 * * *\n---\nWrite to {{ persona.name }}.\n",
    );
    let checked = house.run(&["config", "check"]);
    assert_eq!(checked.code, 65, "{}", checked.stdout);
    for said in [
        "configs/prompts/system.md:1",
        "late.md: line 3: `schedule`: the hour field `25`",
        "PERSONA.md",
    ] {
        assert!(
            checked.stdout.contains(said),
            "{said} is missing in {}",
            checked.stdout
        );
    }
    let again = house.run(&["config", "check", "--json"]);
    let report: Value = serde_json::from_str(&again.stdout).expect("one JSON value");
    let lines = checked.stdout.lines().count() - 1;
    assert_eq!(
        (again.code, report["problems"].as_array().map(Vec::len)),
        (65, Some(lines))
    );

    let run = house.json(&["ingest", "configs/demo/letter.eml"])[0]["copies"][0]["run"].clone();
    assert_eq!(house.run(&["drain"]).code, 1);
    let shown = house.json(&["runs", "show", run.as_str().expect("an id")]);
    let error = &shown["run"]["error"];
    assert_eq!(
        (&shown["run"]["state"], &error["class"]),
        (&json!("failed"), &json!("config"))
    );
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|said| said.contains("system.md")),
        "{error}"
    );
    house.write("configs/prompts/system.md", "You are {{ persona.name }}.");
    house.ok(&["runs", "retry", "last"]);
    house.ok(&["drain"]);
    assert_eq!(
        house.json(&["runs", "show", "last"])["run"]["state"],
        "succeeded"
    );
}

#[test]
#[ignore = "second tier"]
fn letters_come_by_file_or_standard_input_an_mbox_is_refused() {
    let house = House::new();
    house.write("unix.eml", letter("concierge", "a"));
    house.write("dos.eml", letter("concierge", "b").replace('\n', "\r\n"));
    // What a delivery agent writes before the one letter that it hands over.
    let delivered = format!(
        "From bob@guest.example Fri Nov 20 09:00:00 2026\n{}",
        letter("concierge", "c")
    );
    for file in house
        .json(&["ingest", "unix.eml", "dos.eml"])
        .as_array()
        .expect("files")
    {
        assert_eq!(
            (&file["outcome"], &file["copies"][0]["outcome"]),
            (&json!("accepted"), &json!("run"))
        );
    }
    let piped = house.run_with(&["ingest", "-"], &delivered);
    assert_eq!(piped.code, 0, "{}{}", piped.stdout, piped.stderr);
    assert!(
        piped.stdout.starts_with("accepted\t-\tconcierge: run "),
        "{}",
        piped.stdout
    );

    house.write(
        "several.mbox",
        format!("{delivered}\n{delivered}\n{delivered}"),
    );
    let refused = house.run(&["ingest", "several.mbox"]);
    let said = "refused\tseveral.mbox\tis an mbox of 3 letters; give each a file of its own, or take them as history with `attache import`\n";
    assert_eq!(
        (refused.code, refused.stdout.as_str()),
        (65, said),
        "{}",
        refused.stderr
    );
    // A sentence that begins with `From` is no separator.
    house.write(
        "prose.eml",
        letter("concierge", "d") + "\nFrom 9 to 5 we are at home.\n",
    );
    house.ok(&["ingest", "prose.eml"]);
    assert_eq!(house.json(&["drain"])["ended"]["succeeded"], 4);
    let threads = house.json(&["threads", "list"]);
    let threads = threads.as_array().expect("threads");
    assert_eq!(threads.len(), 4);
    assert!(
        threads.iter().all(|thread| thread["messages"] == 2),
        "{threads:#?}"
    );
}

#[test]
#[ignore = "second tier"]
fn a_created_persona_answers_a_letter_and_a_started_duty_runs() {
    let house = House::new();
    house.ok(&["persona", "create", "porter", "--name", "Paul"]);
    house.write("letter.eml", letter("porter", "a"));
    house.ok(&["ingest", "letter.eml"]);
    let started = house.json(&["schedule", "run", "Weekday digest"]);
    assert_eq!(house.json(&["drain"])["runs"], 2);
    let duty = house.json(&["runs", "show", started["run_id"].as_str().expect("an id")]);
    assert_eq!(
        (&duty["run"]["state"], &duty["run"]["persona"]),
        (&json!("succeeded"), &json!("digest"))
    );
    let history = house.json(&["schedule", "history"]);
    assert_eq!(
        (&history[0]["kind"], &history[0]["run_id"]),
        (&json!("manual"), &started["run_id"])
    );
    assert_eq!(
        house.json(&["runs", "list", "--persona", "porter"])[0]["state"],
        "succeeded"
    );
    let sent = house.json(&["outbox", "list", "--state", "done"]);
    assert_eq!(sent.as_array().map(Vec::len), Some(1), "{sent:#}");
}

#[test]
#[ignore = "second tier"]
fn every_listing_and_page_is_one_json_value_and_plain_text_too() {
    let house = House::new();
    house.ok(&["ingest", "configs/demo/letter.eml"]);
    house.ok(&["drain"]);
    let id = |listing: &[&str]| {
        house.json(listing)[0]["id"]
            .as_str()
            .expect("an id")
            .to_owned()
    };
    let (thread, run) = (id(&["threads", "list"]), id(&["runs", "list"]));
    let mail = id(&["outbox", "list", "--state", "done"]);
    let commands: &[&[&str]] = &[
        &["threads", "list"],
        &["threads", "show", &thread],
        &["runs", "list"],
        &["runs", "show", &run],
        &["replay", &run],
        &["replay", &thread],
        &["outbox", "list"],
        &["outbox", "show", &mail],
        &["persona", "list"],
        &["persona", "show", "concierge"],
        &["schedule", "list"],
        &["schedule", "next"],
        &["schedule", "history"],
        &["config", "show"],
        &["config", "check"],
        &["config", "schema"],
        &["drain"],
    ];
    for command in commands {
        let value = house.json(command);
        assert!(
            value.is_array() || value.is_object(),
            "{command:?}: {value}"
        );
        let plain = house.ok(command);
        assert!(!plain.contains('\u{1b}'), "{command:?}: {plain}");
    }
}

#[test]
#[ignore = "second tier"]
fn a_failed_waiting_or_cancelled_run_is_replayed_with_a_reason() {
    let cases = [
        ("failed", Some("auth")),
        ("waiting_retry", Some("overloaded")),
        ("cancelled", None),
    ];
    for (state, error) in cases {
        let house = House::new();
        if let Some(class) = error {
            let rule =
                json!({ "say": "Yes.", "error": { "class": class, "retry_after_ms": 3_600_000 } });
            house.write(
                "configs/demo-script.json",
                json!({ "rules": [rule] }).to_string(),
            );
        }
        house.write("letter.eml", letter("concierge", state));
        house.ok(&["ingest", "letter.eml"]);
        match error {
            Some(_) => drop(house.run(&["drain"])),
            None => drop(house.ok(&["runs", "cancel", "last"])),
        }
        let story = house.ok(&["replay", "last"]);
        let head = story.lines().next().unwrap_or_default();
        assert!(head.contains(state), "{story}");
        assert!(
            story.contains("Is there a room?") && story.contains(error.unwrap_or(state)),
            "{story}"
        );
        let record = house.json(&["replay", "last"]);
        assert_eq!(record["run"]["state"], state, "{record:#}");
        assert_eq!(
            record["run"]["error"]["class"],
            error.unwrap_or(state),
            "{record:#}"
        );
    }
}

#[test]
fn an_engine_without_listeners_serves_and_keeps_others_off() {
    let house = House::new();
    let mut command = house.command(&["serve"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    stdout.read_line(&mut line).expect("a line");
    assert!(line.contains("without a listener"), "{line}");
    let second = house.run(&["drain"]);
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .expect("kill runs")
            .success()
    );
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("text");
    assert_eq!(rest, "");
    assert_eq!(second.code, 78, "{}", second.stderr);
    assert!(second.stderr.contains("hint: "), "{}", second.stderr);
}

#[test]
#[ignore = "second tier"]
fn what_a_rule_holds_is_listed_and_answered_when_its_owner_says() {
    let house = House::new();
    let listed = "From: Carl <carl@guest.example>\nTo: concierge@guesthouse.example\nSubject: WorkspaceNames\n\
        Message-ID: <offer@guest.example>\nList-Id: <offers.guest.example>\n\nTen rooms, cheap.\n";
    house.write("listed.eml", listed);
    let copy = house.json(&["ingest", "listed.eml"])[0]["copies"][0].clone();
    assert_eq!(
        (copy["rule"].as_str(), copy["run"].as_str()),
        (Some("list"), None),
        "{copy}"
    );
    let thread = house.json(&["threads", "list"])[0].clone();
    assert_eq!(thread["held"], "filed:list");
    assert!(house.ok(&["threads", "list"]).contains("filed:list"));
    let id = thread["id"].as_str().expect("an id");
    let shown = house.json(&["threads", "show", id])["messages"][0].clone();
    assert_eq!(shown["disposition"], "filed:list");

    let message = shown["id"].as_str().expect("an id");
    let queued = house.json(&["runs", "answer", message]);
    assert_eq!(queued["outcome"], "queued", "{queued}");
    house.ok(&["drain"]);
    let sent = house.json(&["outbox", "list", "--state", "done"]);
    assert_eq!(sent.as_array().map(Vec::len), Some(1), "{sent:#}");
    assert!(house.json(&["threads", "list"])[0]["held"].is_null());
    let again = house.run(&["runs", "answer", message]);
    assert!(
        again.code != 0 && again.stderr.contains("runs retry"),
        "{}",
        again.stderr
    );
    assert_eq!(house.run(&["runs", "answer", "0199aabbccdd"]).code, 66);
}

#[test]
fn an_unusable_certificate_is_a_problem_that_names_its_files() {
    let house = House::new();
    house.write("cert.pem", "no certificate");
    house.write("key.pem", "no key");
    house.set(
        "configs/gateway.json",
        "tls",
        json!({ "certificate": "cert.pem", "key": "key.pem" }),
    );
    house.set(
        "configs/gateway.json",
        "listeners",
        json!([{ "kind": "smtp", "address": "127.0.0.1:0" }]),
    );
    let checked = house.run(&["config", "check"]);
    assert_eq!(checked.code, 65, "{}", checked.stdout);
    assert!(
        checked.stdout.starts_with("configs/gateway.json:1:") && checked.stdout.contains(": tls: "),
        "{}",
        checked.stdout
    );
    assert!(checked.stdout.contains("cert.pem"), "{}", checked.stdout);
    let served = house.run(&["serve"]);
    assert_eq!(served.code, 1);
    assert!(
        served
            .stderr
            .contains("hint: `tls` in configs/gateway.json"),
        "{}",
        served.stderr
    );
    assert!(
        !served.stderr.contains("another program"),
        "{}",
        served.stderr
    );
}

#[test]
fn an_empty_workspace_says_so_and_usage_names_every_way() {
    let house = House::new();
    for args in [
        &["replay", "last"][..],
        &["runs", "show", "last"],
        &["runs", "retry", "last"],
    ] {
        let said = house.run(args);
        assert_eq!(said.code, 66, "{args:?}");
        assert!(
            said.stderr
                .starts_with("error: there is no run yet\nhint: "),
            "{args:?}: {}",
            said.stderr
        );
    }
    let checked = house.run(&["mailboxes", "check"]);
    assert_eq!((checked.code, checked.stdout.as_str()), (0, ""));
    assert!(
        checked.stderr.starts_with("there is no mailbox: "),
        "{}",
        checked.stderr
    );
    assert_eq!(house.json(&["mailboxes", "check"]), json!([]));
    let usage = house.run(&["outbox", "retry"]);
    assert_eq!(usage.code, 2);
    assert!(
        usage.stderr.contains("<ID|--all-failed|--held>"),
        "{}",
        usage.stderr
    );
    let unknown = house.run(&["notices", "show", "delivery_failed"]);
    assert!(
        unknown
            .stderr
            .contains("`attache notices list` shows causes; give one whole"),
        "{}",
        unknown.stderr
    );
}

#[tokio::test]
async fn a_database_of_a_newer_engine_is_left_alone_and_says_so() {
    let house = House::new();
    house.ok(&["threads", "list"]);
    let mut rows = db::Connection::open(&house.path(".")).await;
    let later = "INSERT INTO _sqlx_migrations SELECT 9999, 'later', installed_on, success, checksum, execution_time \
                 FROM _sqlx_migrations LIMIT 1";
    db::query(later).execute(&mut rows).await.expect("a row");
    rows.close().await.expect("closed");
    let said = house.run(&["threads", "list"]);
    assert_eq!(said.code, 1);
    assert!(
        said.stderr
            .contains("written by a newer attache (it has migration 9999)"),
        "{}",
        said.stderr
    );
    assert!(said.stderr.contains("hint: "), "{}", said.stderr);
}
