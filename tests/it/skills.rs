//! Skills: listed, opened, read, narrowed, and off when they are not as they were approved.

use crate::app::{TestApp, Workspace, proven_note};
use crate::guest_house::run;
use serde_json::{Value, json};

const COUNT: &str = "---\nname: count-guests\ndescription: Counts guests. Use it before breakfast.\n---\n\n# Count\n\nAsk the book, K_BODY.\n";

/// A workspace with one skill of Ada's and one of all, whose model follows these rules.
fn workspace(rules: &Value) -> Workspace {
    let workspace = Workspace::new(&json!({ "rules": rules })).talkative();
    let steps = json!([
        "persona",
        "skills",
        "thread-history",
        "invocation-metadata",
        "current-input"
    ]);
    workspace.set("configs/context.json", "/thread", steps);
    workspace.persona("bea", "Bea");
    workspace.write("personas/ada/skills/count-guests/SKILL.md", COUNT);
    workspace.write(
        "personas/ada/skills/count-guests/references/book.md",
        "K_BOOK",
    );
    let greet = "---\nname: greet\ndescription: Greets people well.\nallowed-tools: read_file\n---\nBe warm.\n";
    workspace.write("skills/greet/SKILL.md", greet);
    workspace
}

fn approved(workspace: &Workspace) {
    for name in ["count-guests", "greet"] {
        let said = run(workspace.path(), &["skills", "approve", name]);
        assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    }
}

fn call(turn: u32, tool: &str, args: &Value) -> Value {
    json!({ "when": { "turn": turn }, "call": [{ "tool": tool, "args": args }] })
}

async fn asked(app: &TestApp, id: &str, to: &str) -> (String, Vec<String>) {
    let eml = proven_note(&format!("{id}@guest.example"), "", "How many guests?");
    let run = app.run_of(&eml.replace("ada@engine.test", to)).await;
    app.drain().await;
    let prompts = app.prompts(&run).await;
    let all = prompts.iter().map(ToString::to_string).collect::<String>();
    (all, app.trace(&run).await)
}

#[tokio::test]
async fn a_skill_is_named_first_then_opened_then_its_files_are_read() {
    let rules = json!([
        call(0, "use_skill", &json!({ "name": "count-guests" })),
        call(1, "use_skill", &json!({ "name": "count-guests", "file": "references/book.md" })),
        call(2, "use_skill", &json!({ "name": "count-guests", "file": "../../persona.json" })),
        { "say": "Forty." },
    ]);
    let workspace = workspace(&rules);
    approved(&workspace);
    let app = workspace.start().await;
    let (told, trace) = asked(&app, "s1", "ada@engine.test").await;
    assert!(
        told.contains("- `count-guests`: Counts guests. Use it before breakfast."),
        "{told}"
    );
    assert!(told.contains("- `greet`: Greets people well."), "{told}");
    assert!(told.contains("K_BODY") && told.contains("K_BOOK"), "{told}");
    let results: Vec<&str> = trace
        .iter()
        .skip(1)
        .step_by(2)
        .map(String::as_str)
        .collect();
    assert_eq!(
        results,
        ["ok use_skill", "ok use_skill", "file_not_found use_skill"]
    );
    // The skill is gone, and the run is executed again with what was recorded.
    std::fs::remove_dir_all(app.workspace.path().join("personas/ada/skills")).expect("removed");
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn nothing_is_listed_or_opened_that_was_not_approved_or_is_anothers() {
    let rules =
        json!([call(0, "use_skill", &json!({ "name": "count-guests" })), { "say": "Forty." }]);
    let fresh = workspace(&rules);
    let app = fresh.start().await;
    let (told, trace) = asked(&app, "s1", "ada@engine.test").await;
    assert!(
        !told.contains("Counts guests") && !told.contains("Opens one of your skills"),
        "{told}"
    );
    assert_eq!(trace[1], "unknown_tool use_skill");
    app.check().await;
    let known = workspace(&rules);
    approved(&known);
    let app = known.start().await;
    let (told, trace) = asked(&app, "s2", "bea@engine.test").await;
    assert!(
        told.contains("Greets people well") && !told.contains("Counts guests"),
        "{told}"
    );
    assert_eq!(trace[1], "no_such_skill use_skill");
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_changed_skill_is_off_until_it_is_approved_again() {
    let rules =
        json!([call(0, "use_skill", &json!({ "name": "count-guests" })), { "say": "Forty." }]);
    let workspace = workspace(&rules);
    approved(&workspace);
    let mut app = workspace.start().await;
    let book = "personas/ada/skills/count-guests/references/book.md";
    let skill = "personas/ada/skills/count-guests/SKILL.md";
    let extra = "personas/ada/skills/count-guests/scripts/new.sh";
    for (n, (file, is_listed)) in [(book, true), (skill, false), (extra, true)]
        .into_iter()
        .enumerate()
    {
        let before = std::fs::read_to_string(app.workspace.path().join(file)).ok();
        app.workspace.write(
            file,
            &format!("{}K_MORE", before.clone().unwrap_or_default()),
        );
        let (told, trace) = asked(&app, &format!("c{n}"), "ada@engine.test").await;
        assert_eq!(trace[1], "skill_changed use_skill", "{file}");
        assert_eq!(told.contains("Counts guests"), is_listed, "{file}: {told}");
        let warned = app.engine.warnings();
        let warned = warned.iter().map(ToString::to_string);
        let warned: Vec<_> = warned
            .filter(|text| text.contains("skill is off"))
            .collect();
        assert!(
            warned.len() == 1 && warned[0].starts_with("personas/ada/skills/count-guests: "),
            "{file}: {warned:?}"
        );
        match before {
            Some(before) => app.workspace.write(file, &before),
            None => std::fs::remove_dir_all(
                app.workspace.path().join(extra).parent().expect("a folder"),
            )
            .expect("removed"),
        }
        let (_, trace) = asked(&app, &format!("d{n}"), "ada@engine.test").await;
        assert_eq!(trace[1], "ok use_skill", "{file} is as it was");
    }
    app.workspace
        .write(skill, &COUNT.replace("K_BODY", "K_SECOND"));
    let listed = run(app.workspace.path(), &["skills", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).expect("JSON");
    assert_eq!(
        (&listed[0]["name"], &listed[0]["state"]),
        (&json!("count-guests"), &json!("changed"))
    );
    let said = run(app.workspace.path(), &["skills", "approve", "count-guests"]);
    assert!(
        said.stdout
            .contains("~ personas/ada/skills/count-guests/SKILL.md"),
        "{}",
        said.stdout
    );
    app = app.restart().await;
    let (told, trace) = asked(&app, "e1", "ada@engine.test").await;
    assert!(
        trace[1] == "ok use_skill" && told.contains("K_SECOND"),
        "{trace:?} {told}"
    );
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn allowed_tools_narrow_and_never_grant() {
    let rules = json!([
        call(0, "list_files", &json!({})),
        call(1, "use_skill", &json!({ "name": "greet" })),
        call(2, "list_files", &json!({})),
        call(3, "read_file", &json!({ "path": "knowledge/house.md" })),
        { "say": "Welcome." },
    ]);
    let all = workspace(&rules);
    all.set("configs/inference.json", "/max_tool_turns", json!(9));
    approved(&all);
    let app = all.start().await;
    let (_, trace) = asked(&app, "n1", "ada@engine.test").await;
    let results: Vec<&str> = trace
        .iter()
        .skip(1)
        .step_by(2)
        .map(String::as_str)
        .collect();
    assert_eq!(
        results,
        [
            "ok list_files",
            "ok use_skill",
            "skill_narrows list_files",
            "ok read_file"
        ]
    );
    app.check().await;
    // A tool that the persona does not have is not given by a skill that names it.
    let few = workspace(&rules);
    few.set("configs/inference.json", "/max_tool_turns", json!(9));
    few.set(
        "personas/ada/persona.json",
        "/tools",
        json!(["use_skill", "list_files"]),
    );
    approved(&few);
    let app = few.start().await;
    let (_, trace) = asked(&app, "n2", "ada@engine.test").await;
    assert_eq!(
        trace.last().map(String::as_str),
        Some("unknown_tool read_file")
    );
    app.check().await;
}

#[tokio::test]
async fn check_names_every_broken_rule_and_nothing_broken_is_approved() {
    let workspace = workspace(&json!([{ "say": "Yes." }]));
    let bad = "---\nname: other\nversion: 2\n---\nBody\n";
    workspace.write("skills/broken/SKILL.md", bad);
    workspace.write(
        "skills/linked/SKILL.md",
        &COUNT.replace("count-guests", "linked"),
    );
    let link = workspace.path().join("skills/linked/out");
    std::os::unix::fs::symlink("/etc/passwd", link).expect("a link");
    let checked = run(workspace.path(), &["skills", "check"]);
    assert_eq!(checked.code, 1, "{}", checked.stdout);
    for words in [
        "must be alike",
        "no key `version`",
        "`description` is missing",
        "`out` is a link",
    ] {
        assert!(
            checked.stdout.contains(words),
            "{words}: {}",
            checked.stdout
        );
    }
    assert!(
        checked.stdout.contains("skills/greet: keeps the rules"),
        "{}",
        checked.stdout
    );
    for (name, code) in [("broken", 65), ("linked", 65), ("nope", 66)] {
        let refused = run(workspace.path(), &["skills", "approve", name]);
        assert_eq!(
            refused.code, code,
            "{name}: {}{}",
            refused.stdout, refused.stderr
        );
    }
    assert!(!workspace.path().join("configs/skills.json").exists());
    workspace.write("skills/count-guests/SKILL.md", COUNT);
    let twice = run(workspace.path(), &["skills", "approve", "count-guests"]);
    assert!(
        twice.code == 2 && twice.stderr.contains("name its folder"),
        "{}",
        twice.stderr
    );
    let one = run(
        workspace.path(),
        &["skills", "approve", "skills/count-guests"],
    );
    assert_eq!(one.code, 0, "{}", one.stderr);
    workspace.write(
        "configs/skills.json",
        r#"{ "skills": [{ "folder": "../x", "description": "d", "files": {} }] }"#,
    );
    let wrong = run(workspace.path(), &["config", "check"]);
    assert!(
        wrong.code == 65 && wrong.stdout.contains("no folder of a skill")
            || wrong.stderr.contains("no folder of a skill"),
        "{}{}",
        wrong.stdout,
        wrong.stderr
    );
}
