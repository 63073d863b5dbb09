//! `write_file` and `edit_file`: whole or not at all, only in the workspace, only for the owner, with versions.

use super::RunDeps;
use attache::config::Limits;
use attache::shell::{CommandLimits, CommandSandbox};
use attache::store::files::versions::WorkspaceVersions;
use attache::store::files::workspace::{self, WorkspaceQuota};
use attache::tools::Reader;
use serde_json::json;
use std::collections::BTreeMap;

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

/// Links in the workspace: absolute ones, which the folder's capability refuses by itself, and relative ones that stay in the
/// persona's folder, which it follows.
const LINKS: [(&str, &str); 16] = [
    ("workspace/up", ".."),
    ("workspace/here", "../workspace"),
    ("workspace/notes", "../knowledge"),
    ("workspace/duties", "../responsibilities"),
    ("workspace/skills", "../skills"),
    ("workspace/memory", "../.memory"),
    ("workspace/a/b/c", "../../../skills"),
    ("workspace/chain", "up"),
    ("workspace/inner", "a"),
    ("workspace/round", "a/../.."),
    ("workspace/loop", "loop"),
    ("workspace/policy.md", "../policy.json"),
    ("workspace/persona.md", "../PERSONA.md"),
    ("workspace/memory.md", "../active.md"),
    ("workspace/new.md", "../new.md"),
    ("workspace/same.md", "a/x.md"),
];

/// Everything of a folder but the workspace: path -> content, or where a link leads.
fn outside(folder: &std::path::Path) -> BTreeMap<String, String> {
    let (mut found, mut left) = (BTreeMap::new(), vec![folder.to_path_buf()]);
    while let Some(path) = left.pop() {
        let name = path
            .strip_prefix(folder)
            .expect("below")
            .display()
            .to_string();
        let facts = path.symlink_metadata().expect("it is there");
        if name == "workspace" {
            continue;
        }
        if facts.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a folder");
            left.extend(entries.map(|entry| entry.expect("an entry").path()));
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        found.insert(name, text);
    }
    found
}

/// A persona's folder with all that a run must not write, and a workspace full of links to it.
async fn linked() -> RunDeps {
    let run_deps = run_deps().await;
    for file in [
        "policy.json",
        "persona.json",
        "active.md",
        "knowledge/house.md",
        "responsibilities/tea.md",
        "skills/tea/SKILL.md",
        ".memory/active-1.md",
        "workspace/a/x.md",
        "workspace/a/b/y.md",
    ] {
        run_deps.write(file, format!("as it was: {file}"));
    }
    let at = |path: &str| run_deps.path(path);
    for (link, to) in LINKS {
        std::os::unix::fs::symlink(to, at(link)).expect("a link");
    }
    std::os::unix::fs::symlink(at("PERSONA.md"), at("workspace/link.md")).expect("a link");
    std::os::unix::fs::symlink(at("knowledge"), at("workspace/folder")).expect("a link");
    std::fs::hard_link(at("PERSONA.md"), at("workspace/second.md")).expect("a name");
    std::fs::hard_link(at("policy.json"), at("workspace/a/second.json")).expect("a name");
    run_deps
}

/// Paths that lead out of the workspace, or through a link in it.
const LEADING_OUT: [&str; 24] = [
    "workspace/up/policy.json",
    "workspace/up/persona.json",
    "workspace/up/PERSONA.md",
    "workspace/up/active.md",
    "workspace/up/responsibilities/evil.md",
    "workspace/up/skills/x/SKILL.md",
    "workspace/up/workspace/x.md",
    "workspace/here/x.md",
    "workspace/notes/house.md",
    "workspace/notes/deep/x.md",
    "workspace/duties/tea.md",
    "workspace/skills/tea/SKILL.md",
    "workspace/memory/active-1.md",
    "workspace/a/b/c/tea/SKILL.md",
    "workspace/chain/policy.json",
    "workspace/inner/x.md",
    "workspace/round/policy.json",
    "workspace/loop/x.md",
    "workspace/policy.md",
    "workspace/persona.md",
    "workspace/memory.md",
    "workspace/new.md",
    "workspace/same.md",
    "workspace/a/b/c/../../../up/policy.json",
];

#[tokio::test]
async fn nothing_outside_of_the_workspace_is_written() {
    let run_deps = linked().await;
    let before = outside(&run_deps.path(""));
    let inside = [
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
        "workspace/a/second.json",
        "Workspace/x.md",
    ];
    for path in inside.into_iter().chain(LEADING_OUT) {
        let args = json!({ "path": path, "content": "mine" });
        assert!(run_deps.call("write_file", args).await.is_err(), "{path}");
        let old = before.get(path.rsplit('/').next().unwrap_or_default());
        let sha256 = attache::domain::sha256_hex(&[old.cloned().unwrap_or_default().as_bytes()]);
        let edit = json!({ "path": path, "sha256": sha256, "old": "as", "new": "mine" });
        assert!(run_deps.call("edit_file", edit).await.is_err(), "{path}");
    }
    assert_eq!(outside(&run_deps.path("")), before);
    assert_eq!(
        text(&run_deps, "workspace/a/x.md"),
        "as it was: workspace/a/x.md"
    );
    // What is no link is written as ever, also where folders are missing.
    for path in [
        "workspace/a/x.md",
        "workspace/a/b/new.md",
        "workspace/n/e/w.md",
    ] {
        let args = json!({ "path": path, "content": "mine" });
        run_deps.result("write_file", args).await;
        assert_eq!(text(&run_deps, path), "mine");
    }
    assert_eq!(outside(&run_deps.path("")), before);
}

#[tokio::test]
async fn nothing_is_read_listed_or_attached_through_a_link_in_the_workspace() {
    let run_deps = linked().await;
    for path in LEADING_OUT {
        let read = run_deps.call("read_file", json!({ "path": path })).await;
        assert!(read.is_err(), "{path}");
        let mail =
            json!({ "to": "owner@home.test", "subject": "A", "body": "B", "attachments": [path] });
        assert!(run_deps.call("send_email", mail).await.is_err(), "{path}");
        let grep = json!({ "pattern": "as it was", "path": path });
        assert!(run_deps.call("grep", grep).await.is_err(), "{path}");
    }
    for folder in [
        "up", "here", "notes", "duties", "skills", "a/b/c", "chain", "inner", "round",
    ] {
        let path = format!("workspace/{folder}");
        let listed = run_deps.call("list_files", json!({ "path": path })).await;
        assert!(listed.is_err(), "{path}");
    }
    let found = run_deps
        .result("glob", json!({ "pattern": "workspace/**" }))
        .await;
    let found: Vec<&str> = found["files"]
        .as_array()
        .expect("files")
        .iter()
        .filter_map(|file| file["path"].as_str())
        .collect();
    // Second names are listed and cannot be read.
    let plain = [
        "workspace/a/b/y.md",
        "workspace/a/second.json",
        "workspace/a/x.md",
        "workspace/second.md",
    ];
    assert_eq!(found, plain);
    let lines = run_deps
        .result(
            "grep",
            json!({ "pattern": "as it was", "path": "workspace" }),
        )
        .await;
    let lines = lines["matches"].as_array().expect("lines").len();
    assert_eq!(lines, 2);
    let read = json!({ "path": "workspace/a/x.md" });
    assert_eq!(
        run_deps.result("read_file", read).await["content"],
        "as it was: workspace/a/x.md"
    );
    // A link of the owner's outside of the workspace is followed, to a file and into the workspace.
    let link = |to: &str, at: &str| {
        std::os::unix::fs::symlink(to, run_deps.path(at)).expect("a link");
    };
    link("../workspace/a/x.md", "knowledge/x.md");
    link("house.md", "knowledge/home.md");
    for path in ["knowledge/x.md", "knowledge/home.md"] {
        let read = run_deps.result("read_file", json!({ "path": path })).await;
        assert!(
            read["content"]
                .as_str()
                .is_some_and(|text| text.starts_with("as it was")),
            "{path}"
        );
    }
}

#[test]
fn what_leads_out_of_a_workspace_is_found_and_what_stays_in_it_is_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |path: &str| folder.path().join("workspace").join(path);
    std::fs::create_dir_all(at("a/b")).expect("folders");
    std::fs::write(at("a/x.md"), "x").expect("a file");
    std::fs::write(folder.path().join("outside.md"), "x").expect("a file");
    let out = [
        ("absolute", "/etc/passwd"),
        ("sandbox", "/workspace/a"),
        ("up", ".."),
        ("twice", "../../x"),
        ("a/up", "../../outside.md"),
        ("a/b/deep", "../../../skills"),
        ("round", "a/../../x"),
        ("missing", "nowhere/../../x"),
        ("dot", "./../policy.json"),
        ("chain", "up/policy.json"),
        ("a/chain", "../up"),
        ("self", "../workspace/a"),
    ];
    let stays = [
        ("file", "a/x.md"),
        ("folder", "a"),
        ("a/back", "../a/b"),
        ("a/b/root", "../../a/x.md"),
        ("dangling", "a/nothing"),
        ("loop", "loop"),
        ("root", "."),
    ];
    for (link, to) in out.iter().chain(&stays) {
        std::os::unix::fs::symlink(to, at(link)).expect("a link");
    }
    let removed = workspace::remove_links_out(folder.path()).expect("looked at");
    let mut wanted: Vec<&str> = out.iter().map(|(link, _)| *link).collect();
    wanted.sort_unstable();
    let mut removed: Vec<&str> = removed.iter().map(String::as_str).collect();
    removed.sort_unstable();
    assert_eq!(removed, wanted);
    assert_eq!(
        std::fs::read_to_string(folder.path().join("outside.md")).expect("it stays"),
        "x"
    );
    for (link, _) in stays {
        assert!(at(link).symlink_metadata().is_ok(), "{link}");
    }
    // Two names of one file in it are no way out; one elsewhere is.
    std::fs::hard_link(at("a/x.md"), at("a/b/x.md")).expect("a name");
    let opened = || {
        workspace::open(folder.path())
            .expect("opened")
            .expect("a workspace")
    };
    assert_eq!(
        workspace::leading_out(&opened()).expect("looked at"),
        Default::default()
    );
    std::fs::hard_link(folder.path().join("outside.md"), at("a/b/o.md")).expect("a name");
    std::fs::hard_link(at("a/x.md"), folder.path().join("third.md")).expect("a name");
    let found = workspace::leading_out(&opened()).expect("looked at");
    let names = ["a/b/o.md", "a/b/x.md", "a/x.md"].map(std::path::PathBuf::from);
    assert_eq!(found.second_names, names);
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
#[ignore = "second tier"]
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

/// A program in place of bubblewrap: no sandbox, and what a command would leave behind.
fn leaving_behind(folder: &std::path::Path, script: &str) -> CommandSandbox {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join("bwrap");
    let nothing = r#"{"head":"","tail":"","bytes":0,"left_out":0}"#;
    let text = format!(
        "#!/bin/sh\nwhile [ $# -gt 0 ]; do [ \"$1 $3\" = '--bind /workspace' ] && place=$2; shift; done\ncat >/dev/null\n\
         [ $place = /usr ] || {{ cd $place && {script}; }} || exit 1\n\
         echo '{{\"end\":{{\"exited\":0}},\"stdout\":{nothing},\"stderr\":{nothing}}}'\n"
    );
    std::fs::write(&path, text).expect("a file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    let program = env!("CARGO_BIN_EXE_attache").into();
    CommandSandbox::with_bubblewrap(program, Some(path), CommandLimits::default())
}

#[tokio::test]
async fn links_that_a_command_leaves_are_removed_and_named_and_a_second_name_keeps_it_from_starting()
 {
    let mut run_deps = run_deps().await;
    run_deps.write("policy.json", "{}");
    run_deps.write("workspace/a/x.md", "x");
    let folder = tempfile::tempdir().expect("a folder");
    let script = "mkdir -p a/b && ln -s .. notes && ln -s ../../../skills a/b/s && ln -s /etc/passwd p && ln -s a inner";
    run_deps.commands = Some(leaving_behind(folder.path(), script));
    let command = json!({ "argv": ["any"] });
    let result = run_deps.result("shell", command.clone()).await;
    let told =
        "removed, because they led out of the workspace: a/b/s, notes, p; copy the files instead";
    assert_eq!(result["links"], told, "{result}");
    let is_there = |name: &str| run_deps.path(name).symlink_metadata().is_ok();
    for link in ["notes", "a/b/s", "p"] {
        assert!(!is_there(&format!("workspace/{link}")), "{link}");
    }
    assert!(
        is_there("workspace/inner"),
        "a link that stays in the workspace stays"
    );
    let args = json!({ "path": "workspace/notes/policy.json", "content": "mine" });
    run_deps.result("write_file", args).await;
    assert_eq!(text(&run_deps, "policy.json"), "{}");
    // A second name of a file elsewhere: the command would write there.
    let marks = folder.path().join("ran");
    let script = format!("touch {} && echo evil >>second.json", marks.display());
    run_deps.commands = Some(leaving_behind(folder.path(), &script));
    std::fs::hard_link(
        run_deps.path("policy.json"),
        run_deps.path("workspace/second.json"),
    )
    .expect("a name");
    let (code, message) = run_deps.failure("shell", command.clone()).await;
    assert_eq!(code, "second_name");
    assert!(message.contains("`workspace/second.json`"), "{message}");
    assert!(!marks.exists());
    assert_eq!(text(&run_deps, "policy.json"), "{}");
    std::fs::remove_file(run_deps.path("workspace/second.json")).expect("gone");
    // Two names in the workspace are no way out.
    std::fs::hard_link(
        run_deps.path("workspace/a/x.md"),
        run_deps.path("workspace/second.json"),
    )
    .expect("a name");
    run_deps.result("shell", command).await;
    assert!(marks.exists());
}
