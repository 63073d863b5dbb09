//! `attache memory`: what personas remember of people.
//!
//! - `list`, `show`, `export`: entries, with what each rests on
//! - `decide`: what the owner does with one; `forget`: erasure
//! - `alias`: which addresses belong to one person
//! - `measure`: what a search of the owner's own letters finds; `vectors`: and with vectors

mod list;
mod show;
mod decide;
mod forget;
mod alias;
mod measure;
mod vectors;

use super::{CommandContext, Exit, Failure};
use crate::store::{MemoryAct, MemoryDossier, Store, StoreError};
use crate::text::one_line;

/// Read and decide what personas remember of people
#[derive(clap::Subcommand)]
pub enum MemoryCommand {
    List(list::ListMemory),
    /// Show an entry: what it says, the words that it rests on, and what became of it
    Show {
        /// Its id, or the last or first characters of it
        id: String,
    },
    /// Have an entry that waits be used
    Approve {
        /// Its id, or the last or first characters of it
        id: String,
        /// Show it in every run of the persona, whoever writes; nobody but you can do that
        #[arg(long)]
        for_everybody: bool,
    },
    /// Say an entry in your own words
    Edit {
        /// Its id, or the last or first characters of it
        id: String,
        /// What it says from now on
        text: String,
    },
    /// Take an entry out of use; it is not written again
    Reject {
        /// Its id, or the last or first characters of it
        id: String,
        /// Reason, for the record
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Undo the last change of an entry
    Restore {
        /// Its id, or the last or first characters of it
        id: String,
    },
    /// Keep an entry however long no run needs it
    Pin {
        /// Its id, or the last or first characters of it
        id: String,
    },
    /// Let an entry expire when no run has needed it for 180 days
    Unpin {
        /// Its id, or the last or first characters of it
        id: String,
    },
    Forget(forget::ForgetMemory),
    Alias(alias::AliasMemory),
    /// Print entries in every state with all that is known of each, one JSON object a line
    Export {
        /// Only this persona's
        #[arg(long, value_name = "ID")]
        persona: Option<String>,
        /// Only entries about this correspondent
        #[arg(long, value_name = "ADDRESS")]
        contact: Option<String>,
    },
    Bench(measure::BenchMemory),
}

impl MemoryCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let (id, act) = match self {
            Self::List(it) => return it.run(context).await,
            Self::Show { id } => return show::run(context, &id).await,
            Self::Forget(it) => return it.run(context).await,
            Self::Alias(it) => return it.run(context).await,
            Self::Export { persona, contact } => {
                return list::export(context, persona, contact).await;
            }
            Self::Bench(it) => return it.run(context).await,
            Self::Approve { id, for_everybody } => (id, MemoryAct::Approve { for_everybody }),
            Self::Edit { id, text } => {
                let text = decide::checked(&text)?;
                (id, MemoryAct::Edit { text })
            }
            Self::Reject { id, reason } => {
                let why = one_line(&reason.unwrap_or_default());
                (id, MemoryAct::Reject { why })
            }
            Self::Restore { id } => (id, MemoryAct::Restore),
            Self::Pin { id } => (id, MemoryAct::Pin),
            Self::Unpin { id } => (id, MemoryAct::Unpin),
        };
        decide::run(context, &id, act).await
    }
}

/// Returns the entry that an id, or the end of one, names.
async fn found(store: &Store, piece: &str) -> anyhow::Result<MemoryDossier> {
    if is_shown_id(piece) {
        let failure = Failure::new(
            Exit::Usage,
            format!("`{piece}` counts within one correspondent or thread"),
        );
        return Err(failure
            .hint("`attache memory list --all` shows it as NO, and the id of each entry")
            .into());
    }
    match store.find_memory(piece).await {
        Ok(id) => Ok(store.memory_dossier(&id).await?),
        Err(StoreError::Missing { .. }) => {
            let failure = Failure::new(Exit::NoInput, format!("no entry of memory `{piece}`"));
            Err(failure
                .hint("`attache memory list --all` shows ids; their last characters will do")
                .into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Reports whether it is an id such as `c3`, as models read it.
fn is_shown_id(piece: &str) -> bool {
    let digits = piece.strip_prefix(['c', 't', 'p']);
    digits.is_some_and(|digits| {
        (1..=3).contains(&digits.len()) && digits.chars().all(|c| c.is_ascii_digit())
    })
}

/// Formats a number of entries.
fn entries(count: usize) -> String {
    match count {
        1 => "1 entry".to_owned(),
        count => format!("{count} entries"),
    }
}
