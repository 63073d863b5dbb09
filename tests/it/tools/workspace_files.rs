//! `write_file` and `edit_file`: whole or not at all, only in the workspace, only for the owner, with versions.

use super::RunDeps;
use attache::config::Limits;
use attache::store::files::versions::WorkspaceVersions;
use attache::store::files::workspace::WorkspaceQuota;
use attache::tools::Reader;
use serde_json::json;

async fn run_deps() -> RunDeps {
    let mut run_deps = RunDeps::new().await;
    run_deps.write("PERSONA.md", "You are Ada.");
    run_deps.reader = Reader::Owner;
    run_deps
}

fn text(run_deps: &RunDeps, path: &str) -> String {
    std::fs::read_to_string(run_deps.path(path)).expect("a file")
}

#[tokio::test]
async fn a_file_is_written_read_and_edited_and_each_content_is_kept() {
    let run_deps = run_deps().await;
    let path = "workspace/notes/rooms.md";
    let written = run_deps
        .result(
            "write_file",
            json!({ "path": path, "content": "Room 1\nRoom 2\n" }),
        )
        .await;
    assert_eq!(
        (&written["changed"], &written["bytes"]),
        (&json!(true), &json!(14))
    );
    let read = run_deps.result("read_file", json!({ "path": path })).await;
    assert_eq!(read["sha256"], written["sha256"]);
    let edit =
        json!({ "path": path, "sha256": read["sha256"], "old": "Room 2", "new": "Room 2: bath" });
    let edited = run_deps.result("edit_file", edit).await;
    assert_eq!(text(&run_deps, path), "Room 1\nRoom 2: bath\n");
    let again = run_deps
        .result(
            "write_file",
            json!({ "path": path, "content": "Closed.\n" }),
        )
        .await;
    assert_ne!(again["sha256"], edited["sha256"]);
    let same = run_deps
        .result(
            "write_file",
            json!({ "path": path, "content": "Closed.\n" }),
        )
        .await;
    assert_eq!(same["changed"], false);
    let folder = run_deps.path("");
    let versions = WorkspaceVersions::of(&folder, WorkspaceQuota::from(&Limits::default()));
    let kept = versions
        .and_then(|versions| versions.versions())
        .expect("versions");
    let kept: Vec<(u64, Option<&str>)> = kept.iter().map(|v| (v.bytes, v.run.as_deref())).collect();
    assert_eq!(kept, [(14, Some("run-1")), (20, Some("run-1"))]);
    assert_eq!(
        std::fs::read_dir(run_deps.path("workspace/notes"))
            .expect("a folder")
            .count(),
        1
    );
}

#[tokio::test]
async fn an_edit_is_of_the_file_as_it_was_read_and_of_one_passage() {
    let run_deps = run_deps().await;
    run_deps.write("workspace/a.md", "one two two");
    let read = run_deps
        .result("read_file", json!({ "path": "workspace/a.md" }))
        .await;
    let edit = |sha256: &str, old: &str| json!({ "path": "workspace/a.md", "sha256": sha256, "old": old, "new": "3" });
    let sha256 = read["sha256"].as_str().expect("a digest");
    let stale = "0".repeat(64);
    for (args, code, word) in [
        (edit(&stale, "one"), "stale_file", sha256),
        (edit(sha256, "two"), "old_not_unique", "2 times"),
        (edit(sha256, "four"), "old_not_found", "exactly"),
        (edit(sha256, ""), "old_not_found", "exactly"),
    ] {
        let (found, message) = run_deps.failure("edit_file", args).await;
        assert_eq!(found, code);
        assert!(message.contains(word), "{message}");
    }
    let missing = json!({ "path": "workspace/b.md", "sha256": sha256, "old": "x", "new": "y" });
    assert_eq!(
        run_deps.failure("edit_file", missing).await.0,
        "file_not_found"
    );
    assert_eq!(text(&run_deps, "workspace/a.md"), "one two two");
}

#[tokio::test]
async fn nothing_outside_of_the_workspace_is_written() {
    let run_deps = run_deps().await;
    std::fs::create_dir_all(run_deps.path("workspace")).expect("a folder");
    std::os::unix::fs::symlink(
        run_deps.path("PERSONA.md"),
        run_deps.path("workspace/link.md"),
    )
    .expect("a link");
    std::os::unix::fs::symlink(
        run_deps.path("knowledge"),
        run_deps.path("workspace/folder"),
    )
    .expect("a link");
    std::fs::hard_link(
        run_deps.path("PERSONA.md"),
        run_deps.path("workspace/second.md"),
    )
    .expect("a name");
    let paths = [
        "PERSONA.md",
        "workspace",
        "workspace/",
        "knowledge/x.md",
        "/etc/x",
        "../x",
        "workspace/../PERSONA.md",
        "workspace//x",
        "workspace/.git/config",
        "workspace/a\nb",
        "skills/x/SKILL.md",
        "workspace/link.md",
        "workspace/folder/x.md",
        "workspace/second.md",
        "Workspace/x.md",
    ];
    for path in paths {
        let args = json!({ "path": path, "content": "mine" });
        assert!(run_deps.call("write_file", args).await.is_err(), "{path}");
    }
    assert_eq!(text(&run_deps, "PERSONA.md"), "You are Ada.");
    assert!(!run_deps.path("knowledge/x.md").exists());
}

#[tokio::test]
async fn only_a_run_of_the_owner_alone_writes_files() {
    let mut run_deps = run_deps().await;
    let args = json!({ "path": "workspace/a.md", "content": "mine" });
    for reader in [Reader::Correspondent, Reader::Unproven] {
        run_deps.reader = reader;
        let (code, message) = run_deps.failure("write_file", args.clone()).await;
        assert_eq!(code, "workspace_not_allowed");
        assert!(message.contains("your owner"), "{message}");
    }
    assert!(!run_deps.path("workspace/a.md").exists());
}

#[tokio::test]
async fn a_full_workspace_and_a_large_file_are_refused_and_nothing_changes() {
    let run_deps = run_deps().await;
    let large = "x".repeat(run_deps.limits.file_bytes_max + 1);
    let args = json!({ "path": "workspace/a.md", "content": large });
    assert_eq!(
        run_deps.failure("write_file", args).await.0,
        "file_too_large"
    );
    let limits = Limits::default();
    let filler = std::fs::create_dir_all(run_deps.path("workspace"));
    filler.expect("a folder");
    let file = std::fs::File::create(run_deps.path("workspace/filler")).expect("a file");
    file.set_len(limits.workspace_bytes_max - 2)
        .expect("a sparse file");
    let args = json!({ "path": "workspace/a.md", "content": "abc" });
    let (code, message) = run_deps.failure("write_file", args).await;
    assert_eq!(code, "workspace_full");
    assert!(message.contains("workspace_bytes_max"), "{message}");
    assert!(!run_deps.path("workspace/a.md").exists());
}

#[tokio::test]
async fn a_path_that_is_too_long_or_too_deep_is_told_the_bound() {
    let run_deps = run_deps().await;
    let long = format!("workspace/{}", "n".repeat(256));
    let deep = format!("workspace/{}x", "d/".repeat(40));
    for (path, bound) in [(long, "255 for each name"), (deep, "at most 32 names")] {
        let args = json!({ "path": path, "content": "x" });
        let (code, message) = run_deps.failure("write_file", args).await;
        assert_eq!(code, "path_not_allowed");
        assert!(message.contains(bound), "{message}");
    }
}
