//! Plays a case on a whole engine, and looks at everything that is left.

use super::case::{Letter, Play, PlayedServer, Step};
use super::effects::{Seen, SeenMail};
use super::network::Network;
use crate::app::db;
use crate::app::rows::unpacked;
use crate::app::{Workspace, turns};
use crate::approvals::scene::{Scene, decision};
use crate::hijack::world::ALL;
use crate::mcp_client::stand_in;
use attache::store::ApprovalVerdict;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

const ADA: &str = "ada@engine.test";
/// Folders of the workspace that tell of no attack: rows and mails are looked at in other ways.
const OWN: [&str; 2] = ["data", "configs/schema"];

struct Stage {
    scene: Scene,
    /// The last letter and its recipient.
    last: Option<(String, String)>,
    message: Option<String>,
    is_refused: bool,
}

pub async fn played(play: &Play) -> Seen {
    let network = match &play.network {
        Some(plan) => Some(Network::start(plan).await),
        None => None,
    };
    let scene = Scene::with(&play.script, |workspace| prepare(play, workspace)).await;
    let root = scene.world.app.workspace.path().to_path_buf();
    let before = files(&root);
    let mut stage = Stage {
        scene,
        last: None,
        message: None,
        is_refused: false,
    };
    for step in &play.steps {
        stage.take(step).await;
    }
    let mut seen = stage.look().await;
    (seen.before, seen.after) = (before, files(&root));
    if let Some(network) = network {
        network.end(&mut seen).await;
    }
    seen
}

/// Approves the tools of a server, and has it be as it is.
fn prepare_server(server: &PlayedServer, workspace: &Workspace) {
    let declared = stand_in::declared(&stand_in::stdio(), &server.declared);
    stand_in::write_folder(workspace);
    workspace.write_json(
        "configs/mcp.json",
        &json!({ "servers": { "met": declared } }),
    );
    stand_in::pin(workspace, &server.pinned);
    let now = server.now.as_ref().unwrap_or(&server.pinned);
    stand_in::write_tools(&workspace.path().join(stand_in::FOLDER), now);
    if let Some(answer) = &server.answer {
        workspace.write("met/call.json", &answer.to_string());
    }
}

/// Whether it succeeds says nothing: what it asked is seen at the servers.
async fn log_in(workspace: &Path, server: &str) {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_attache"));
    command.arg("--workspace").arg(workspace);
    command.args(["mcp", "login", server, "--no-browser", "--wait", "1"]);
    let command = command.stdin(std::process::Stdio::null());
    command.output().await.expect("the program");
}

fn prepare(play: &Play, workspace: &Workspace) {
    if let Some(server) = &play.mcp {
        prepare_server(server, workspace);
    }
    for (path, text) in &play.files {
        workspace.write(path, text);
    }
    for (place, value) in &play.set {
        let (file, pointer) = place.split_once('#').expect("file#pointer");
        workspace.set(file, pointer, value.clone());
    }
    for (path, to) in &play.links {
        let at = |path: &str| workspace.path().join(path);
        match path.split_at_checked(1) {
            Some(("=", path)) => std::fs::hard_link(at(to), at(path)).expect("a hard link"),
            Some(("|", path)) => {
                let made = std::process::Command::new("mkfifo").arg(at(path)).status();
                assert!(made.expect("mkfifo").success());
            }
            _ => std::os::unix::fs::symlink(to, at(path)).expect("a link"),
        }
    }
}

impl Stage {
    async fn take(&mut self, step: &Step) {
        let app = &self.scene.world.app;
        match step {
            Step::Letter(letter) => {
                self.last = Some(self.written(letter));
                self.deliver().await;
            }
            Step::Again => self.deliver().await,
            Step::Write { path, text } => app.workspace.write(path, text),
            Step::Hours(hours) => {
                let time = Duration::from_secs(hours * 3600);
                app.workspace.clock.advance(time);
            }
            Step::Login(server) => log_in(app.workspace.path(), server).await,
            Step::Decide { verdict, sha256 } => {
                let mut rows = app.workspace.rows().await;
                let sql = "SELECT id FROM approvals ORDER BY seq LIMIT 1";
                let id = db::query_scalar::<String>(sql);
                // Without a question there is nothing to decide, and the case misses what it requires.
                let Some(id) = id.fetch_optional(&mut rows).await.expect("questions") else {
                    return;
                };
                let verdict = match verdict.as_str() {
                    "approve" => ApprovalVerdict::Approve,
                    "reject" => ApprovalVerdict::Reject,
                    other => panic!("no verdict `{other}`"),
                };
                let mut decided = decision(verdict, "");
                decided.sha256.clone_from(sha256);
                // Whoever comes too late, or with another digest, is told so; what counts is seen later.
                let _told = app.engine.store.decide_approval(&id, decided).await;
                app.drain().await;
            }
        }
    }

    async fn deliver(&mut self) {
        let (eml, to) = self.last.as_ref().expect("a letter");
        let taken = self.scene.deliver(eml, to).await;
        self.is_refused = taken.is_err();
        self.message = taken.ok().map(|taken| taken.copies[0].message.to_string());
        self.scene.world.app.drain().await;
    }

    /// The letter with its signature, and its recipient.
    fn written(&self, letter: &Letter) -> (String, String) {
        let to = match letter.to.as_deref() {
            Some("question") => self.scene.reply_address(),
            Some(to) => to.to_owned(),
            None => ADA.to_owned(),
        };
        let Letter { from, id, body, .. } = letter;
        let named = letter.header_to.as_ref().unwrap_or(&to);
        let date = self.scene.world.now().to_utc().to_rfc2822();
        let more: String = letter
            .more
            .iter()
            .map(|line| format!("{line}\r\n"))
            .collect();
        let eml = format!(
            "From: {from}\r\nTo: {named}\r\nSubject: Tuesday\r\nMessage-ID: <{id}@x.test>\r\nDate: {date}\r\n{more}\r\n{body}\r\n"
        );
        let own = from.rsplit('@').next().unwrap_or_default();
        let own = own.trim_end_matches('>').to_owned();
        let domain = match letter.signed.as_ref().unwrap_or(&own).as_str() {
            "" => None,
            "home.test" => Some("home.test"),
            "partner.test" => Some("partner.test"),
            "evil.test" => Some("evil.test"),
            other => panic!("no key of `{other}`"),
        };
        let world = &self.scene.world;
        let eml = match domain {
            Some(domain) => world.signed_with(domain, &eml, &ALL, |signer| signer),
            None => eml,
        };
        (eml, to)
    }

    async fn look(&self) -> Seen {
        let app = &self.scene.world.app;
        let mut rows = app.workspace.rows().await;
        let mut seen = Seen {
            is_refused: self.is_refused,
            ..Seen::default()
        };
        if let Some(message) = &self.message {
            seen.trust = self.scene.world.trust_of(message).await.0;
        }
        let sql = "SELECT d.bytes, group_concat(lower(r.recipient)) FROM deliveries d
            JOIN delivery_recipients r ON r.delivery_id = d.id GROUP BY d.id, d.bytes";
        let mails = db::query(sql).fetch_all(&mut rows).await.expect("mails");
        seen.mails = mails
            .iter()
            .map(|row| mail(&unpacked(row.get(0)), row.get(1)))
            .collect();
        let sql = "SELECT r.id, m.sender FROM runs r JOIN messages m ON m.id = r.trigger_message_id ORDER BY r.created_at";
        let runs = db::query(sql).fetch_all(&mut rows).await.expect("runs");
        for run in runs {
            let (id, sender): (&str, String) = (run.get(0), run.get(1));
            for turn in turns::of_run(&app.engine.store, &mut rows, id).await {
                seen.requests.push((sender.clone(), turn.request_json));
            }
            seen.trace.extend(app.trace(id).await);
        }
        let sql = "SELECT state FROM approvals";
        let states = db::query_scalar(sql).fetch_all(&mut rows).await;
        seen.questions = states.expect("questions");
        seen
    }
}

fn mail(bytes: &[u8], recipients: String) -> SeenMail {
    let email = crate::app::parse(bytes);
    let raw = String::from_utf8_lossy(bytes);
    let (header, _) = raw.split_once("\r\n\r\n").unwrap_or((&raw, ""));
    let attached = email.attachments.iter().map(|attachment| {
        let bytes = String::from_utf8_lossy(&attachment.bytes);
        format!("{} {bytes}\n", attachment.declared_name)
    });
    let content = format!(
        "{header}\n{}\n{}\n{:?}\n{}",
        email.subject,
        email.text,
        email.html,
        attached.collect::<String>()
    );
    SeenMail {
        recipients: recipients.split(',').map(str::to_owned).collect(),
        header: header.to_owned(),
        content,
    }
}

/// Every regular file of the workspace; links are not followed.
fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let entry = entry.expect("an entry");
            let kind = entry.file_type().expect("a kind");
            let path = entry.path();
            let name = path.strip_prefix(root).expect("below").to_string_lossy();
            match () {
                () if OWN.iter().any(|own| name == *own) => {}
                () if kind.is_dir() => folders.push(path.clone()),
                () if kind.is_file() => {
                    found.insert(name.into_owned(), std::fs::read(&path).expect("a file"));
                }
                () => {}
            }
        }
    }
    found
}
