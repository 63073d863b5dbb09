//! A workspace with a past: letters with and without runs, tools, mails, an attachment, a slot that fired.

use crate::app::db;
use crate::app::{TestApp, Workspace, proven_note as note};
use serde_json::{Value, json};
use std::path::Path;

/// Reads, notes, mails, and says something last, for every letter.
pub fn script() -> Value {
    json!({ "turns": [
        { "call": [{ "tool": "read_file", "args": { "path": "knowledge/house.md" } }] },
        { "call": [{ "tool": "send_email", "args":
            { "to": ["bob@guest.example"], "subject": "x", "body": "From seven to ten." } }] },
        { "say": "Done." },
    ] })
}

pub const WITH_PICTURE: &str = "From: Bob <bob@guest.example>\nTo: ada@engine.test\nSubject: A picture\n\
    Message-ID: <picture@guest.example>\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n\
    --B\nContent-Type: text/plain\n\nSee the lake.\n--B\nContent-Type: application/octet-stream\n\
    Content-Disposition: attachment; filename=lake.bin\nContent-Transfer-Encoding: base64\n\n\
    bGFrZQ==\n--B--\n";

pub async fn lived() -> TestApp {
    let workspace = Workspace::new(&script()).talkative();
    // Its database is made here, so that its log has all of it, as that of a first engine.
    std::fs::create_dir_all(workspace.path().join("data")).expect("a folder");
    workspace.write(
        "personas/ada/responsibilities/morning.md",
        "---\nname: Morning\nschedule: \"30 9 * * *\"\ntimezone: UTC\n---\nLook around.\n",
    );
    workspace.set(
        "configs/security.json",
        "/send_allow",
        json!(["bob@guest.example"]),
    );
    let app = workspace.start().await;
    app.run_of(&note("q1@guest.example", "", "When is breakfast?"))
        .await;
    app.run_of(&note(
        "q2@guest.example",
        "In-Reply-To: <q1@guest.example>\n",
        "And on Sundays?",
    ))
    .await;
    app.run_of(WITH_PICTURE).await;
    app.receive(&note(
        "n1@guest.example",
        "List-Id: <news.guest.example>\n",
        "News.",
    ))
    .await
    .expect("filed");
    app.engine
        .scheduler()
        .sync()
        .await
        .expect("responsibilities");
    app.workspace
        .clock
        .advance(std::time::Duration::from_secs(3600));
    app.engine.scheduler().tick().await.expect("a tick");
    app.drain().await;
    app.check().await;
    app
}

/// A copy of its database as one file.
pub async fn copy_database(app: &TestApp, to: &Path) {
    let sql = sqlx::AssertSqlSafe(format!("VACUUM INTO '{}'", to.display()));
    db::query(sql)
        .execute(&mut app.workspace.rows().await)
        .await
        .expect("a copy");
}

/// Runs a command of the real binary on a workspace: exit code, stdout, stderr.
pub async fn attache(workspace: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_attache"));
    for name in ["ATTACHE_WORKSPACE", "ATTACHE_LOG", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    let output = command
        .current_dir(workspace)
        .args(args)
        .output()
        .await
        .expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    (
        output.status.code().unwrap_or(-1),
        text(output.stdout),
        text(output.stderr),
    )
}
