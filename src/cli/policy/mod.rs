//! `attache policy`: which rule decides, and what the rules would have decided.

mod explain;
mod preview;

use super::{CommandContext, Exit};
use clap::value_parser;

/// Explain which calls of tools are allowed, asked about or refused, and why
#[derive(clap::Subcommand)]
pub enum PolicyCommand {
    Explain(explain::ExplainPolicy),
    /// Show which rule decided each call of a run, and which would decide now
    Test {
        /// The run: its id, the last or first characters of it, or `last`
        #[arg(long, value_name = "ID")]
        run: String,
        /// Only this call of it
        #[arg(long, value_name = "ID")]
        call: Option<String>,
    },
    /// Show what the rules in the files would have allowed, asked about and refused
    #[command(
        after_help = "A working engine takes edited rules within seconds: write new ones elsewhere, look here by --rules what they would have \
                      done, and copy them when you like what you see. Every call is decided on by the facts that were recorded with it."
    )]
    Preview {
        /// Look at the calls of the last so many days
        #[arg(long, value_name = "N", default_value_t = 30, value_parser = value_parser!(u32).range(1..=3650))]
        days: u32,
        /// Rules of this file, in place of `configs/policy.json`
        #[arg(long, value_name = "FILE")]
        rules: Option<String>,
    },
}

impl PolicyCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        match self {
            Self::Explain(it) => it.run(context),
            Self::Test { run, call } => preview::test(context, &run, call).await,
            Self::Preview { days, rules } => preview::run(context, days, rules).await,
        }
    }
}
