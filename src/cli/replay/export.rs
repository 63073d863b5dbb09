//! `attache replay export RUN… FILE`: one file with everything that a maintainer needs to reproduce
//! runs.

use super::show::write_new;
use crate::cli::args::lookup::runs_of;
use crate::cli::screen::remark;
use crate::cli::{CommandContext, Exit, Failure};
use crate::clock::{Clock, SystemClock};
use crate::mcp_client::kept_secrets;
use crate::replay::bundle::{self, Label};
use crate::text::plural;
use serde::Serialize;
use std::path::Path;
use std::path::PathBuf;

/// Write runs into one file with which a maintainer can look at them; it holds the mails' text
#[derive(clap::Args)]
pub struct ReplayExport {
    /// Ids, their last or first characters, or `last`
    #[arg(value_name = "RUN", required = true)]
    id: Vec<String>,
    /// The file, which must not exist yet
    file: PathBuf,
    /// Give people and addresses other names, and leave out the mails' raw bytes
    #[arg(long)]
    rename: bool,
}

impl ReplayExport {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        // Needed for the secrets that the file must not contain: without them no file is
        // written.
        let config = context.config()?;
        let store = context.shared_store().await?;
        let runs = runs_of(&store, self.id.iter(), "exported").await?;
        let label = Label {
            engine: env!("CARGO_PKG_VERSION").to_owned(),
            made_at: SystemClock::new().now().to_string(),
            runs: runs.iter().map(ToString::to_string).collect(),
        };
        let things = store.things_of_runs(&runs).await?;
        let mut secrets = config.secrets.clone();
        secrets.extend(kept_secrets(&context.workspace));
        let written = bundle::write(label, things, &secrets, self.rename);
        let (header, bytes) = written
            .map_err(|error| Failure::new(Exit::BadData, "nothing was written").because(error))?;
        let file = self.file;
        write_new(&file, &bytes)?;
        match context.json() {
            true => context.screen.json(&ExportedRuns {
                file: &file,
                size_bytes: bytes.len(),
                runs: &header.runs,
                masked: header.masked,
                renamed: header.renamed,
            })?,
            false => {
                context.screen.line(format!(
                    "{} bytes written to {}",
                    bytes.len(),
                    file.display()
                ))?;
            }
        }
        let masked = plural(header.masked as usize, "secret");
        remark(&format!("{}; {masked} taken out", header.beware));
        Ok(Exit::Ok)
    }
}

/// A file of exported runs.
#[derive(Serialize)]
struct ExportedRuns<'a> {
    file: &'a Path,
    size_bytes: usize,
    runs: &'a [String],
    masked: u32,
    renamed: bool,
}
