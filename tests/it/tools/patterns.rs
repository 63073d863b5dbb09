//! `glob` and `grep`: find what a run may read, and no pattern takes longer than its bound. FS11 of the attack battery.

use super::RunDeps;
use attache::domain::TextLabel;
use attache::tools::Reader;
use serde_json::{Value, json};

async fn run_deps() -> RunDeps {
    let run_deps = RunDeps::new().await;
    run_deps.write("PERSONA.md", "You are Ada.");
    run_deps.write("active.md", "Rooms: secret memory\n");
    run_deps.write("knowledge/rooms.md", "Room 1\nRoom 2 has a bath\nroom 3\n");
    run_deps.write(
        "knowledge/deep/er/menu.txt",
        "Soup\nRoom service until ten\n",
    );
    run_deps.write("knowledge/photo.jpg", b"\xff\xd8\xff\x00Room");
    run_deps.write("knowledge/.hidden/x.md", "Room hidden");
    run_deps.write("workspace/plan.md", "Room plan");
    run_deps
}

fn paths(result: &Value, list: &str) -> Vec<String> {
    let list = result[list].as_array().expect("a list");
    let path = |entry: &Value| entry["path"].as_str().expect("a path").to_owned();
    list.iter().map(path).collect()
}

#[tokio::test]
async fn a_pattern_finds_files_at_any_depth_and_none_that_are_closed() {
    let mut run_deps = run_deps().await;
    let rows: [(&str, &[&str]); 6] = [
        ("knowledge/*.md", &["knowledge/rooms.md"]),
        (
            "**/*.{md,txt}",
            &["knowledge/deep/er/menu.txt", "knowledge/rooms.md"],
        ),
        ("./knowledge/deep/**", &["knowledge/deep/er/menu.txt"]),
        ("*", &[]),
        ("/**", &[]),
        ("../**", &[]),
    ];
    let closed_to_others = ["PERSONA.md", "active.md"];
    for (pattern, expected) in rows {
        let found = run_deps.result("glob", json!({ "pattern": pattern })).await;
        let found = paths(&found, "files");
        let open: Vec<&str> = found
            .iter()
            .map(String::as_str)
            .filter(|path| !closed_to_others.contains(path))
            .collect();
        assert_eq!(open, expected, "{pattern}");
    }
    let all = run_deps.result("glob", json!({ "pattern": "**" })).await;
    assert!(!paths(&all, "files").contains(&"active.md".to_owned()));
    assert!(!all.to_string().contains("workspace"));
    // The control: the owner's run sees the memory and the workspace.
    run_deps.reader = Reader::Owner;
    let all = run_deps.result("glob", json!({ "pattern": "**" })).await;
    for path in ["active.md", "workspace/plan.md"] {
        assert!(paths(&all, "files").contains(&path.to_owned()));
    }
    assert!(!all.to_string().contains(".hidden"));
    for pattern in ["", "a{b", "[z-a]", &"x".repeat(301)] {
        let (code, message) = run_deps
            .failure("glob", json!({ "pattern": pattern }))
            .await;
        assert_eq!(code, "bad_pattern");
        assert!(message.contains("`pattern`"), "{message}");
    }
}

#[tokio::test]
async fn lines_are_found_with_their_numbers_in_what_the_run_may_read() {
    let mut run_deps = run_deps().await;
    let found = run_deps
        .result("grep", json!({ "pattern": "^Room\\b" }))
        .await;
    let lines: Vec<(String, u64)> = found["matches"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|line| {
            (
                line["path"].as_str().expect("a path").to_owned(),
                line["line"].as_u64().expect("a number"),
            )
        })
        .collect();
    let line = |path: &str, number| (path.to_owned(), number);
    let expected = [
        line("knowledge/deep/er/menu.txt", 2),
        line("knowledge/rooms.md", 1),
        line("knowledge/rooms.md", 2),
    ];
    assert_eq!(lines, expected);
    assert_eq!(found["files_skipped"], 1, "the photograph is no text");
    let args = json!({ "pattern": "ROOM [3]", "ignore_case": true, "glob": "knowledge/*", "path": "knowledge" });
    let found = run_deps.result("grep", args).await;
    assert_eq!(
        found["matches"],
        json!([{ "path": "knowledge/rooms.md", "line": 3, "text": "room 3" }])
    );
    let found = run_deps
        .call("grep", json!({ "pattern": "secret" }))
        .await
        .expect("a result");
    assert_eq!(found.result["matches"], json!([]));
    run_deps.reader = Reader::Owner;
    let found = run_deps
        .call("grep", json!({ "pattern": "secret" }))
        .await
        .expect("a result");
    assert_eq!(paths(&found.result, "matches"), ["active.md"]);
    assert_ne!(
        found.label,
        TextLabel::default(),
        "memory is not for every reader"
    );
}

#[tokio::test]
async fn fs11_no_pattern_and_no_file_makes_a_search_long() {
    let run_deps = run_deps().await;
    // Exponential where a matcher backtracks.
    run_deps.write("knowledge/a.txt", "a".repeat(12_000) + "b");
    for pattern in ["^(a+)+$", "^(a|aa)+$", "(a*)*c", "(?i)(x+x+)+y"] {
        let found = run_deps
            .result("grep", json!({ "pattern": pattern, "glob": "**/a.txt" }))
            .await;
        assert_eq!(found["files_searched"], 1, "{pattern}");
        assert_eq!(found["matches"], json!([]), "{pattern}");
    }
    for (pattern, why) in [
        ("((a{99}){99}){99}", "too large"),
        ("(", "unclosed"),
        ("(?=x)", "look-around"),
        ("", "1 to 500"),
    ] {
        let (code, message) = run_deps
            .failure("grep", json!({ "pattern": pattern }))
            .await;
        assert_eq!(code, "bad_pattern");
        assert!(message.contains(why), "{message}");
    }
    // Five sparse gigabytes, a line without an end, and more lines than an answer holds.
    let huge = std::fs::File::create(run_deps.path("knowledge/huge.txt")).expect("a file");
    huge.set_len(5 << 30).expect("a sparse file");
    run_deps.write("knowledge/lines.txt", "Soup of the day\n".repeat(900));
    let found = run_deps
        .result("grep", json!({ "pattern": "Soup", "limit": 500 }))
        .await;
    assert!(found.to_string().len() <= run_deps.limits.result_bytes_max);
    assert_eq!(found["truncated"], true);
    let found = run_deps
        .result(
            "grep",
            json!({ "pattern": "a+b", "glob": "**/{a,huge}.txt" }),
        )
        .await;
    assert_eq!(
        found["matches"][0]["text"].as_str().expect("a text").len(),
        300
    );
    assert_eq!(
        found["truncated"], true,
        "what is too large to be searched is said"
    );
}
