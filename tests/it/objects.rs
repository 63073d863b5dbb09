//! Large bytes in an object store: put before the row, read as before, gone with their row; whatever the store does meanwhile.

mod folder;
mod gone;
mod moved;
mod server;
mod bucket;
mod deaths;
mod token;

use crate::app::{TestApp, Workspace, note};
use attache::domain::sha256_hex;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

pub use deaths::POINTS;

/// A workspace with an object store in a folder beside it.
pub struct Kept {
    pub workspace: Workspace,
    pub folder: tempfile::TempDir,
}

impl Kept {
    pub fn new(script: &Value) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let workspace = Workspace::new(script).talkative();
        let kept = Self { workspace, folder };
        kept.configure();
        kept
    }

    /// Bytes from one KiB on become objects.
    fn configure(&self) {
        let url = format!("file://{}", self.path().display());
        std::fs::create_dir_all(self.path()).expect("a folder");
        let objects = json!({ "url": url, "bytes_min": 1024, "timeout": "5s" });
        self.workspace
            .write_json("configs/keeping.json", &json!({ "objects": objects }));
    }

    /// The folder of the objects; a test may move it away.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("objects")
    }

    /// Moves the objects away, as a share that is not mounted.
    pub fn unmount(folder: &Path) {
        std::fs::rename(folder.join("objects"), folder.join("away")).expect("moved");
    }

    pub fn mount(folder: &Path) {
        std::fs::rename(folder.join("away"), folder.join("objects")).expect("moved back");
    }
}

/// The files of all objects, in the order of their names, without the tokens of databases.
pub fn objects(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                // Also one that is half written, `token#1`.
                path if name_of(&path).starts_with("token") => {}
                path => found.push(path),
            }
        }
    }
    found.sort();
    found
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy());
    name.unwrap_or_default().into_owned()
}

/// Text that no compressor makes much smaller.
pub fn noise(word: &str, lines: usize) -> String {
    let line = |number: usize| sha256_hex(&[word.as_bytes(), &number.to_be_bytes()]) + "\n";
    (0..lines).map(line).collect()
}

/// A large letter with a large attachment, `plan.txt`.
pub fn large(id: &str) -> String {
    let plan = STANDARD.encode(format!("The plan of {id}.\n{}", noise("plan", 60)));
    let lines: Vec<&str> = plan
        .as_bytes()
        .chunks(76)
        .map(|line| std::str::from_utf8(line).expect("ASCII"))
        .collect();
    let body = format!(
        "--B\nContent-Type: text/plain\n\nSee the plan.\n{}\n--B\nContent-Type: text/plain; name=plan.txt\n\
         Content-Disposition: attachment; filename=plan.txt\nContent-Transfer-Encoding: base64\n\n{}\n--B--",
        noise(id, 90),
        lines.join("\n")
    );
    let mime = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n";
    note(id, mime, &body)
}

/// Reads the attachment of each letter, and answers.
pub fn reads() -> Value {
    json!({ "turns": [
        { "call": [{ "tool": "read_attachment", "args": { "name": "plan.txt" } }] },
        { "say": "I have read it." },
    ] })
}

/// An engine that has answered a large letter, `q1@guest.example`.
pub async fn answered(workspace: Workspace) -> TestApp {
    let app = workspace.start().await;
    app.run_of(&large("q1@guest.example")).await;
    app.drain().await;
    app
}

/// Names of objects in rows, and bytes that are in rows all the same.
pub async fn named(app: &TestApp) -> (i64, i64) {
    let sql = "SELECT CAST(count(object) AS TEXT), CAST(coalesce(sum(CASE WHEN object IS NOT NULL THEN size END), 0) AS TEXT) FROM (
        SELECT object, length(bytes) AS size FROM raw_letters
        UNION ALL SELECT object, length(bytes) FROM attachments
        UNION ALL SELECT packed_object, length(request_json) + coalesce(length(packed), 0) FROM run_turns) AS kept WHERE $1 = $1";
    let row = app.row(sql, "").await;
    let number = |at: usize| row[at].as_deref().and_then(|text| text.parse().ok());
    (number(0).expect("a number"), number(1).expect("a number"))
}
