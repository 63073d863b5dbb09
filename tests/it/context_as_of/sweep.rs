//! Which past runs a changed file would have changed, and by whom.

use super::workspace::{configs, correspond, house};
use crate::app::TestApp;
use attache::domain::RunId;
use attache::replay::sweep::{ChangedFile, Effect, Judgement, Sweep};
use serde_json::json;
use std::process::Command;

async fn swept(app: &TestApp, runs: &[RunId], path: &str, text: &str) -> Vec<Judgement> {
    let configs = configs(app);
    let change = ChangedFile {
        path: path.to_owned(),
        text: text.to_owned(),
    };
    let sweep = Sweep::new(&app.engine.store, &configs, vec![change]);
    let mut judged = Vec::new();
    for run in runs {
        judged.push(sweep.judge(run).await.expect("judged"));
    }
    judged
}

fn config(app: &TestApp, path: &str, pointer: &str, value: serde_json::Value) -> String {
    let text = std::fs::read_to_string(app.workspace.path().join(path)).expect("a file");
    let mut whole: serde_json::Value = serde_json::from_str(&text).expect("json");
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    whole.pointer_mut(parent).expect("a parent")[key] = value;
    whole.to_string()
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_change_is_found_in_every_run_that_would_have_been_told_it() {
    let app = house().start().await;
    let runs = correspond(&app).await;
    let persona = "personas/ada/persona.json";
    let inference = "configs/inference.json";
    let context = "configs/context.json";
    #[rustfmt::skip]
    let cases = [
        ("personas/ada/PERSONA.md", "Ada answers letters.".to_owned(), Effect::Same, ""),
        ("personas/ada/PERSONA.md", "Ada answers letters!".to_owned(), Effect::Wording, "persona"),
        ("personas/ada/active.md", "Other memory.".to_owned(), Effect::Wording, "active-memory"),
        ("configs/prompts/system.md", "You are she.".to_owned(), Effect::Wording, "load-file"),
        ("personas/ada/house-rules.md", "No smoking.".to_owned(), Effect::Room, "load-file"),
        ("personas/eve/PERSONA.md", "Eve is somebody else.".to_owned(), Effect::Same, ""),
        ("personas/ada/knowledge/house.md", "# Other".to_owned(), Effect::Unknown, "knowledge"),
        (persona, config(&app, persona, "/name", json!("Adele")), Effect::Wording, "load-file"),
        (persona, config(&app, persona, "/tools", json!(["read_file"])), Effect::Asked, "tools"),
        (inference, config(&app, inference, "/model", json!("better")), Effect::Asked, "model"),
        (
            inference,
            config(&app, inference, "/max_output_tokens", json!(7)),
            Effect::Asked,
            "max_output_tokens",
        ),
        (inference, config(&app, inference, "/max_tool_turns", json!(7)), Effect::Same, ""),
        (context, config(&app, context, "/responsibility", json!(["current-input"])), Effect::Same, ""),
        (inference, "{".to_owned(), Effect::Unknown, ""),
    ];
    for (path, text, effect, by) in cases {
        let first = swept(&app, &runs[..1], path, &text).await.remove(0);
        assert_eq!(
            (first.effect, first.by.as_str()),
            (effect, by),
            "{path} {text}: {first:?}"
        );
    }
    // A smaller budget leaves out history where there is much of it, and nothing where there is none.
    let text = config(
        &app,
        inference,
        "/budget",
        json!({ "context_tokens_max": 4000 }),
    );
    let judged = swept(&app, &runs, inference, &text).await;
    assert_eq!(
        (judged[0].effect, judged[1].effect),
        (Effect::Same, Effect::Same),
        "{judged:?}"
    );
    let late = &judged[6];
    assert_eq!(
        (late.effect, late.by.as_str()),
        (Effect::Room, "thread-history"),
        "{judged:?}"
    );
}

/// Exit code, stdout and stderr of `attache replay sweep` in the workspace.
fn sweep_command(app: &TestApp, more: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command
        .current_dir(app.workspace.path())
        .env_remove("ATTACHE_WORKSPACE");
    let since = [
        "replay",
        "sweep",
        "--since",
        "2026-01-01T00:00:00Z",
        "--change",
    ];
    let output = command.args(since).args(more).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[tokio::test]
#[ignore = "second tier"]
async fn the_command_reads_the_workspace_as_it_is_and_says_how_many() {
    let app = house().start().await;
    correspond(&app).await;
    app.workspace
        .write("personas/ada/PERSONA.md", "Ada answers letters in verse.");
    let attache = |more: &[&str]| sweep_command(&app, more);
    let (code, told, _) = attache(&["personas/ada/PERSONA.md"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(
        told.contains("9 of 9 runs would have been told otherwise, 0 not known"),
        "{told}"
    );
    app.workspace.write("draft.md", "Ada answers letters.");
    let (_, told, _) = attache(&["personas/ada/PERSONA.md=draft.md", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&told).expect("json");
    assert_eq!(
        (&told["runs"], &told["changed"]),
        (&json!(9), &json!(0)),
        "{told}"
    );
    app.workspace
        .write("bad.json", "{ \"thread\": [\"load-flie(x)\"] }");
    app.workspace.write("notes.md", "Read by nobody.");
    app.workspace.write("noise.md", "");
    std::fs::write(app.workspace.path().join("noise.md"), b"\xff\xfe").expect("a file");
    for (change, code, expected) in [
        ("../elsewhere", 2, "no path below the workspace"),
        ("data/attache.db", 2, "nothing that a model is told"),
        (".secrets=draft.md", 2, "nothing that a model is told"),
        ("notes.md", 2, "no run reads `notes.md`"),
        ("personas/eve/PERSONA.md=draft.md", 2, "no run reads"),
        (
            "personas/eve/persona.json=draft.md",
            65,
            "personas/eve/persona.json",
        ),
        ("personas/ada/PERSONA.md=noise.md", 66, "only files of text"),
        ("personas/ada/PERSONA.md=gone.md", 66, "gone.md"),
        ("configs/context.json=bad.json", 65, "load-flie"),
        ("personas/ada/persona.json=bad.json", 65, "thread"),
    ] {
        let (found, _, said) = attache(&[change]);
        assert_eq!(found, Some(code), "{change}: {said}");
        assert!(
            said.contains(expected) && said.contains("hint:"),
            "{change}: {said}"
        );
    }
    // The file as it stands in the workspace is looked at in the same way.
    app.workspace.write("configs/gateway.json", "{}");
    let (code, _, said) = attache(&["configs/gateway.json"]);
    assert!(code == Some(65) && said.contains("mail_domain"), "{said}");
    assert_eq!(
        attache(&["personas/ada/PERSONA.md"]).0,
        Some(0),
        "what is wrong elsewhere is no affair of it"
    );
}
