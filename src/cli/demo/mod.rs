//! `attache demo`: the whole path of a letter in a second, without key, network or setup, with
//! every claim about it checked.
//!
//! It uses a fresh sample workspace, a real engine with a real SMTP listener on loopback, and a
//! model that follows a script.

mod checks;
mod client;
mod open;
mod place;
mod visit;

use super::name_catalog;
use super::screen::{Screen, quoted};
use super::{Command, CommandContext, Exit, Failure, replay};
use crate::app::Engine;
use crate::clock::{Clock, SystemClock};
use crate::config::ListenAddress;
use crate::gateway::ingress::smtp::BoundSocket;
use crate::replay::RunRecord;
use crate::replay::timeline;
use crate::store::DatabasePlace;
use anstyle::{AnsiColor, Style};
use anyhow::Context as _;
use checks::Station;
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use futures_util::future::BoxFuture;
use serde::Serialize;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use visit::DemoExchange;

pub struct Demo;

impl Command for Demo {
    fn clap(&self) -> clap::Command {
        clap::Command::new("demo")
            .about("Show everything at work in a second: no key, no network, no setup")
            .arg(
                Arg::new("serve")
                    .long("serve")
                    .action(ArgAction::SetTrue)
                    .help("Keep the workspace open afterwards, with pages in a browser"),
            )
            .arg(
                Arg::new("address")
                    .long("address")
                    .value_name("ADDRESS")
                    .requires("serve")
                    .value_parser(value_parser!(SocketAddr))
                    .default_value("127.0.0.1:8025")
                    .help("Address of the pages"),
            )
            .long_about(
                "Makes a sample workspace below `data/demo/`, starts an engine on it, sends it two letters over SMTP, lets a \
                 scripted model answer them, and tells what happened. Exit code 0 means that every claim was checked.",
            )
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        let address = args.get_one::<SocketAddr>("address").copied();
        let pages = address.filter(|_| args.get_flag("serve"));
        Box::pin(async move { demo(context, pages).await })
    }
}

/// Result of the demo, for printing.
struct Story {
    workspace: PathBuf,
    server: SocketAddr,
    exchanges: [DemoExchange; 2],
    stations: Vec<Station>,
    took: Duration,
}

async fn demo(context: &CommandContext, pages: Option<SocketAddr>) -> anyhow::Result<Exit> {
    let story = play(&context.workspace).await?;
    let holds = story
        .stations
        .iter()
        .flat_map(|station| &station.claims)
        .all(|claim| claim.holds);
    if context.json() {
        context.screen.json(&DemoRecord {
            workspace: &story.workspace,
            listener: story.server.to_string(),
            took_ms: u64::try_from(story.took.as_millis()).unwrap_or(u64::MAX),
            holds,
            stations: &story.stations,
            runs: story
                .exchanges
                .iter()
                .map(|exchange| &exchange.run)
                .collect(),
            mails: story
                .exchanges
                .iter()
                .map(|exchange| &exchange.file)
                .collect(),
        })?;
    } else {
        tell(context, &story)?;
    }
    match pages {
        Some(address) if holds => {
            return open::serve_pages(context, story.workspace, address).await;
        }
        _ if holds => return Ok(Exit::Ok),
        _ => {}
    }
    let failure = Failure::new(Exit::Failed, "the demo did not do what it claims");
    Err(failure
        .hint("please report it, with the lines that say FAILED")
        .into())
}

/// Runs an engine on a fresh workspace until both letters are answered.
async fn play(parent: &Path) -> anyhow::Result<Story> {
    let clock = Arc::new(SystemClock::new());
    let began = clock.monotonic();
    let workspace = place::make(parent, clock.now()).map_err(|source| {
        Failure::new(
            Exit::CannotCreate,
            format!(
                "cannot write below `{}`",
                parent.join("data/demo").display()
            ),
        )
        .hint("name a folder that can be written to with --workspace DIR")
        .because(source)
    })?;
    let mut config = crate::config::load(&workspace, &name_catalog())?;
    for listener in &mut config.gateway.listeners {
        // The system chooses the port, so that it cannot be taken.
        listener.address = ListenAddress::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    }
    let engine = Engine::open(config, clock.clone()).await?;
    let listeners = engine.bind().await?;
    let server = listeners.iter().find_map(BoundSocket::tcp_address);
    let server = server.context("the sample workspace has no listener")?;
    let (store, stop) = (engine.store.clone(), CancellationToken::new());
    let serving = engine.serve(listeners, stop.clone());
    let visiting = async {
        let visited = visit::both(&store, &workspace, server).await;
        drop(store);
        stop.cancel();
        visited
    };
    let (served, visited) = tokio::join!(serving, visiting);
    let exchanges = visited?;
    served.context("stopping the engine")?;
    let stations = checks::stations(&exchanges);
    let took = clock.monotonic().saturating_sub(began);
    Ok(Story {
        workspace,
        server,
        exchanges,
        stations,
        took,
    })
}

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const FAINT: Style = Style::new().dimmed();
const PLAIN: Style = Style::new();

fn tell(context: &CommandContext, story: &Story) -> anyhow::Result<()> {
    let screen = &context.screen;
    screen.heading("A guest writes to a guest house, and its persona answers")?;
    for (number, station) in story.stations.iter().enumerate() {
        screen.line("")?;
        screen.heading(format!("{}  {}", number + 1, station.name))?;
        if number == 0 {
            tell_session(screen, story)?;
        }
        for claim in &station.claims {
            let (style, word) = if claim.holds {
                (GOOD, "ok    ")
            } else {
                (BAD, "FAILED")
            };
            screen.styled(&[(style, &format!("   {word}  ")), (PLAIN, &claim.what)])?;
        }
    }
    let [first, second] = &story.exchanges;
    screen.line("")?;
    screen.heading("The first run, as `attache replay` shows it")?;
    screen.line("")?;
    replay::print(screen, &timeline::run(&first.run, false))?;
    tell_where(context, story, second)
}

fn tell_session(screen: &Screen, story: &Story) -> anyhow::Result<()> {
    screen.styled(&[(FAINT, &format!("   a session with {}", story.server))])?;
    for spoken in &story.exchanges[0].spoken {
        let who = if spoken.by_server { "S:" } else { "C:" };
        screen.styled(&[(FAINT, &format!("   {who} {}", spoken.line))])?;
    }
    Ok(())
}

fn tell_where(
    context: &CommandContext,
    story: &Story,
    second: &DemoExchange,
) -> anyhow::Result<()> {
    let screen = &context.screen;
    let here = shown(&story.workspace);
    let file = |path: &str| format!("{here}/{path}");
    let database = match DatabasePlace::of(&story.workspace)? {
        place if place.file().is_some() => file(&place.shown()),
        place => place.shown(),
    };
    let answer = second
        .file
        .strip_prefix(&story.workspace)
        .unwrap_or(&second.file)
        .display()
        .to_string();
    screen.line("")?;
    screen.heading("Where everything is")?;
    screen.fields(&[
        ("   the two answers", file("data/outbox/")),
        ("   the database", database),
        ("   the persona", file("personas/concierge/")),
        ("   what the model said", file("configs/demo-script.json")),
    ])?;
    screen.line("")?;
    screen.heading("What to try next")?;
    let program = quoted(&context.program);
    let attache = format!("{program} --workspace {}", quoted(&here));
    let commands = [
        format!("{attache} threads list"),
        format!("{attache} replay {}", second.run.run.id),
        format!("{attache} replay {} --full", second.run.run.thread),
        format!("cat {}", quoted(&file(&answer))),
        format!(
            "{attache} ingest {}",
            quoted(&file("configs/demo/letter.eml"))
        ),
        format!("{attache} serve"),
        format!("{program} init my-house --domain example.org --owner you@example.org"),
    ];
    for command in commands {
        screen.line(format!("   {command}"))?;
    }
    screen.line("")?;
    let claims = story.stations.iter().flat_map(|station| &station.claims);
    let (holding, all) = (
        claims.clone().filter(|claim| claim.holds).count(),
        claims.count(),
    );
    screen.line(format!(
        "{holding} of {all} claims hold; it took {} ms",
        story.took.as_millis()
    ))?;
    Ok(())
}

/// The path as a user in the current folder would type it.
fn shown(path: &Path) -> String {
    let here = std::path::absolute(".").unwrap_or_default();
    path.strip_prefix(&here)
        .unwrap_or(path)
        .display()
        .to_string()
}

/// Outcome of the demo.
#[derive(Serialize)]
struct DemoRecord<'a> {
    workspace: &'a Path,
    listener: String,
    took_ms: u64,
    holds: bool,
    stations: &'a [Station],
    runs: Vec<&'a RunRecord>,
    mails: Vec<&'a PathBuf>,
}
