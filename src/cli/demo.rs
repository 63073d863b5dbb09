//! `attache demo`: a letter is answered, a failed call is mended, a slot comes due, and both runs are replayed, without a key,
//! network or setup. Every claim about it is checked against rows, files, and the mail as another program parses it.
//!
//! It uses a fresh sample workspace, a real engine with a real SMTP listener on loopback, and a model that follows a script.

use super::init::sample;
use super::screen::{self, quoted};
use super::web;
use super::{CommandContext, Exit, Failure, name_catalog, refuse, replay, serve};
use crate::app::{Engine, NodeRoles};
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, ListenAddress};
use crate::domain::{RunId, RunState, Trigger};
use crate::gateway::ingress::folder::with_crlf;
use crate::gateway::ingress::smtp::BoundSocket;
use crate::mime::{self, ParseLimits};
use crate::replay::verify::{Outcome, Verifier};
use crate::replay::{CallRecord, DeliveryRecord, RunRecord, load_run, timeline};
use crate::store::{RunFilter, Store};
use crate::text::plural;
use anstyle::{AnsiColor, Style};
use anyhow::{Context as _, bail};
use lettre::address::Envelope;
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use serde::Serialize;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The letter, from the sample workspace.
const LETTER: &str = include_str!("../../configs/demo/letter.eml");
const LETTER_ID: &str = "20261118182405.4f1c@traveller.example";
const GUEST: &str = "anna.berger@traveller.example";
const SAMPLE: &str = "concierge@guesthouse.example";
/// A task of the digest that comes due once.
const TASK: &str = "personas/digest/responsibilities/demo.md";
/// File that names the listeners.
const GATEWAY: &str = "configs/gateway.json";
/// Number of the newest demos that are kept.
const KEPT: usize = 5;
/// Timeout of all work, and time between two looks at it.
const WORK_TIMEOUT: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(5);

/// See it work in seconds: no key, no network, no setup
#[derive(clap::Args)]
#[command(
    long_about = "Makes a sample workspace below `data/demo/`, starts an engine on it, sends it a letter over SMTP, lets a scripted model \
                  answer it, waits for a scheduled task, and executes both runs once more over their records. Exit code 0 means that \
                  every claim was checked."
)]
pub struct Demo {
    /// Keep the workspace open afterwards, with pages in a browser
    #[arg(long)]
    serve: bool,
    /// Address of the pages
    #[arg(
        long,
        value_name = "ADDRESS",
        requires = "serve",
        default_value = "127.0.0.1:8025"
    )]
    address: SocketAddr,
}

/// Outcome of the demo.
#[derive(Serialize)]
struct DemoRecord {
    workspace: PathBuf,
    listener: String,
    took_ms: u64,
    holds: bool,
    stations: Vec<Station>,
    /// That of the letter, and that of the slot.
    runs: Vec<RunRecord>,
    /// The answer's file in the outbox.
    answer: PathBuf,
}

/// A part of the way, and the claims about it.
#[derive(Serialize)]
struct Station {
    name: &'static str,
    claims: Vec<DemoClaim>,
}

/// One claim, with `true` when it holds.
#[derive(Serialize)]
struct DemoClaim {
    what: String,
    holds: bool,
}

fn claim(what: impl Into<String>, holds: bool) -> DemoClaim {
    DemoClaim {
        what: what.into(),
        holds,
    }
}

impl Demo {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let clock = Arc::new(SystemClock::new());
        let workspace = make(&context.workspace, &*clock).map_err(|source| {
            let place = context.workspace.join("data/demo");
            let failure = Failure::new(
                Exit::CannotCreate,
                format!("cannot write below `{}`", place.display()),
            );
            failure
                .hint("name a folder that can be written to with --workspace DIR")
                .because(source)
        })?;
        let record = play(workspace, clock).await?;
        match context.json() {
            true => context.screen.json(&record)?,
            false => tell(context, &record)?,
        }
        match self.serve {
            _ if !record.holds => refuse(
                Exit::Failed,
                "the demo did not do what it claims",
                "please report it, with the lines that say FAILED",
            ),
            true => serve_pages(context, record.workspace, self.address).await,
            false => Ok(Exit::Ok),
        }
    }
}

/// Writes the sample files into a new folder, and removes demos that are too old.
fn make(workspace: &Path, clock: &dyn Clock) -> std::io::Result<PathBuf> {
    let parent = workspace.join("data/demo");
    let folder = parent.join(clock.new_id());
    for (path, content) in sample::FILES {
        let file = folder.join(path);
        std::fs::create_dir_all(file.parent().unwrap_or(&folder))?;
        std::fs::write(file, content)?;
    }
    let mut made: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(&parent)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        // Ids begin with their time. Whatever has another name is not ours.
        made.extend(uuid::Uuid::try_parse(&name).is_ok().then_some(name));
    }
    made.sort();
    for old in made.iter().rev().skip(KEPT) {
        // Another demo may remove it at the same time.
        drop(std::fs::remove_dir_all(parent.join(old)));
    }
    Ok(folder)
}

/// Runs an engine on a fresh workspace until the letter is answered and the task is done, and checks what they left.
async fn play(workspace: PathBuf, clock: Arc<SystemClock>) -> anyhow::Result<DemoRecord> {
    let began = clock.monotonic();
    let mut config: Config = crate::config::load(&workspace, &name_catalog())?;
    for listener in &mut config.gateway.listeners {
        // The system chooses the port, so that it cannot be taken.
        listener.address = ListenAddress::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    }
    let engine = Engine::open(config, clock.clone()).await?;
    let listeners = engine.bind().await?;
    let server = listeners.iter().find_map(BoundSocket::tcp_address);
    let server = server.context("the sample workspace has no listener")?;
    // A time that is past when its file is read never comes due, and a slow machine takes seconds to come this far.
    let at = clock.now().plus(Duration::from_secs(3)).to_utc();
    let at = at.format("%Y-%m-%dT%H:%M:%SZ");
    let task = format!("---\nname: Demo\nat: \"{at}\"\n---\nSay what came in.\n");
    std::fs::write(workspace.join(TASK), task).context(TASK)?;
    let (store, stop) = (engine.store.clone(), CancellationToken::new());
    let serving = engine.serve(listeners, stop.clone());
    let visiting = async {
        let visited = async {
            let reply = send(server).await.context("the letter")?;
            let runs = tokio::time::timeout(WORK_TIMEOUT, worked_off(&store)).await;
            anyhow::Ok((reply, runs.context("the work is not done")??))
        };
        let visited = visited.await;
        drop(store);
        stop.cancel();
        visited
    };
    let (served, visited) = tokio::join!(serving, visiting);
    let (reply, runs) = visited?;
    served.context("stopping the engine")?;

    let of_letter = &runs[0];
    let (gone, delivery) = answer_of(of_letter).context("the run wrote no mail")?;
    let answer = workspace
        .join("data/outbox")
        .join(format!("{}.eml", delivery.id));
    let bytes = std::fs::read(&answer)
        .with_context(|| format!("the answer is not at `{}`", answer.display()))?;
    let mail = mime::parse(&bytes, &ParseLimits::default()).context("the answer is no mail")?;
    let leads_back =
        mail.in_reply_to == [LETTER_ID] && mail.references.last().is_some_and(|id| id == LETTER_ID);
    let stations = vec![
        Station {
            name: "A guest's letter comes in over SMTP",
            claims: vec![claim(
                format!("the server said `{reply}`: letter and run are in the database"),
                reply.starts_with("250") && of_letter.trigger.rfc_message_id == LETTER_ID,
            )],
        },
        Station {
            name: "A call fails, and the model mends it",
            claims: worked(of_letter),
        },
        Station {
            name: "The answer goes out",
            claims: vec![
                claim(format!("delivered to {GUEST}"), gone),
                claim(
                    "In-Reply-To and References lead to the letter",
                    leads_back && mail.message_id.as_ref() == Some(&mail_id(of_letter)),
                ),
            ],
        },
        Station {
            name: "A scheduled task comes due",
            claims: vec![claim(
                "its slot made one run, which succeeded",
                runs[1].run.trigger == "schedule" && runs[1].run.state == "succeeded",
            )],
        },
        Station {
            name: "Both runs are executed once more, over their records",
            claims: replayed(&workspace, &runs, clock.clone()).await?,
        },
    ];
    let took = clock.monotonic().saturating_sub(began);
    Ok(DemoRecord {
        listener: server.to_string(),
        took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        holds: stations
            .iter()
            .flat_map(|station| &station.claims)
            .all(|claim| claim.holds),
        stations,
        runs,
        answer,
        workspace,
    })
}

/// Sends the letter as the guest's mail server would; returns the server's last line.
async fn send(server: SocketAddr) -> anyhow::Result<String> {
    let client = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(server.ip().to_string());
    let client = client.port(server.port()).build();
    let envelope = Envelope::new(Some(GUEST.parse()?), vec![SAMPLE.parse()?])?;
    let bytes = with_crlf(LETTER.as_bytes().to_vec());
    let reply = client.send_raw(&envelope, &bytes).await?;
    let says = reply.first_line().unwrap_or_default();
    Ok(format!("{} {says}", reply.code()))
}

/// Waits until the run of the letter and that of the slot have ended and their mails have left.
async fn worked_off(store: &Store) -> anyhow::Result<Vec<RunRecord>> {
    loop {
        let filter = RunFilter {
            limit: 10,
            ..RunFilter::default()
        };
        let mut runs = store.list_runs(&filter).await?;
        runs.sort_by_key(|run| run.trigger != Trigger::Email);
        if let Some(run) = runs.iter().find(|run| run.state == RunState::WaitingRetry) {
            bail!(
                "a run failed and waits for a retry: {:?}",
                run.error_message
            );
        }
        if runs.len() == 2 && runs.iter().all(|run| run.state.is_terminal()) {
            let records = [
                load_run(store, &runs[0].id).await?,
                load_run(store, &runs[1].id).await?,
            ];
            let mut mails = records.iter().flat_map(|record| &record.mails);
            let has_left =
                |delivery: &DeliveryRecord| matches!(delivery.state.as_str(), "done" | "failed");
            if mails.all(|mail| mail.delivery.as_ref().is_none_or(has_left)) {
                return Ok(records.into());
            }
        }
        tokio::time::sleep(GLANCE).await;
    }
}

/// Returns the mail of a run, with `true` when every recipient has it.
fn answer_of(run: &RunRecord) -> Option<(bool, &DeliveryRecord)> {
    let delivery = run.mails.iter().find_map(|mail| mail.delivery.as_ref())?;
    let mut recipients = delivery.recipients.iter();
    let gone = delivery.state == "done" && recipients.all(|to| to.state == "delivered");
    Some((gone, delivery))
}

fn mail_id(run: &RunRecord) -> String {
    let mail = run.mails.first();
    mail.map_or_else(String::new, |mail| mail.message.rfc_message_id.clone())
}

fn worked(run: &RunRecord) -> Vec<DemoClaim> {
    let ending = |call: &CallRecord| match &call.result {
        None => "without a result".to_owned(),
        Some(_) if call.succeeded() => "ok".to_owned(),
        Some(result) => result["error"]["code"]
            .as_str()
            .unwrap_or("failed")
            .to_owned(),
    };
    let calls = run.calls.iter();
    let trace: Vec<String> = calls
        .map(|call| format!("{} {}", call.tool, ending(call)))
        .collect();
    let answered = run.turns.iter().filter(|turn| turn.state == "answered");
    let (answered, state) = (answered.count(), &run.run.state);
    vec![
        claim(
            format!("the calls: {}", trace.join(", ")),
            trace == ["read_file file_not_found", "read_file ok"],
        ),
        claim(
            format!("after {answered} turns the run {state}"),
            answered == 3 && state == "succeeded",
        ),
    ]
}

/// Executes runs over their records: every request must be the same, byte for byte.
async fn replayed(
    workspace: &Path,
    runs: &[RunRecord],
    clock: Arc<SystemClock>,
) -> anyhow::Result<Vec<DemoClaim>> {
    let store = Store::open_to_read(workspace, clock).await?;
    let verifier = Verifier::new(store.clone(), workspace.to_path_buf(), name_catalog());
    let mut claims = Vec::new();
    for run in runs {
        let verified = verifier.verify(&RunId::new(run.run.id.to_string())).await?;
        claims.push(match verified.outcome {
            Outcome::Identical { requests, .. } => claim(
                format!("{}: the same, byte for byte", plural(requests, "request")),
                requests > 0,
            ),
            other => claim(format!("{other:?}"), false),
        });
    }
    store.close().await;
    Ok(claims)
}

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const PLAIN: Style = Style::new();

fn tell(context: &CommandContext, story: &DemoRecord) -> anyhow::Result<()> {
    let screen = &context.screen;
    for (number, station) in story.stations.iter().enumerate() {
        screen.heading(format!("{}  {}", number + 1, station.name))?;
        for claim in &station.claims {
            let (style, word) = match claim.holds {
                true => (GOOD, "ok    "),
                false => (BAD, "FAILED"),
            };
            screen.styled(&[(style, &format!("   {word}  ")), (PLAIN, &claim.what)])?;
        }
        screen.line("")?;
    }
    screen.heading("The first run, as `attache replay` shows it")?;
    screen.line("")?;
    replay::print(screen, &timeline::run(&story.runs[0], false))?;
    screen.line("")?;
    screen.heading("What to try next")?;
    // The path as a user in the current folder would type it.
    let here = std::path::absolute(".").unwrap_or_default();
    let shown = |path: &Path| {
        let path = path.strip_prefix(&here).unwrap_or(path);
        quoted(&path.display().to_string())
    };
    let program = quoted(&context.program);
    let attache = format!("{program} --workspace {}", shown(&story.workspace));
    let letter = story.workspace.join("configs/demo/letter.eml");
    for command in [
        format!("cat {}", shown(&story.answer)),
        format!("{attache} threads list"),
        format!("{attache} replay {} --full", story.runs[0].run.thread),
        format!("{attache} ingest {}", shown(&letter)),
        format!("{attache} serve"),
        format!("{program} demo --serve"),
        format!("{program} init my-house --domain example.org --owner you@example.org"),
    ] {
        screen.line(format!("   {command}"))?;
    }
    let claims = story.stations.iter().flat_map(|station| &station.claims);
    let holding = claims.clone().filter(|claim| claim.holds).count();
    screen.line(format!(
        "\n{holding} of {} claims hold; it took {} ms",
        claims.count(),
        story.took_ms
    ))?;
    Ok(())
}

/// Serves a workspace that the demo made, with pages at `address`.
async fn serve_pages(
    context: &CommandContext,
    workspace: PathBuf,
    address: SocketAddr,
) -> anyhow::Result<Exit> {
    if address.port() == 0 || !address.ip().is_loopback() {
        return refuse(
            Exit::Usage,
            format!("`{address}` is no address for the demo"),
            "name one of this machine, such as 127.0.0.1:8026",
        );
    }
    let path = workspace.join(GATEWAY);
    let text = std::fs::read_to_string(&path).context(GATEWAY)?;
    let mut gateway: Value = serde_json::from_str(&text).context(GATEWAY)?;
    if let Some(listeners) = gateway["listeners"].as_array_mut() {
        listeners.push(json!({ "kind": "http", "address": address.to_string() }));
    }
    let text = serde_json::to_string_pretty(&gateway).context(GATEWAY)?;
    std::fs::write(&path, text + "\n").context(GATEWAY)?;
    let here = CommandContext {
        workspace,
        program: context.program.clone(),
        screen: context.screen.clone(),
    };
    let config = here.config()?;
    let listener = config.gateway.http_listeners.first();
    let link = web::code(&here, listener.context("the demo has no pages")?).await?;
    screen::remark(&format!(
        "open {} within {} seconds; `{} --workspace {} web login` makes another link, and Ctrl-C ends it all",
        link.url,
        web::SECONDS,
        quoted(&context.program),
        quoted(&here.workspace.display().to_string()),
    ));
    serve::serve(&here, false, NodeRoles::all()).await
}
