//! Runs, forks, threads and letters by what a person types: an id, a piece of it, or `last`.

use crate::cli::screen::one_line;
use crate::cli::{Exit, Failure, refuse};
use crate::domain::mail::filed;
use crate::domain::{MessageId, RunId, ThreadId};
use crate::replay::{RunRecord, load_run};
use crate::store::{FiledLetter, ID_PIECE_CHARS_MIN, Store, StoreError};

/// The word for the run that was queued last.
pub const LAST: &str = "last";

/// Message for `last` in a workspace without runs.
const NO_RUN_YET: &str = "there is no run yet";

/// The row that an id names.
pub enum Named {
    /// Record of a run or of a fork.
    Run(Box<RunRecord>),
    Thread(ThreadId),
}

pub async fn named(store: &Store, id: &str) -> anyhow::Result<Named> {
    match find_run(store, id).await {
        Ok(run) => Ok(Named::Run(Box::new(load_run(store, &run).await?))),
        Err(StoreError::Missing { .. }) if store.find_fork(id).await.is_ok() => {
            Ok(Named::Run(Box::new(record_of(store, id).await?)))
        }
        Err(of_runs) => match (&of_runs, store.find_thread(id).await) {
            (StoreError::Missing { .. }, Ok(thread)) => Ok(Named::Thread(thread)),
            (StoreError::Missing { .. }, Err(StoreError::Missing { .. })) => {
                if id == LAST {
                    return Err(no_such_run(store, of_runs).await);
                }
                refuse(
                    Exit::NoInput,
                    format!("no run and no thread `{id}`"),
                    id_hint("`attache runs list`"),
                )
            }
            (StoreError::Missing { .. }, Err(of_threads)) => Err(of_threads.into()),
            _ => Err(of_runs.into()),
        },
    }
}

/// Loads the record of a named run or fork.
pub async fn record_of(store: &Store, id: &str) -> anyhow::Result<RunRecord> {
    let missing = match find_run(store, id).await {
        Ok(run) => return Ok(load_run(store, &run).await?),
        Err(error) => error,
    };
    match store.find_fork(id).await {
        Ok(fork) => {
            let record = store.fork_record(&fork).await?;
            Ok(serde_json::from_str(&record)?)
        }
        Err(StoreError::Missing { .. }) => Err(no_such_run(store, missing).await),
        Err(error) => Err(error.into()),
    }
}

fn id_hint(listing: &str) -> String {
    format!(
        "{listing} shows ids; their last {ID_PIECE_CHARS_MIN} characters or more, or as many of their first, will do"
    )
}

/// Finds a run by its id, a prefix of it, or the word `last`.
pub async fn find_run(store: &Store, id: &str) -> Result<RunId, StoreError> {
    if id != LAST {
        return store.find_run(id).await;
    }
    let newest = store.newest_run().await?;
    newest.ok_or_else(|| StoreError::Missing {
        kind: "run",
        id: id.to_owned(),
    })
}

/// Finds a named run for an action that a fork does not support; `done` names the action.
pub async fn run_of(store: &Store, id: &str, done: &str) -> anyhow::Result<RunId> {
    let error = match find_run(store, id).await {
        Ok(run) => return Ok(run),
        Err(error) => error,
    };
    match store.find_fork(id).await {
        Ok(fork) if matches!(error, StoreError::Missing { .. }) => {
            let of = store.run_of_fork(&fork).await?;
            refuse(
                Exit::Usage,
                format!("`{id}` is a fork, and only runs can be {done}"),
                format!("it was forked from run {of}; `attache replay show {fork}` shows it"),
            )
        }
        _ => Err(no_such_run(store, error).await),
    }
}

/// The named runs without duplicates. Errors: as [`run_of`].
pub async fn runs_of(
    store: &Store,
    named: impl Iterator<Item = &String>,
    done: &str,
) -> anyhow::Result<Vec<RunId>> {
    let mut runs = Vec::new();
    for id in named {
        let run = run_of(store, id, done).await?;
        if !runs.contains(&run) {
            runs.push(run);
        }
    }
    Ok(runs)
}

/// Adds a hint to the error of an unknown run. In a workspace without runs the newest filed letter
/// may explain it.
pub async fn no_such_run(store: &Store, error: StoreError) -> anyhow::Error {
    match error {
        StoreError::Missing {
            kind: "run",
            ref id,
        } if id == LAST => match store.newest_filed().await {
            Ok(Some(letter)) => {
                let (said, remedy) = filed_text(&letter);
                Failure::new(Exit::NoInput, format!("{NO_RUN_YET}: {said}"))
                    .hint(remedy)
                    .into()
            }
            Ok(None) => Failure::new(Exit::NoInput, NO_RUN_YET)
                .hint("`attache ingest FILE` brings a first letter")
                .into(),
            Err(error) => error.into(),
        },
        other => not_found(other, "`attache runs list`"),
    }
}

/// Outcome of a filed letter, and its remedy.
pub fn filed_text(letter: &FiledLetter) -> (String, String) {
    let FiledLetter {
        id,
        persona,
        sender,
        subject,
        rule,
    } = letter;
    let (from, about) = (one_line(sender), one_line(subject));
    let said = format!(
        "the letter from {from} to {persona} about `{about}` is filed ({rule}): {}",
        filed::why(rule)
    );
    (
        said,
        filed::remedy(rule, id.as_str(), filed::address_in(sender).as_ref()),
    )
}

/// Finds a filed letter by its id, a prefix of it, or the word `last` for the newest that may be answered.
pub async fn find_letter(store: &Store, id: &str) -> anyhow::Result<MessageId> {
    if id != LAST {
        return store
            .find_message(id)
            .await
            .map_err(|error| not_found(error, "`attache threads show`"));
    }
    let letter = store.newest_unanswered().await?;
    letter
        .map(|letter| letter.id)
        .ok_or_else(|| Failure::new(Exit::NoInput, "no filed letter waits for an answer").into())
}

/// Adds a hint to the error of an unknown id.
pub fn not_found(error: StoreError, listing: &str) -> anyhow::Error {
    match error {
        StoreError::Missing { .. } => Failure::new(Exit::NoInput, error.to_string())
            .hint(id_hint(listing))
            .into(),
        other => other.into(),
    }
}
