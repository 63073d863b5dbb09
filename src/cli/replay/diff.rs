//! `attache replay diff A B`: the first difference between two runs, then turn by turn.

use super::show::print;
use crate::cli::args::lookup::record_of;
use crate::cli::{CommandContext, Exit};
use crate::replay::diff::compare;
use crate::replay::timeline;
use serde::Serialize;

/// Compare two runs: where they went apart first, then turn by turn; exit code 1 if they did
#[derive(clap::Args)]
pub struct Diff {
    /// An id of a run or of a fork, its last or first characters, or `last`
    #[arg(value_name = "RUN")]
    a: String,
    /// An id of a run or of a fork, its last or first characters, or `last`
    #[arg(value_name = "RUN")]
    b: String,
    /// Ids and instants count too
    #[arg(long)]
    exact: bool,
    /// Show every stage, and every difference of a stage, not only the first
    #[arg(long)]
    full: bool,
}

impl Diff {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let store = context.shared_store().await?;
        let a = record_of(&store, &self.a).await?;
        let b = record_of(&store, &self.b).await?;
        let comparison = compare(&a, &b, self.exact);
        if context.json() {
            context.screen.json(&DiffRecord {
                a: &a.run.id,
                b: &b.run.id,
                same: comparison.same,
                first: &comparison.first,
                stages: &comparison.pairs,
            })?;
        } else {
            let runs = (a.run.id.as_str(), b.run.id.as_str());
            let lines = timeline::comparison(runs, &comparison, self.full);
            print(&context.screen, &lines)?;
        }
        Ok(match comparison.same {
            true => Exit::Ok,
            false => Exit::Failed,
        })
    }
}

/// Comparison of two runs.
#[derive(Serialize)]
struct DiffRecord<'a, F, P> {
    a: &'a str,
    b: &'a str,
    same: bool,
    first: &'a F,
    stages: &'a P,
}
