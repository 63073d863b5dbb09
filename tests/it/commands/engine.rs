//! Commands beside an engine that serves.

use super::*;
use crate::app::db;

#[test]
#[ignore = "second tier"]
fn an_engine_serves_alone_answers_mail_and_stops_on_sigterm() {
    let workspace = Workspace::new();
    let server = workspace.serve();
    assert!(
        server.line.contains("listening on 127.0.0.1:"),
        "{}",
        server.line
    );
    let pid = server.child.id().to_string();
    for args in [&["drain"][..], &["serve"]] {
        let second = workspace.run(args);
        assert_eq!(second.code, 78, "{args:?}: {}", second.stderr);
        assert!(
            second.stderr.contains(&format!("process {pid}")),
            "{args:?}: {}",
            second.stderr
        );
    }
    let run = runs_of(&workspace.json(&["ingest", LETTER])).remove(0);
    workspace.wait_for(&run, "succeeded");
    let ended = server.terminate();
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    workspace.ok(&["drain"]);
}

#[test]
fn serve_takes_letters_without_a_persona_text_and_says_so() {
    let workspace = Workspace::new();
    std::fs::remove_file(workspace.path().join("personas/concierge/PERSONA.md"))
        .expect("it is there");
    let ended = workspace.serve().terminate();
    assert_eq!(ended.code, 0);
    assert!(
        ended.stderr.contains("warning: ") && ended.stderr.contains("PERSONA.md"),
        "{}",
        ended.stderr
    );
}

#[test]
fn an_address_that_another_program_has_is_said_with_a_hint() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = taken.local_addr().expect("it is bound").to_string();
    let workspace = Workspace::new();
    workspace.edit("configs/gateway.json", "127.0.0.1:0", &address);
    let said = workspace.run(&["serve"]);
    assert_eq!(
        (said.code, said.stdout.as_str()),
        (1, ""),
        "{}",
        said.stderr
    );
    assert!(
        said.stderr.contains(&address) && said.stderr.contains("hint: another program"),
        "{}",
        said.stderr
    );
}

#[test]
fn drain_says_that_a_run_waits_and_where_to_look() {
    let workspace = Workspace::new();
    workspace.edit(
        "configs/inference.json",
        "\"provider\": \"scripted\"",
        "\"provider\": \"openai\"",
    );
    // Nobody listens on port 1.
    let nobody = "\"openai\": {\"base_url\": \"http://127.0.0.1:1/v1\"}, \"scripted\": {";
    workspace.edit("configs/inference.json", "\"scripted\": {", nobody);
    workspace.edit(
        "configs/inference.json",
        "\"max_tool_turns\": 8",
        "\"retry\": {\"call_attempts_max\": 1}",
    );
    workspace.ok(&["ingest", LETTER]);
    let said = workspace.ok(&["drain"]).stdout;
    assert!(
        said.contains("1 waiting for a retry") && said.contains("--state waiting_retry"),
        "{said}"
    );
    let waits = workspace
        .ok(&["runs", "list", "--state", "waiting_retry"])
        .stdout;
    assert!(waits.contains("transient"), "{waits}");
}

#[test]
#[ignore = "second tier"]
fn a_running_run_is_cancelled_from_another_process() {
    let workspace = Workspace::new();
    workspace.script(&serde_json::json!({ "rules": [{ "hang": true }] }));
    let server = workspace.serve();
    let run = runs_of(&workspace.json(&["ingest", LETTER])).remove(0);
    workspace.wait_for(&run, "running");
    assert_eq!(
        workspace.json(&["runs", "cancel", &run])["outcome"],
        "requested"
    );
    workspace.wait_for(&run, "cancelled");
    assert_eq!(server.terminate().code, 0);
    let timeline = workspace.ok(&["replay", &run]).stdout;
    assert!(timeline.contains("cancelled"), "{timeline}");
    assert!(
        !PathBuf::from(workspace.path())
            .join("data/outbox")
            .read_dir()
            .is_ok_and(|mut d| d.next().is_some())
    );
}

/// A run at which an engine was killed.
fn left_at_work(workspace: &Workspace) -> String {
    workspace.script(&serde_json::json!({ "rules": [{ "hang": true }] }));
    let mut server = workspace.serve();
    let run = runs_of(&workspace.json(&["ingest", LETTER])).remove(0);
    workspace.wait_for(&run, "running");
    server.child.kill().expect("it is killed");
    server.child.wait().expect("it ends");
    run
}

/// Changes the row of a run, while no engine is at work.
async fn change(workspace: &Workspace, sql: &'static str, run: &str) {
    let mut rows = db::Connection::open(workspace.path()).await;
    let changed = db::query(sql).bind(run).execute(&mut rows).await;
    assert_eq!(changed.expect("a statement").rows_affected(), 1);
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_run_that_a_take_over_puts_aside_has_ended_as_it_was_to() {
    let workspace = Workspace::new();
    let run = left_at_work(&workspace);
    // As after two crashes at the same step, the last one alone.
    let poison = "UPDATE runs SET crashes = 2, crashed_at = 0, alone = 1 WHERE id = $1";
    change(&workspace, poison, &run).await;
    let ended = workspace.json(&["runs", "cancel", &run]);
    assert_eq!(ended["outcome"], "failed", "{ended}");
    assert_eq!(workspace.state(&run), "failed");
    let again = workspace.run(&["runs", "cancel", &run]);
    assert_ne!(again.code, 0, "one that has long ended is refused");
}

#[tokio::test]
async fn a_run_is_not_cancelled_with_a_provider_that_is_no_good_and_the_remedy_is_said() {
    let workspace = Workspace::new();
    let run = runs_of(&workspace.json(&["ingest", LETTER])).remove(0);
    let at_work = "UPDATE runs SET state = 'running' WHERE id = $1";
    change(&workspace, at_work, &run).await;
    let inference = workspace.path().join("configs/inference.json");
    let whole = std::fs::read_to_string(&inference).expect("it is there");
    let claude = whole
        .replace("\"provider\": \"scripted\"", "\"provider\": \"claude\"")
        .replace(
            "\"scripted\": {",
            "\"claude\": {\"binary\": \"/nowhere/claude\"}, \"scripted\": {",
        );
    workspace.write("configs/inference.json", &claude);
    let refused = workspace.run(&["runs", "cancel", &run]);
    assert_ne!(refused.code, 0, "{}", refused.stdout);
    for says in [
        "was left by an engine",
        "/nowhere/claude",
        "hint: mend what `attache config check` finds",
    ] {
        assert!(refused.stderr.contains(says), "{says}: {}", refused.stderr);
    }
    workspace.write("configs/inference.json", &whole);
    assert_eq!(
        workspace.json(&["runs", "cancel", &run])["outcome"],
        "cancelled"
    );
}

#[test]
#[ignore = "second tier"]
fn a_run_that_an_engine_left_behind_is_cancelled_without_one() {
    let workspace = Workspace::new();
    let run = left_at_work(&workspace);
    let erase = [
        "erase",
        "--contact",
        "anna.berger@traveller.example",
        "--yes",
    ];
    assert_eq!(workspace.run(&erase).code, 75, "the run is in the way");
    let whole = std::fs::read_to_string(workspace.path().join("configs/inference.json"));
    workspace.write("configs/inference.json", "{");
    let refused = workspace.run(&["runs", "cancel", &run]);
    assert_eq!(refused.code, 65, "{}", refused.stderr);
    assert!(
        refused
            .stderr
            .contains("hint: mend what `attache config check` finds"),
        "{}",
        refused.stderr
    );
    assert_eq!(workspace.state(&run), "running", "nothing was promised");
    workspace.write("configs/inference.json", &whole.expect("it was there"));
    assert_eq!(
        workspace.json(&["runs", "cancel", &run])["outcome"],
        "cancelled"
    );
    assert_eq!(workspace.state(&run), "cancelled");
    assert_eq!(
        workspace.json(&["drain"])["runs"],
        0,
        "nothing is left to do"
    );
    workspace.ok(&erase);
}
