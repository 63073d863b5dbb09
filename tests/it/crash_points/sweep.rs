//! Plays a workload against the real binary, with one death in it or none, and compares.

mod workspace;

use super::engine::{self, Engine, SIGABRT};
use super::model::Model;
use super::workloads::{self, Workload};
use super::{letters, state};
use crate::app::audited::examined;
use crate::app::database::{self, Kept};
use crate::app::db;
use crate::app::{Workspace, audit, behind_relay};
use crate::imap;
use crate::outbound::server::{Fault, Script, Server as Sink, Verb};
use attache::clock::{Clock, SystemClock};
use attache::store::audit::AuditScope;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use workspace::files;

/// Workspaces at work at once; they mostly wait.
const SIDE_BY_SIDE: usize = 8;
/// How often the driver looks at what the engine has done.
const GLANCE: Duration = Duration::from_millis(10);
/// Far beyond what any workload needs on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long ago the slot of a workload was due.
const SLOT_AGE: Duration = Duration::from_secs(120);

const LAST_MOMENT: Duration = Duration::from_millis(300);

/// What happens to one play.
#[derive(Clone, Copy)]
pub struct Plan {
    /// Where the engine dies: a point, and which time that it comes there.
    pub death: Option<(&'static str, u32)>,
    /// Done to the database between death and restart: a recovery that is not ours.
    pub sabotage: Option<&'static str>,
    pub patience: Duration,
}

impl Plan {
    pub const NOTHING_DIES: Plan = Plan {
        death: None,
        sabotage: None,
        patience: PATIENCE,
    };

    pub fn death(point: &'static str, hit: u32) -> Plan {
        Plan {
            death: Some((point, hit)),
            ..Self::NOTHING_DIES
        }
    }
}

/// What came of one play.
pub struct Played {
    pub lines: Vec<String>,
    /// Requests of the model by question.
    pub asked: BTreeMap<String, usize>,
    /// How often each point was met, over all engines.
    pub met: BTreeMap<String, u32>,
    pub has_died: bool,
    /// From the restart, or the start, to the end of all work.
    pub took: Duration,
    /// Copies of a mail beyond the first.
    pub copies_too_many: usize,
    /// What may never be, whatever died.
    pub faults: Vec<String>,
}

struct StepPair {
    workload: &'static Workload,
    workspace: Workspace,
    sink: Sink,
    model: Model,
    mailbox: imap::server::Server,
    rows: db::Connection,
    handed_in: usize,
    deferral_ended: bool,
}

impl StepPair {
    async fn set(workload: &'static Workload, template: &Template) -> Self {
        let sink = Sink::start(Script {
            fault: Some((Verb::EndOfData, Fault::Late)),
            replies: workload
                .deferred
                .iter()
                .map(|start| (*start, "451 4.2.0 later".to_owned()))
                .collect(),
            ..Script::default()
        });
        let (sink, model) = (sink.await, Model::start(workload.script).await);
        let mailbox = imap::server::Server::start().await;
        for letter in (workload.mailbox)() {
            mailbox.deliver(&letter);
        }
        let workspace = files(workload, &template.due);
        let local = |port: u16| json!({ "host": "127.0.0.1", "port": port, "tls": "none" });
        let mut smarthost = local(sink.address.port());
        smarthost["kind"] = json!("smarthost");
        workspace.set("configs/gateway.json", "/outbound", smarthost);
        if !(workload.mailbox)().is_empty() {
            let mut deps = local(mailbox.port);
            (deps["name"], deps["user"], deps["since"]) =
                (json!("desk"), json!(imap::server::USER), json!("all"));
            workspace.set("configs/gateway.json", "/mailboxes", json!([deps]));
        }
        let inference = json!({ "provider": "compat:model", "model": "m", "max_tool_turns": 6,
            "providers": { "compat:model": { "base_url": model.server.url } } });
        workspace.write_json("configs/inference.json", &inference);
        database::put(&template.database, workspace.path()).await;
        let rows = state::open(workspace.path()).await;
        Self {
            workload,
            workspace,
            sink,
            model,
            mailbox,
            rows,
            handed_in: 0,
            deferral_ended: false,
        }
    }

    /// Does what people do meanwhile; nothing here needs the engine to live on.
    async fn step(&mut self, engine: &Engine) {
        self.sink.release.notify_waiters();
        let letters = (self.workload.letters)();
        if let (Some(port), Some(letter)) = (engine.port, letters.get(self.handed_in)) {
            let handing_in = letters::hand_in(port, letter);
            let handed_in = tokio::time::timeout(PATIENCE, handing_in)
                .await
                .expect("an answer, or a death");
            self.handed_in += usize::from(handed_in.is_ok());
        }
        if let Some(subject) = self.workload.cancelled {
            self.cancel(subject).await;
        }
        if !self.deferral_ended && self.workload.deferred.is_some() {
            self.end_deferral().await;
        }
    }

    async fn cancel(&mut self, subject: &str) {
        let sql = "SELECT r.id FROM runs r JOIN messages m ON m.id = r.trigger_message_id
            WHERE m.subject = $1 AND r.state = 'running' AND r.cancel_requested_at IS NULL
              AND EXISTS (SELECT 1 FROM run_turns t WHERE t.run_id = r.id)";
        let run = db::query_scalar::<String>(sql)
            .bind(subject)
            .fetch_optional(&mut self.rows)
            .await;
        if let Some(run) = run.expect("a run or none") {
            engine::command(self.workspace.path(), &["runs", "cancel", &run]).await;
        }
    }

    async fn end_deferral(&mut self) {
        let sql = "SELECT d.id FROM deliveries d JOIN delivery_recipients r ON r.delivery_id = d.id
            WHERE d.state = 'queued' AND r.state = 'deferred'";
        let delivery = db::query_scalar::<String>(sql)
            .fetch_optional(&mut self.rows)
            .await;
        if let Some(delivery) = delivery.expect("a delivery or none") {
            self.sink.set(|script| script.replies.clear());
            let retry = ["outbox", "retry", &delivery];
            self.deferral_ended = engine::command(self.workspace.path(), &retry).await;
        }
    }

    async fn is_over(&mut self) -> bool {
        let sql = "SELECT (SELECT count(*) FROM runs WHERE state IN ('succeeded', 'failed', 'cancelled')),
            (SELECT count(*) FROM deliveries WHERE state = 'done'), (SELECT count(*) FROM responsibility_slots)";
        let row = db::query(sql)
            .fetch_one(&mut self.rows)
            .await
            .expect("counts");
        let (runs, mails, slots): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
        let found = self
            .mailbox
            .state()
            .letters
            .iter()
            .all(|letter| letter.flags.contains("\\Seen"));
        self.handed_in == (self.workload.letters)().len()
            && runs >= self.workload.runs
            && mails >= self.workload.mails
            && slots >= self.workload.slots
            && found
    }
}

/// What every play of a workload begins with: an engine has been there, and its slot is due.
pub struct Template {
    database: Kept,
    due: String,
}

impl Template {
    pub async fn of(workload: &Workload) -> Self {
        let now = SystemClock::new().now();
        let due = format!("{}:00.000Z", &now.minus(SLOT_AGE).to_string()[..16]);
        let workspace = files(workload, &due);
        database::provide_to_binary(workspace.path());
        assert!(
            engine::command(workspace.path(), &["drain"]).await,
            "a workspace that can be used"
        );
        assert!(engine::command(workspace.path(), &["schedule", "list"]).await);
        let mut rows = state::open(workspace.path()).await;
        let set_due = db::query(
            "UPDATE responsibilities SET cursor_at = $1, next_slot_at = $2, fire_at = $2,
               failures = CASE name WHEN 'Failing' THEN 5 ELSE 0 END",
        );
        let set_due = set_due.bind(now.minus(SLOT_AGE * 3).to_string()).bind(&due);
        set_due.execute(&mut rows).await.expect("a due slot");
        rows.close().await.expect("closed");
        let database = database::keep(workspace.path()).await;
        Self { database, due }
    }
}

/// Plays the workload to its end.
pub async fn play(workload: &'static Workload, template: &Template, plan: Plan) -> Played {
    let mut pair = StepPair::set(workload, template).await;
    let folder = pair.workspace.path().to_owned();
    let order = plan.death.map(|(point, hit)| format!("{point}:{hit}"));
    let (mut began, mut has_died, mut faults) = (Instant::now(), false, Vec::new());
    let mut engine = Engine::start(&folder, order.as_deref()).await;
    let mut glances = tokio::time::interval(GLANCE);
    loop {
        if let Some(status) = engine.ended() {
            let log = engine::log_of(&folder);
            let expected = order.is_some() && !has_died && status.signal() == Some(SIGABRT);
            assert!(
                expected,
                "{order:?}: the engine ended by itself with {status}: {log}"
            );
            has_died = true;
            if let Some(sql) = plan.sabotage {
                let ran = db::raw_sql(sql).execute(&mut pair.rows).await;
                ran.expect("sabotage");
            }
            faults.extend(complaints(&mut pair.rows).await);
            began = Instant::now();
            engine = Engine::start(&folder, None).await;
        }
        pair.step(&engine).await;
        if pair.is_over().await {
            // What is committed is seen here before the engine has come to the points behind it.
            if order.is_none() && (began.elapsed() > plan.patience || has_met(&folder, workload)) {
                break;
            }
            // A death in the last moment is one too.
            if order.is_some() && (has_died || !engine.ends_within(LAST_MOMENT).await) {
                break;
            }
        }
        if began.elapsed() > plan.patience {
            faults.push("it never ended".to_owned());
            break;
        }
        glances.tick().await;
    }
    let took = began.elapsed();
    engine.kill().await;
    if faults.is_empty() {
        audit(&mut pair.rows).await;
    }
    let mails = pair.sink.heard(|heard| heard.mails.clone());
    let mut lines = state::projection(&folder, &mut pair.rows).await;
    lines.extend(state::received(&mails));
    let flagged = state::flagged(&mut pair.rows).await;
    let mut copies_too_many = 0;
    for ((id, recipient), copies) in state::copies(&mails) {
        copies_too_many += copies.len() - 1;
        if copies.len() > 2 || copies.len() == 2 && !(has_died && flagged.contains(&id)) {
            let count = copies.len();
            faults.push(format!("{count} copies of {id} came to {recipient}"));
        }
    }
    let met = met(&engine::log_of(&folder));
    Played {
        lines,
        asked: pair.model.asked(),
        met,
        has_died,
        took,
        copies_too_many,
        faults,
    }
}

/// What `attache doctor --audit` says of a workspace whose engine has just died.
async fn complaints(rows: &mut db::Connection) -> Vec<String> {
    let findings = examined(
        rows,
        AuditScope {
            bytes: true,
            at_rest: false,
        },
    )
    .await;
    assert!(
        findings.made > 40,
        "only {} checks were made",
        findings.made
    );
    findings
        .broken
        .iter()
        .map(|broken| format!("audit: {} {:?}", broken.name, broken.what))
        .collect()
}

/// Whether every point that the workload promises is in the log.
fn has_met(folder: &Path, workload: &Workload) -> bool {
    let met = met(&engine::log_of(folder));
    workload.points.iter().all(|point| met.contains_key(*point))
}

/// Counts the points in a log.
fn met(log: &str) -> BTreeMap<String, u32> {
    let mut met = BTreeMap::new();
    for rest in log.split("point=\"").skip(1) {
        let name = rest.split('"').next().unwrap_or_default();
        *met.entry(name.to_owned()).or_default() += 1;
    }
    met
}

/// What is different from the play in which nothing died, beyond what is declared.
pub fn differences(straight: &Played, found: &Played) -> Vec<String> {
    let mut differences = found.faults.clone();
    // a budget account is compared only where no call was lost, for which it would have paid.
    let compared = |line: &&String| !line.starts_with("account") || found.lines.contains(line);
    let wanted: Vec<&String> = straight.lines.iter().filter(compared).collect();
    if wanted.len() != found.lines.len() {
        differences.push(format!(
            "{} lines instead of {}",
            found.lines.len(),
            wanted.len()
        ));
    }
    let (wanted, there): (BTreeSet<_>, BTreeSet<_>) =
        (wanted.into_iter().collect(), found.lines.iter().collect());
    differences.extend(
        wanted
            .difference(&there)
            .map(|line| format!("missing: {line}")),
    );
    differences.extend(
        there
            .difference(&wanted)
            .map(|line| format!("unexpected: {line}")),
    );
    for (question, times) in &found.asked {
        let allowed =
            straight.asked.get(question).copied().unwrap_or(0) + usize::from(found.has_died);
        if *times > allowed {
            differences.push(format!(
                "`{question}` was asked {times} times, and {allowed} are allowed"
            ));
        }
    }
    differences
}

/// Where to die: the first time at each point, and once more in the middle of those that are met again.
fn orders(straight: &Played) -> Vec<(&'static str, u32)> {
    let all = std::env::var("ATTACHE_CRASH_HITS").is_ok_and(|hits| hits == "all");
    let mut orders = Vec::new();
    for (point, _) in attache::crash::POINTS {
        match straight.met.get(*point).copied().unwrap_or(0) {
            0 => {}
            1 => orders.push((*point, 1)),
            times if all => orders.extend((1..=times).map(|hit| (*point, hit))),
            times => orders.extend([(*point, 1), (*point, times / 2 + 1)]),
        }
    }
    orders
}

async fn sweep(workload: &'static Workload) {
    let template = Arc::new(Template::of(workload).await);
    let straight = play(workload, &template, Plan::NOTHING_DIES).await;
    assert!(
        straight.faults.is_empty(),
        "{:?}: {:#?}",
        straight.faults,
        straight.lines
    );
    let unmet: Vec<_> = workload
        .points
        .iter()
        .filter(|point| !straight.met.contains_key(**point))
        .collect();
    assert!(
        unmet.is_empty(),
        "{}: no run came to {unmet:?}",
        workload.name
    );
    let straight = Arc::new(straight);
    let (places, mut plays) = (Arc::new(Semaphore::new(SIDE_BY_SIDE)), JoinSet::new());
    for (point, hit) in orders(&straight) {
        let (places, template, straight) = (places.clone(), template.clone(), straight.clone());
        plays.spawn(async move {
            let _place = places.acquire().await;
            let played = play(workload, &template, Plan::death(point, hit)).await;
            (point, hit, differences(&straight, &played), played)
        });
    }
    let (mut deaths, mut slowest, mut copies, mut complaints) = (0, Duration::ZERO, 0, Vec::new());
    while let Some(played) = plays.join_next().await {
        let (point, hit, differences, played) = played.expect("a play to its end");
        if !differences.is_empty() {
            complaints.push(format!(
                "after a death at {point}, time {hit}: {differences:#?}"
            ));
        } else if !played.has_died && hit == 1 && workload.points.contains(&point) {
            complaints.push(format!("{point} was not met"));
        }
        // How writes share commits and letters share packets differs from play to play, so a later time may not come, nor
        // a point that the workload does not promise.
        if played.has_died {
            deaths += 1;
            slowest = slowest.max(played.took);
            copies += played.copies_too_many;
        }
    }
    println!(
        "{}: {deaths} deaths at {} points; the slowest was over {slowest:.1?} after its restart; \
         {copies} flagged copies too many",
        workload.name,
        straight.met.len()
    );
    assert!(
        complaints.is_empty(),
        "{}: {}",
        workload.name,
        complaints.join("\n")
    );
}

#[test]
fn the_workloads_together_come_to_every_point() {
    let met: BTreeSet<&str> = workloads::ALL
        .iter()
        .flat_map(|workload| workload.points)
        .chain(crate::approvals::crashes::POINTS)
        .chain(crate::drafts::POINTS)
        .chain(crate::mail_commands::crash::POINTS)
        .chain(crate::maintenance::upgrades::POINTS)
        .chain(crate::maintenance::dying::POINTS)
        .chain(crate::maintenance::erasure::POINTS)
        .chain(crate::maintenance::whole_backup::POINTS)
        .copied()
        .collect();
    let listed: BTreeSet<&str> = attache::crash::POINTS
        .iter()
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(met, listed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn one_letter_ends_the_same_wherever_the_engine_dies() {
    sweep(&workloads::ONE_LETTER).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn a_burst_ends_the_same_wherever_the_engine_dies() {
    sweep(&workloads::BURST).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn a_schedule_and_a_mailbox_end_alike_wherever_the_engine_dies() {
    sweep(&workloads::SCHEDULE_AND_MAILBOX).await;
}
