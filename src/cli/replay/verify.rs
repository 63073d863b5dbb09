//! `attache replay verify RUN…|--all`: repeats runs against their records and reports those that
//! would ask something else today. Sends, starts and writes nothing.

use crate::cli::args::instant;
use crate::cli::args::lookup::runs_of;
use crate::cli::name_catalog;
use crate::cli::screen::progress;
use crate::cli::{CommandContext, Exit};
use crate::clock::{Clock, SystemClock};
use crate::domain::{RunId, Timestamp};
use crate::replay::verify::{Outcome, Verified, Verifier};
use crate::store::{RunFilter, Store, StoreError};
use crate::text::plural;
use indicatif::ProgressBar;
use serde_json::json;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Execute runs once more over their records: would each request be the same, byte for byte?
#[derive(clap::Args)]
#[command(
    after_help = "The loop is the real one; the provider's answers, the results of tools, the time, and what the \
                  context was assembled from come from the record. Nothing is sent, started or written. A run of \
                  `replay import` whose texts were masked, or whose people were renamed, is `masked`: what it was told \
                  is not here to be compared with. Exit code 1 when a run differs or its record is damaged; with --strict also when one is \
                  masked or cannot be verified, other than because `attache gc` threw its requests away."
)]
pub struct Verify {
    /// Exit with 1 also when a run is masked or cannot be verified
    #[arg(long)]
    strict: bool,
    /// Ids, their last or first characters, or `last`
    #[arg(required_unless_present = "all", conflicts_with = "all", action = clap::ArgAction::Set)]
    run: Vec<String>,
    /// Every run there is
    #[arg(long)]
    all: bool,
    /// Only runs queued since then: `30m`, `24h`, `7d`, 2026-11-20 (midnight UTC), or 2026-11-20T09:00:00Z
    #[arg(long, value_name = "TIME", requires = "all")]
    since: Option<String>,
}

impl Verify {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let workspace = context.require_workspace()?;
        let clock = Arc::new(SystemClock::new());
        let store = Store::open_to_read(workspace, clock.clone()).await?;
        let verifier = Arc::new(Verifier::new(
            store.clone(),
            workspace.to_path_buf(),
            name_catalog(),
        ));
        let (mut tally, mut listed, began) =
            (VerdictTally::default(), Vec::new(), clock.monotonic());
        match self.run.is_empty() {
            false => {
                let runs = runs_of(&store, self.run.iter(), "verified").await?;
                let bar = progress::bar(context, runs.len() as u64, "runs");
                verify(context, &verifier, runs, &mut tally, &mut listed, &bar).await?;
                bar.finish_and_clear();
            }
            true => {
                let since = self.since.as_deref().map(instant).transpose()?;
                let bar = progress::bar(context, store.count_runs_since(since).await?, "runs");
                let mut offset = 0;
                loop {
                    let runs = page(&store, since, offset).await?;
                    offset += PAGE;
                    if runs.is_empty() {
                        break;
                    }
                    verify(context, &verifier, runs, &mut tally, &mut listed, &bar).await?;
                }
                bar.finish_and_clear();
            }
        }
        drop(verifier);
        store.close().await;
        conclude(
            context,
            &tally,
            &listed,
            (clock.monotonic() - began).as_secs_f64(),
        )?;
        let falls_short = self.strict && tally.masked + tally.not_verifiable > 0;
        Ok(if tally.different + tally.unreadable > 0 || falls_short {
            Exit::Failed
        } else {
            Exit::Ok
        })
    }
}

/// Number of runs listed at once.
const PAGE: u32 = 1000;
/// Number of runs verified concurrently, equal to the number of reading connections.
const AT_ONCE: usize = 4;

/// Number of runs for each outcome.
#[derive(Default)]
struct VerdictTally {
    identical: usize,
    requests: usize,
    different: usize,
    masked: usize,
    not_verifiable: usize,
    unreadable: usize,
    pruned: usize,
    redacted: usize,
    nothing_asked: usize,
}

impl VerdictTally {
    fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Identical { requests, .. } => {
                self.identical += 1;
                self.requests += requests;
            }
            Outcome::Differs(_) => self.different += 1,
            Outcome::Masked { .. } => self.masked += 1,
            Outcome::NotVerifiable { .. } => self.not_verifiable += 1,
            Outcome::Pruned { .. } => self.pruned += 1,
            Outcome::Redacted { .. } => self.redacted += 1,
            Outcome::Unreadable { .. } => self.unreadable += 1,
            Outcome::NothingAsked => self.nothing_asked += 1,
        }
    }
}

async fn page(
    store: &Store,
    since: Option<Timestamp>,
    offset: u32,
) -> Result<Vec<RunId>, StoreError> {
    let filter = RunFilter {
        since,
        limit: PAGE,
        offset,
        ..RunFilter::default()
    };
    store.run_ids(&filter).await
}

/// Verifies runs concurrently and prints the results in the runs' order: at once for users, at the
/// end under `--json`.
async fn verify(
    context: &CommandContext,
    verifier: &Arc<Verifier>,
    runs: Vec<RunId>,
    tally: &mut VerdictTally,
    listed: &mut Vec<Verified>,
    bar: &ProgressBar,
) -> anyhow::Result<()> {
    let mut lanes = JoinSet::new();
    let runs = Arc::new(runs);
    let bar = bar.clone();
    for lane in 0..AT_ONCE.min(runs.len()) {
        let (verifier, runs, bar) = (verifier.clone(), runs.clone(), bar.clone());
        lanes.spawn(async move {
            let mut done = Vec::new();
            for (place, run) in runs.iter().enumerate().skip(lane).step_by(AT_ONCE) {
                done.push((place, verifier.verify(run).await?));
                bar.inc(1);
            }
            Ok::<_, StoreError>(done)
        });
    }
    let mut done: Vec<(usize, Verified)> = Vec::with_capacity(runs.len());
    while let Some(lane) = lanes.join_next().await {
        done.extend(lane??);
    }
    done.sort_by_key(|(place, _)| *place);
    bar.suspend(|| {
        for (_, verified) in done {
            tally.count(&verified.outcome);
            match context.json() {
                true => listed.push(verified),
                false => tell(context, &verified)?,
            }
        }
        Ok(())
    })
}

/// Prints only runs that differ or failed to verify.
fn tell(context: &CommandContext, verified: &Verified) -> anyhow::Result<()> {
    let Verified {
        run,
        state,
        outcome,
    } = verified;
    let said = match outcome {
        Outcome::Identical { .. } | Outcome::Pruned { .. } | Outcome::NothingAsked => return Ok(()),
        Outcome::Differs(difference) => difference.to_string(),
        Outcome::Redacted { at } => {
            format!("redacted: its owner erased what it was told, on {at}")
        }
        Outcome::Masked { reason } => format!("masked: cannot be verified, because {reason}"),
        Outcome::NotVerifiable { reason } => format!("not verifiable: {reason}"),
        Outcome::Unreadable { reason } => {
            format!("its record is damaged: {reason}; see `attache doctor`")
        }
    };
    Ok(context.screen.line(format!("{run} ({state}): {said}"))?)
}

fn conclude(
    context: &CommandContext,
    tally: &VerdictTally,
    listed: &[Verified],
    seconds: f64,
) -> anyhow::Result<()> {
    let VerdictTally {
        identical,
        requests,
        different,
        masked,
        not_verifiable,
        unreadable,
        pruned,
        redacted,
        nothing_asked,
    } = tally;
    let runs = identical
        + different
        + masked
        + not_verifiable
        + unreadable
        + pruned
        + redacted
        + nothing_asked;
    if context.json() {
        return context.screen.json(&json!({
            "runs": runs,
            "identical": identical,
            "requests": requests,
            "different": different,
            "masked": masked,
            "not_verifiable": not_verifiable,
            "unreadable": unreadable,
            "pruned": pruned,
            "redacted": redacted,
            "nothing_asked": nothing_asked,
            "seconds": seconds,
            "verdicts": listed,
        }));
    }
    let per_second = runs as f64 / seconds.max(0.001);
    let masked = if *masked > 0 {
        format!(" {masked} masked,")
    } else {
        String::new()
    };
    let damaged = if *unreadable > 0 {
        format!(" {unreadable} damaged,")
    } else {
        String::new()
    };
    let gone = if *pruned > 0 {
        format!(" {pruned} pruned,")
    } else {
        String::new()
    };
    let gone = match *redacted {
        0 => gone,
        redacted => format!("{gone} {redacted} redacted,"),
    };
    context.screen.line(format!(
        "{}: {identical} identical ({}), {different} different,{damaged}{masked} {not_verifiable} not verifiable,\
         {gone} {nothing_asked} that asked no model; {per_second:.0} runs/s",
        plural(runs, "run"),
        plural(*requests, "request"),
    ))?;
    Ok(())
}
