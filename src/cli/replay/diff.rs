//! `attache replay diff A B`: the first difference between two runs, then turn by turn.

use super::show::print;
use crate::cli::args::lookup::record_of;
use crate::cli::{Command, CommandContext, Exit};
use crate::replay::diff::compare;
use crate::replay::timeline;
use clap::{Arg, ArgAction, ArgMatches};
use futures_util::future::BoxFuture;
use serde::Serialize;

pub struct Diff;

impl Command for Diff {
    fn clap(&self) -> clap::Command {
        let run = |name: &'static str| {
            Arg::new(name)
                .value_name("RUN")
                .required(true)
                .help("An id of a run or of a fork, its last or first characters, or `last`")
        };
        let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
        clap::Command::new("diff")
            .about(
                "Compare two runs: where they went apart first, then turn by turn; exit code 1 if they did",
            )
            .args([run("a"), run("b")])
            .arg(flag("exact").help("Ids and instants count too"))
            .arg(flag("full").help("Show every stage, and every difference of a stage, not only the first"))
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            let store = context.shared_store().await?;
            let [a, b] =
                ["a", "b"].map(|name| args.get_one::<String>(name).map_or("", String::as_str));
            let (a, b) = (record_of(&store, a).await?, record_of(&store, b).await?);
            let comparison = compare(&a, &b, args.get_flag("exact"));
            match context.json() {
                true => {
                    context.screen.json(&DiffRecord {
                        a: &a.run.id,
                        b: &b.run.id,
                        same: comparison.same,
                        first: &comparison.first,
                        stages: &comparison.pairs,
                    })?;
                }
                false => {
                    let runs = (a.run.id.as_str(), b.run.id.as_str());
                    print(
                        &context.screen,
                        &timeline::comparison(runs, &comparison, args.get_flag("full")),
                    )?;
                }
            }
            Ok(if comparison.same {
                Exit::Ok
            } else {
                Exit::Failed
            })
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
