//! The whole engine on a workspace of its own: real files, a real database, a scripted model, a manual clock.
//!
//! [`TestApp::check`] asserts the invariants that no test asks for: those of `attache doctor --audit`, and that nothing
//! is left on the road.

pub mod audited;
pub mod database;
pub mod db;
pub mod idle;
mod recorded;
pub mod rows;
pub mod turns;

use attache::app::{Drained, Engine};
use attache::clock::{Clock, ManualClock};
use attache::domain::{Address, Arrival, Email, Envelope, Letter, Mailbox, Timestamp, Via};
use attache::gateway::intake_contract::{Accepted, CopyOutcome, Refusal};
use attache::providers::RequestEncoder;
use attache::replay::verify::{Outcome, Verified, Verifier};
use attache::store::packing;
use attache::store::{OpenError, RunFilter, Store};
pub use audited::audit;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub const START: &str = "2026-11-20T09:00:00.000Z";
/// The server whose results [`letter`] says are to be believed; over loopback they are where [`behind_relay`] says so.
const RELAY: &str = "mx.engine.test";
/// A header line for [`note`] that proves its sender, `bob@guest.example`.
pub const PROVEN: &str =
    "Authentication-Results: mx.engine.test; dkim=pass header.d=guest.example\n";

/// A workspace folder, before and between engines.
pub struct Workspace {
    pub dir: tempfile::TempDir,
    pub clock: Arc<ManualClock>,
    /// What writes the requests of `scripted`, where a test has put another adapter in its place.
    pub scripted: OnceLock<Arc<dyn RequestEncoder>>,
}

impl Workspace {
    /// Persona `ada` at `ada@engine.test`, owner `olga@home.test`, mails into a folder.
    pub fn new(script: &Value) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let clock = Arc::new(ManualClock::at(
            Timestamp::parse(START).expect("an instant"),
        ));
        let workspace = Self {
            dir,
            clock,
            scripted: OnceLock::new(),
        };
        workspace.write("configs/script.json", &script.to_string());
        workspace.write_json(
            "configs/gateway.json",
            &json!({
                "mail_domain": "engine.test", "host_name": "mail.engine.test", "owners": ["olga@home.test"],
                "listeners": [{ "kind": "smtp", "address": "127.0.0.1:0" }],
                "outbound": { "kind": "folder", "path": "data/outbox" },
                // `sent` counts what personas say; `sender_notes` has tests of its own.
                "sender_notes": { "failed": false, "slow_after": "0s" },
                // Tests hand in letters before anything works. Letters that one run answers have tests of their own.
                "limits": { "letters_per_run_max": 1 },
            }),
        );
        workspace.write_json(
            "configs/inference.json",
            &json!({
                "provider": "scripted", "model": "test", "max_tool_turns": 4,
                "providers": { "scripted": { "script": "configs/script.json" } },
            }),
        );
        workspace.write_json(
            "configs/context.json",
            &json!({
                "thread": ["load-file(configs/prompts/system.md)", "persona", "active-memory", "thread-history",
                    "invocation-metadata", "current-input"],
                "responsibility": ["persona", "active-memory", "invocation-metadata", "current-input"],
            }),
        );
        // Nobody signs anything here: without this no letter of the tests would be answered.
        workspace.write_json(
            "configs/security.json",
            &json!({ "access": { "allow": ["*"] } }),
        );
        workspace.write(
            "configs/prompts/system.md",
            "You are {{ persona.name }}. Today is {{ date }}.",
        );
        workspace.persona("ada", "Ada");
        workspace
    }

    pub fn persona(&self, id: &str, name: &str) {
        self.write_json(
            &format!("personas/{id}/persona.json"),
            // What is offered by need has tests of its own.
            &json!({ "name": name, "address": id, "tools": "all" }),
        );
        self.write(
            &format!("personas/{id}/PERSONA.md"),
            &format!("{name} answers letters."),
        );
        self.write(&format!("personas/{id}/active.md"), "Nothing new.");
        self.write(
            &format!("personas/{id}/knowledge/house.md"),
            "# Breakfast\n\nFrom seven to ten.\n",
        );
    }

    /// Lets one person have as many answers as they like, for tests of something else with many letters.
    pub fn talkative(self) -> Self {
        let many = 1_000_000;
        self.set(
            "configs/gateway.json",
            "/limits",
            json!({ "replies_per_hour_max": many, "replies_per_day_max": many, "alternations_max": many,
                "domain_runs_per_day_max": many, "letters_per_run_max": 1 }),
        );
        self
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn write(&self, path: &str, text: &str) {
        let text = match path {
            ".secrets" => database::kept(self.path(), text),
            _ => text.to_owned(),
        };
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        std::fs::write(path, text).expect("a file");
    }

    pub fn write_json(&self, path: &str, value: &Value) {
        self.write(path, &serde_json::to_string_pretty(value).expect("json"));
    }

    /// Changes one value of a configuration file.
    pub fn set(&self, path: &str, pointer: &str, value: Value) {
        let text = std::fs::read_to_string(self.path().join(path)).expect("a configuration file");
        let mut whole: Value = serde_json::from_str(&text).expect("json");
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        whole.pointer_mut(parent).expect("a parent")[key] = value;
        self.write_json(path, &whole);
    }

    pub async fn start(self) -> TestApp {
        let engine = self.engine().await;
        TestApp {
            workspace: self,
            engine,
        }
    }

    pub async fn engine(&self) -> Engine {
        database::provide(self.path()).await;
        let names = attache::cli::name_catalog();
        let mut config = attache::config::load(self.path(), &names).expect("a good configuration");
        // This program is the tests'.
        config.program = env!("CARGO_BIN_EXE_attache").into();
        // An engine that was let go frees the workspace when its last task has been dropped, which the runtime does
        // in its own time.
        let opening = async {
            loop {
                match Engine::open(config.clone(), self.clock.clone()).await {
                    Err(error) if matches!(error.downcast_ref(), Some(OpenError::InUse { .. })) => {
                        tokio::task::yield_now().await;
                    }
                    opened => return opened.expect("an engine"),
                }
            }
        };
        let engine = tokio::time::timeout(Duration::from_secs(20), opening);
        let engine = engine.await.expect("the workspace is free");
        // Benches use this, too.
        if cfg!(debug_assertions) {
            engine.store.check_scopes();
        }
        engine
    }

    /// A plain connection to the database, for looking at rows.
    pub async fn rows(&self) -> db::Connection {
        db::Connection::open(self.path()).await
    }

    /// Every run of the workspace, executed once more.
    pub async fn verified(&self) -> Vec<Verified> {
        let store = Store::open_to_read(self.path(), self.clock.clone())
            .await
            .expect("readable");
        let names = attache::cli::name_catalog();
        let mut verifier = Verifier::new(store.clone(), self.path().to_path_buf(), names);
        if let Some(wire) = self.scripted.get() {
            verifier = verifier.with("scripted", wire.clone());
        }
        let filter = RunFilter {
            limit: 10_000,
            ..RunFilter::default()
        };
        let mut verified = Vec::new();
        for run in store.list_runs(&filter).await.expect("runs") {
            verified.push(verifier.verify(&run.id).await.expect("a readable database"));
        }
        verified
    }

    /// What personas sent, in the order of its Date and id.
    pub fn sent(&self) -> Vec<Email> {
        self.mails()
            .into_iter()
            .filter(|mail| !is_notice(mail))
            .collect()
    }

    /// What the owners were told by mail, in that order.
    pub fn notices(&self) -> Vec<Email> {
        self.mails().into_iter().filter(is_notice).collect()
    }

    fn mails(&self) -> Vec<Email> {
        let mut files: Vec<PathBuf> = match std::fs::read_dir(self.path().join("data/outbox")) {
            Ok(files) => files.map(|file| file.expect("an entry").path()).collect(),
            Err(_) => Vec::new(),
        };
        files.retain(|path| path.extension().is_some_and(|ext| ext == "eml"));
        files.sort();
        files
            .iter()
            .map(|path| parse(&std::fs::read(path).expect("a mail")))
            .collect()
    }
}

/// Between two looks at what another process or thread does. To spin would take the processor from it, and from the
/// tests beside this one.
const GLANCE: Duration = Duration::from_millis(2);

/// One test in so many is of the sample.
const SAMPLE: u64 = 8;

/// Reports whether a variable asks for a long form.
fn is_all(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|wanted| wanted == "all")
}

/// Reports whether the test that calls is of the sample, by its name.
fn is_of_sample() -> bool {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or_default();
    // FNV-1a, which is the same on every machine.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash.is_multiple_of(SAMPLE)
}

/// Lets others work before a loop looks again.
pub async fn glance() {
    tokio::time::sleep(GLANCE).await;
}

/// Places at which a stream of so many bytes is cut: behind every `step`th byte, and before its last; all of them in the long
/// form.
pub fn cuts(length: usize, step: usize) -> Vec<usize> {
    let is_long = std::env::var("ATTACHE_CUTS").is_ok_and(|wanted| wanted == "all");
    let step = if is_long { 1 } else { step };
    let mut places: Vec<usize> = (0..length).step_by(step).collect();
    places.extend(length.checked_sub(1));
    places.dedup();
    places
}

/// The same for a thread of its own.
pub fn blink() {
    std::thread::sleep(GLANCE);
}

fn is_notice(mail: &Email) -> bool {
    mail.from
        .first()
        .is_some_and(|from| from.name.ends_with("Attaché"))
}

pub fn parse(bytes: &[u8]) -> Email {
    attache::mime::parse(bytes, &attache::mime::ParseLimits::default()).expect("a readable mail")
}

/// An engine at work on a workspace.
pub struct TestApp {
    pub workspace: Workspace,
    pub engine: Engine,
}

impl TestApp {
    pub async fn start(script: Value) -> Self {
        Workspace::new(&script).start().await
    }

    /// Hands a letter to the door, enveloped by its own From and To.
    pub async fn receive(&self, eml: &str) -> Result<Accepted, Refusal> {
        self.engine.intake().accept(letter(eml)).await
    }

    /// As [`Self::receive`], for a letter that must be taken; gives the id of its first run.
    pub async fn run_of(&self, eml: &str) -> String {
        let accepted = self.receive(eml).await.expect("the letter is taken");
        match &accepted.copies[0].outcome {
            CopyOutcome::Run(run) => run.to_string(),
            other => panic!("no run but {other:?}"),
        }
    }

    pub async fn drain(&self) -> Drained {
        self.workspace.clock.advance(Duration::from_millis(10));
        self.engine.drain().await.expect("drained")
    }

    /// Lets the engine go as a crash would, and starts another on the same files.
    pub async fn restart(self) -> TestApp {
        let TestApp { workspace, engine } = self;
        drop(engine);
        workspace.start().await
    }

    pub fn sent(&self) -> Vec<Email> {
        self.workspace.sent()
    }

    pub fn notices(&self) -> Vec<Email> {
        self.workspace.notices()
    }

    /// One row as JSON-ish values: `column -> text`.
    pub async fn row(&self, sql: &'static str, key: &str) -> Vec<Option<String>> {
        let mut rows = self.workspace.rows().await;
        let row = db::query(sql)
            .bind(key)
            .fetch_one(&mut rows)
            .await
            .expect("a row");
        // A packed column has bytes.
        let text = |at: usize| {
            row.try_get::<Option<String>>(at).unwrap_or_else(|_| {
                let bytes: Vec<u8> = row.get(at);
                let text = packing::unpack(&bytes).expect("readable").into_owned();
                Some(String::from_utf8(text).expect("a text"))
            })
        };
        (0..row.len()).map(text).collect()
    }

    /// State, stop reason and error class of a run.
    pub async fn outcome(&self, run: &str) -> (String, Option<String>, Option<String>) {
        let row = self
            .row(
                "SELECT state, stop_reason, error_class FROM runs WHERE id = $1",
                run,
            )
            .await;
        (
            row[0].clone().unwrap_or_default(),
            row[1].clone(),
            row[2].clone(),
        )
    }

    /// The exact requests of a run, in order.
    pub async fn prompts(&self, run: &str) -> Vec<Value> {
        let mut rows = self.workspace.rows().await;
        let turns = turns::of_run(&self.engine.store, &mut rows, run).await;
        turns
            .iter()
            .map(|turn| serde_json::from_str(&turn.request_json).expect("json"))
            .collect()
    }

    /// The trace of a run: `call NAME` and `ok NAME` or `CODE NAME`, in order.
    pub async fn trace(&self, run: &str) -> Vec<String> {
        let mut rows = self.workspace.rows().await;
        let sql =
            "SELECT event_type, tool_name, payload_json FROM thread_tool_events WHERE run_id = $1
            ORDER BY step_index";
        let found = db::query(sql)
            .bind(run)
            .fetch_all(&mut rows)
            .await
            .expect("steps");
        let line = |row: &db::Row| {
            let (kind, name): (&str, &str) = (row.get(0), row.get(1));
            let payload: Value = serde_json::from_str(row.get(2)).expect("json");
            match (kind, payload["ok"].as_bool()) {
                ("tool_call", _) => format!("call {name}"),
                (_, Some(true)) => format!("ok {name}"),
                _ => format!(
                    "{} {name}",
                    payload["error"]["code"].as_str().unwrap_or("?")
                ),
            }
        };
        found.iter().map(line).collect()
    }

    /// The invariants that hold whenever nothing is due: the audit always; every run executed again, and an idle week, in a
    /// sample of the tests. `ATTACHE_TESTS=all`, as `.ci/run` has it, executes all runs again.
    pub async fn check(&self) {
        audit(&mut self.workspace.rows().await).await;
        let (wants_all, is_of_sample) = (is_all("ATTACHE_TESTS"), is_of_sample());
        if is_all("ATTACHE_IDLE") || wants_all && is_of_sample {
            self.first_idle_week().await;
        }
        if !wants_all && !is_of_sample {
            return;
        }
        let verified = self.workspace.verified().await;
        let other: Vec<_> = verified
            .iter()
            .filter(|run| matches!(run.outcome, Outcome::Differs(_)))
            .collect();
        assert!(
            other.is_empty(),
            "runs that would not go the same way again: {other:#?}"
        );
    }

    async fn first_idle_week(&self) {
        if idle::is_first() {
            self.idles().await;
        }
    }

    /// Asserts that the engine would do nothing in a week in which nobody writes.
    pub async fn idles(&self) {
        let grown = idle::growth(&self.workspace).await;
        assert!(grown.is_empty(), "an idle week is not idle: {grown:#?}");
    }
}

/// A header line that proves the sender of a letter from this domain, as [`PROVEN`] does for that of [`note`].
pub fn proven(domain: &str) -> String {
    format!("Authentication-Results: {RELAY}; dkim=pass header.d={domain}\n")
}

/// Access for everybody, and the same word believed of whoever connects over loopback.
pub fn behind_relay() -> Value {
    json!({
        "access": { "allow": ["*"] },
        "authentication": { "trusted_relays": [{ "peers": ["127.0.0.1"], "authserv_id": RELAY }] },
    })
}

/// A letter with an envelope made from its own header.
pub fn letter(eml: &str) -> Letter {
    let bytes = eml.replace("\r\n", "\n").replace('\n', "\r\n").into_bytes();
    let email = parse(&bytes);
    let rcpt_to = email
        .to
        .iter()
        .chain(&email.cc)
        .filter_map(Mailbox::address)
        .collect();
    let mail_from: Option<Address> = email.from.first().and_then(Mailbox::address);
    let is_relayed = eml.contains(&format!("Authentication-Results: {RELAY};"));
    Letter {
        envelope: Envelope {
            mail_from,
            rcpt_to,
            helo: String::new(),
            peer: None,
            via: Via::File,
            arrival: Arrival {
                authserv_id: is_relayed.then(|| RELAY.to_owned()),
                ..Arrival::default()
            },
        },
        bytes,
    }
}

/// A minute before [`START`].
pub const NOTE_DATE: &str = "Fri, 20 Nov 2026 08:59:00 +0000";

/// A short letter from `bob@guest.example` to Ada; `more` are further header lines, each with its line end.
pub fn note(id: &str, more: &str, body: &str) -> String {
    format!(
        "From: Bob <bob@guest.example>\nTo: ada@engine.test\nSubject: Breakfast\nMessage-ID: <{id}>\n\
         Date: {NOTE_DATE}\n{more}\n{body}\n"
    )
}

/// A memory without the marks of where its lines came from.
pub fn without_marks(memory: &str) -> String {
    let bare = |line: &str| {
        line.split_once(" <!-- from ")
            .map_or(line, |(text, _mark)| text)
            .to_owned()
            + "\n"
    };
    memory.lines().map(bare).collect()
}

/// A note to an engine with the clock of this machine: a relay's word about an old letter proves nothing.
pub fn dated_now(note: &str) -> String {
    let now = chrono::Utc::now().to_rfc2822();
    note.replace(NOTE_DATE, &now)
}

/// A note written on the day of a clock: one that caught up with real files is days or years past [`START`].
pub fn dated_by(clock: &ManualClock, note: &str) -> String {
    let now = chrono::DateTime::parse_from_rfc3339(&clock.now().to_string()).expect("an instant");
    note.replace(NOTE_DATE, &now.to_rfc2822())
}

/// A [`note`] from somebody whose relay found a signature: a contact, whose runs may use all tools.
pub fn proven_note(id: &str, more: &str, body: &str) -> String {
    note(id, &format!("{PROVEN}{more}"), body)
}
