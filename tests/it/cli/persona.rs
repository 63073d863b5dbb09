//! Personas made and shown from the command line.

use super::*;

#[test]
fn a_created_persona_is_whole_and_receives_mail() {
    let workspace = Workspace::new();
    let created = workspace.run(&[
        "persona",
        "create",
        "night-desk",
        "--name",
        "Night \"WorkerDeps\"",
    ]);
    assert_eq!(created.code, 0, "{}", created.stderr);
    let shown = workspace.json(&["persona", "show", "night-desk"]);
    assert_eq!(shown["address"], "night-desk@guesthouse.example");
    assert_eq!(shown["name"], "Night \"WorkerDeps\"");
    for path in ["PERSONA.md", "active.md", "knowledge", "responsibilities"] {
        assert!(
            workspace.path("personas/night-desk").join(path).exists(),
            "{path}"
        );
    }
    let left = std::fs::read_dir(workspace.path("personas"))
        .expect("personas")
        .count();
    assert_eq!(left, 3, "a draft was left behind");
    assert_eq!(workspace.run(&["config", "check"]).code, 0);
}

#[test]
fn a_persona_is_shown_with_what_it_knows_and_what_is_left_out() {
    let workspace = Workspace::new();
    let knowledge = workspace.path("personas/concierge/knowledge");
    std::fs::create_dir(knowledge.join("sub")).expect("a folder");
    std::fs::write(knowledge.join("sub/prices.CSV"), "room;euros\n5;112\n").expect("a file");
    std::fs::write(knowledge.join("ferry.txt"), b"Die F\xe4hre").expect("a file");
    std::fs::write(knowledge.join("menu.zip"), "%PDF-1.7").expect("a file");
    let shown = workspace.json(&["persona", "show", "concierge"]);
    let used = |path: &str| {
        let files = shown["knowledge"].as_array().expect("files");
        files
            .iter()
            .find(|file| file["path"] == path)
            .unwrap_or_else(|| panic!("{path}: {shown}"))
            .clone()
    };
    assert_eq!(used("knowledge/sub/prices.CSV")["tokens"], 5);
    assert_eq!(used("knowledge/ferry.txt")["charset"], "windows-1252");
    assert!(used("knowledge/rooms.md")["charset"].is_null());
    let left_out = shown["knowledge_left_out"].as_array().expect("files");
    assert_eq!(
        (left_out.len(), &left_out[0]["path"]),
        (1, &serde_json::json!("knowledge/menu.zip")),
        "{shown}"
    );
    let text = workspace.run(&["persona", "show", "concierge"]).stdout;
    for wanted in [
        "knowledge/sub/prices.CSV",
        "read as windows-1252",
        "1 left out",
        "left out: not a kind of file",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
}

#[test]
fn an_impossible_persona_is_refused_before_anything_is_written() {
    let workspace = Workspace::new();
    let cases: [(&[&str], i32, &str); 7] = [
        (&["../evil", "--name", "E"], 2, "is not a persona id"),
        (&["..", "--name", "E"], 2, "is not a persona id"),
        (&["Upper", "--name", "E"], 2, "is not a persona id"),
        (
            &["evil", "--name", "E\u{1b}[2J"],
            2,
            "no control characters",
        ),
        (
            &["evil", "--name", "E", "--address", "a b"],
            2,
            "is not a mail address",
        ),
        (
            &["evil", "--name", "E", "--address", "HELLO"],
            73,
            "belongs to persona `concierge`",
        ),
        (
            &["concierge", "--name", "E", "--address", "evil"],
            73,
            "exists already",
        ),
    ];
    for (args, code, complaint) in cases {
        let said = workspace.run(&[&["persona", "create"], args].concat());
        assert_eq!(said.code, code, "{args:?}: {}", said.stderr);
        assert!(said.stderr.contains(complaint), "{args:?}: {}", said.stderr);
    }
    assert_eq!(
        std::fs::read_dir(workspace.path("personas"))
            .expect("personas")
            .count(),
        2
    );
}

#[test]
fn a_persona_that_does_not_exist_names_those_that_do() {
    let said = Workspace::new().run(&["persona", "show", "nobody"]);
    assert_eq!((said.code, said.stdout.as_str()), (66, ""));
    assert_eq!(
        said.stderr,
        "error: no persona `nobody`\nhint: there are: concierge, digest\n"
    );
}
