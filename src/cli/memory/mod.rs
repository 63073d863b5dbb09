//! `attache memory`: what personas remember of people.
//!
//! - `forget`: erasure
//! - `measure`: what a search of the owner's own letters finds, by words and with vectors

mod forget;
mod measure;

use super::args::{LimitArg, correspondent, persona_of, user};
use super::screen::Columns;
use super::{CommandContext, Exit, Failure, refuse};
use crate::domain::{Address, MEMORY_TEXT_CHARS_MAX, MemoryStatus, Readers, RunId};
use crate::store::{
    ContactAlias, MemoryAct, MemoryDossier, MemoryEntry, MemoryFilter, Store, StoreError,
};
use crate::text::{one_line, visible};
use clap::builder::PossibleValuesParser;
use serde_json::json;

/// Read and decide what personas remember of people
#[derive(clap::Subcommand)]
pub enum MemoryCommand {
    List(ListEntries),
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
    Alias(AliasMemory),
    /// Print entries in every state with all that is known of each, one JSON object a line
    Export {
        /// Only this persona's
        #[arg(long, value_name = "ID")]
        persona: Option<String>,
        /// Only entries about this correspondent
        #[arg(long, value_name = "ADDRESS")]
        contact: Option<String>,
    },
    #[command(name = "bench")]
    Measure(measure::MeasureMemory),
}

impl MemoryCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let (id, act) = match self {
            Self::List(it) => return it.run(context).await,
            Self::Show { id } => return show(context, &id).await,
            Self::Forget(it) => return it.run(context).await,
            Self::Alias(it) => return it.run(context).await,
            Self::Export { persona, contact } => {
                return export(context, persona, contact).await;
            }
            Self::Measure(it) => return it.run(context).await,
            Self::Approve { id, for_everybody } => (id, MemoryAct::Approve { for_everybody }),
            Self::Edit { id, text } => {
                let text = checked_text(&text)?;
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
        decide(context, &id, act).await
    }
}

/// Returns the entry that an id, or the end of one, names.
async fn found(store: &Store, piece: &str) -> anyhow::Result<MemoryDossier> {
    if is_shown_id(piece) {
        return refuse(
            Exit::Usage,
            format!("`{piece}` counts within one correspondent or thread"),
            "`attache memory list --all` shows it as NO, and the id of each entry",
        );
    }
    match store.find_memory(piece).await {
        Ok(id) => Ok(store.memory_dossier(&id).await?),
        Err(StoreError::Missing { .. }) => refuse(
            Exit::NoInput,
            format!("no entry of memory `{piece}`"),
            "`attache memory list --all` shows ids; their last characters will do",
        ),
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

/// Most entries of one export.
const EXPORTED_MAX: u32 = 1_000_000;

/// List entries that wait for you, then those in use, the newest first
#[derive(clap::Args)]
pub struct ListEntries {
    /// Only this persona's
    #[arg(long, value_name = "ID")]
    persona: Option<String>,
    /// Only entries in this state [default: `proposed`, which wait for you, and `active`]
    #[arg(long, value_parser = PossibleValuesParser::new(MemoryStatus::ALL.iter().map(|status| status.as_str())))]
    status: Option<String>,
    /// Entries in every state
    #[arg(long)]
    all: bool,
    /// Only entries about this correspondent
    #[arg(long, value_name = "ADDRESS")]
    contact: Option<String>,
    #[command(flatten)]
    page: LimitArg,
}

/// Key of the correspondent that was given.
pub(super) fn contact_of(typed: Option<String>) -> Result<Option<String>, Failure> {
    let parsed = typed.map(|typed| Address::parse(&typed)).transpose();
    let address = parsed.map_err(Failure::usage)?;
    Ok(address.map(|address| address.key()))
}

impl ListEntries {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let store = context.shared_store().await?;
        let status = self.status.and_then(|status| MemoryStatus::parse(&status));
        let states = match (self.all, status) {
            (true, _) => vec![None],
            (false, Some(status)) => vec![Some(status)],
            (false, None) => vec![Some(MemoryStatus::Proposed), Some(MemoryStatus::Active)],
        };
        let persona = persona_of(context, &store, self.persona).await?;
        let contact = contact_of(self.contact)?;
        let mut entries = Vec::new();
        for status in states {
            let filter = MemoryFilter {
                after: None,
                persona: persona.clone(),
                status,
                contact: contact.clone(),
                limit: self.page.limit,
            };
            entries.append(&mut store.memory_entries(&filter).await?);
        }
        let columns = Columns::of(&[
            "ID", "PERSONA", "ABOUT", "NO", "STATUS", "KIND", "SAID", "TEXT",
        ])
        .main("TEXT")
        .optional(&["SAID", "NO", "KIND"]);
        context.list(&entries, columns, "no entry", cells)
    }
}

/// Prints entries with their sources and changes, as JSON lines.
async fn export(
    context: &CommandContext,
    persona: Option<String>,
    contact: Option<String>,
) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let filter = MemoryFilter {
        after: None,
        persona: persona_of(context, &store, persona).await?,
        status: None,
        contact: contact_of(contact)?,
        limit: EXPORTED_MAX,
    };
    for entry in store.memory_entries(&filter).await? {
        let dossier = store.memory_dossier(&entry.id).await?;
        context.screen.line(serde_json::to_string(&dossier)?)?;
    }
    Ok(Exit::Ok)
}

fn cells(entry: &MemoryEntry) -> Vec<String> {
    vec![
        entry.id.clone(),
        entry.persona.to_string(),
        about(entry),
        entry.shown_id(),
        entry.status.to_string(),
        entry.kind.to_string(),
        entry.said_at.to_string(),
        match entry.erased_at {
            Some(_) => "[erased]".to_owned(),
            None => match entry.proposes {
                Some(proposal) => format!("[{proposal}] {}", crate::text::visible(&entry.text)),
                None => crate::text::visible(&entry.text),
            },
        },
    ]
}

/// Returns the owner of an entry, for people.
fn about(entry: &MemoryEntry) -> String {
    match entry.scope.columns() {
        ("persona", _) => "everybody".to_owned(),
        ("thread", key) => format!("thread {key}"),
        (_, key) => key.to_owned(),
    }
}

pub async fn show(context: &CommandContext, id: &str) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let dossier = found(&store, id).await?;
    context.report(&dossier, |screen| {
        let MemoryDossier {
            entry,
            sources,
            replaces,
            events,
        } = &dossier;
        screen.fields(&fields(entry))?;
        screen.line("")?;
        screen.line(visible(&entry.text))?;
        if let Some(proposal) = entry.proposes {
            screen.line("")?;
            screen.line(format!("proposes to {proposal}: {}", replaces.join(" ")))?;
        }
        for source in sources {
            screen.line("")?;
            screen.line(format!(
                "rests on message {}, characters {} to {}:",
                source.message, source.start, source.end
            ))?;
            for line in source.quote.lines() {
                screen.line(format!("> {}", visible(line)))?;
            }
        }
        screen.line("")?;
        for event in events {
            let why = match event.why.is_empty() {
                true => String::new(),
                false => format!(": {}", visible(&event.why)),
            };
            screen.line(format!(
                "{} {} by {} {}{why}",
                event.at, event.act, event.actor, event.who
            ))?;
        }
        Ok(())
    })
}

fn fields(entry: &MemoryEntry) -> Vec<(&'static str, String)> {
    let dash = || "-".to_owned();
    let readers = match &entry.readers {
        Readers::Everyone => "everybody".to_owned(),
        Readers::Only(people) if people.is_empty() => "owners".to_owned(),
        Readers::Only(people) => people.iter().cloned().collect::<Vec<_>>().join(" "),
    };
    let audience = entry.audience.as_ref().map_or_else(
        || "everybody".to_owned(),
        |people| people.iter().cloned().collect::<Vec<_>>().join(" "),
    );
    vec![
        ("entry", entry.id.clone()),
        ("persona", entry.persona.to_string()),
        ("about", about(entry)),
        ("number", entry.shown_id()),
        ("kind", entry.kind.to_string()),
        ("status", entry.status.to_string()),
        ("trust", entry.trust.as_str().to_owned()),
        ("readers", readers),
        ("heard by", audience),
        ("said by", visible(&entry.said_by)),
        ("said", entry.said_at.to_string()),
        (
            "valid to",
            entry.valid_to.map_or_else(dash, |at| at.to_string()),
        ),
        ("written", entry.created_at.to_string()),
        ("by", entry.created_by.clone()),
        (
            "run",
            entry
                .created_run
                .as_ref()
                .map_or_else(dash, RunId::to_string),
        ),
        ("confirmed", entry.confirmed_at.to_string()),
        ("times", entry.confirmations.to_string()),
        ("used", entry.uses.to_string()),
        (
            "last used",
            entry.last_used_at.map_or_else(dash, |at| at.to_string()),
        ),
        ("pinned", if entry.pinned { "yes" } else { "no" }.to_owned()),
        ("instead of", entry.supersedes.clone().unwrap_or_else(dash)),
        (
            "replaced by",
            entry.superseded_by.clone().unwrap_or_else(dash),
        ),
        (
            "erased",
            entry.erased_at.map_or_else(dash, |at| at.to_string()),
        ),
    ]
}

async fn decide(context: &CommandContext, id: &str, act: MemoryAct) -> anyhow::Result<Exit> {
    let store = context.store_of_engine().await?;
    let id = found(&store, id).await?.entry.id;
    let changed = match store.change_memory(&id, act, &user()).await {
        Err(StoreError::WrongState { state, hint, .. }) => {
            return refuse(Exit::Failed, format!("entry `{id}` is {state}"), hint);
        }
        Err(StoreError::MemoryFull) => {
            return refuse(
                Exit::Failed,
                "there are as many entries as there may be",
                "`attache memory reject` takes one out of use",
            );
        }
        changed => changed?,
    };
    let entry = store.memory_dossier(&changed).await?.entry;
    context.report(
        &json!({ "id": entry.id, "status": entry.status }),
        |screen| Ok(screen.line(format!("{}: {}", entry.id, entry.status))?),
    )
}

/// Checks a text of the owner.
fn checked_text(typed: &str) -> Result<String, Failure> {
    let line = one_line(typed);
    match line.chars().count() {
        0 => refuse(
            Exit::Usage,
            "the text is empty",
            "`attache memory reject` takes an entry out of use",
        ),
        chars if chars > MEMORY_TEXT_CHARS_MAX => Err(Failure::new(
            Exit::Usage,
            format!(
                "the text has {chars} characters, and an entry has at most {MEMORY_TEXT_CHARS_MAX}"
            ),
        )),
        _ => Ok(line),
    }
}

/// Say, list or take back which addresses belong to one person
#[derive(clap::Args)]
#[command(
    after_help = "Only memory goes by it: what the person has said from one address is known when they write from the other, and entries count \
                  together. Letters, threads and the policy go by addresses. Without arguments, lists what was said."
)]
pub struct AliasMemory {
    /// Other address of the person; its entries move
    #[arg(requires = "person")]
    address: Option<String>,
    /// Address under which the entries of the person stand
    person: Option<String>,
    /// Have this address stand for itself again; what was said from it goes back
    #[arg(long, value_name = "ADDRESS", conflicts_with = "address")]
    remove: Option<String>,
}

impl AliasMemory {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        if let Some(address) = &self.remove {
            return remove(context, &correspondent(address)?).await;
        }
        match (&self.address, &self.person) {
            (Some(address), Some(person)) => {
                add(context, &correspondent(address)?, &correspondent(person)?).await
            }
            _ => list(context).await,
        }
    }
}

async fn add(
    context: &CommandContext,
    address: &Address,
    person: &Address,
) -> anyhow::Result<Exit> {
    let config = context.config()?;
    let is_owner = |of: &Address| {
        config
            .gateway
            .owners
            .iter()
            .any(|owner| owner.key() == of.key())
    };
    if is_owner(address) || is_owner(person) {
        return refuse(
            Exit::Usage,
            "an owner's address belongs to no correspondent",
            "`owners` in `configs/gateway.json` has the addresses of the owners",
        );
    }
    let store = context.store_of_engine().await?;
    let added = store
        .add_contact_alias(&address.key(), &person.key(), &user())
        .await;
    let moved = added.map_err(alias_refusal)?;
    let person = store.persons().await?.person(&address.key()).to_owned();
    if context.json() {
        let said = json!({ "address": address.key(), "person": person, "entries_moved": moved });
        context.screen.json(&said)?;
    } else {
        let entries = entries(moved);
        context.screen.line(format!(
            "{} belongs to {person}; moved: {entries}",
            address.key()
        ))?;
    }
    Ok(Exit::Ok)
}

async fn remove(context: &CommandContext, address: &Address) -> anyhow::Result<Exit> {
    let store = context.store_of_engine().await?;
    let removed = store.remove_contact_alias(&address.key(), &user()).await;
    let Some(moved) = removed.map_err(alias_refusal)? else {
        return refuse(
            Exit::NoInput,
            format!("`{}` is no other address of anybody", address.key()),
            "`attache memory alias` lists them",
        );
    };
    context.screen.line(format!(
        "{} stands for itself again; moved back: {}",
        address.key(),
        entries(moved)
    ))?;
    Ok(Exit::Ok)
}

fn alias_refusal(error: StoreError) -> anyhow::Error {
    match error {
        StoreError::MemoryFull => Failure::new(
            Exit::Failed,
            "together there would be more entries than one correspondent may have",
        )
        .hint("`attache memory reject` takes some out of use first")
        .into(),
        StoreError::WrongState {
            id, state, hint, ..
        } => Failure::new(Exit::Usage, format!("`{id}` is {state}"))
            .hint(hint)
            .into(),
        error => error.into(),
    }
}

async fn list(context: &CommandContext) -> anyhow::Result<Exit> {
    let aliases = context.shared_store().await?.contact_aliases().await?;
    let columns = Columns::of(&["ADDRESS", "PERSON", "SINCE", "BY"]);
    context.list(
        &aliases,
        columns,
        "every address stands for itself",
        alias_cells,
    )
}

fn alias_cells(alias: &ContactAlias) -> Vec<String> {
    let ContactAlias {
        address,
        person,
        since,
        said_by,
    } = alias;
    vec![
        address.clone(),
        person.clone(),
        since.to_string(),
        said_by.clone(),
    ]
}
