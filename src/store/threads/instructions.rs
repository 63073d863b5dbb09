//! Instructions of an owner that belong to one conversation or to one correspondent.
//!
//! A row is never changed: what is taken back gets a date, so that it can be told what a past run was shown.

use crate::domain::{PersonaId, ThreadId, Timestamp};
use crate::store::db::{Row, Scope};
use crate::store::{PersonaStore, Result, Store, StoreError};
use serde::{Deserialize, Serialize};

/// Most instructions in force for one thread, and for one correspondent.
pub const INSTRUCTIONS_MAX: u32 = 20;

/// What an instruction is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstructionScope {
    Thread(ThreadId),
    /// A correspondent's address, in lower case.
    Contact(String),
}

impl InstructionScope {
    fn columns(&self) -> (Option<&str>, Option<&str>) {
        match self {
            Self::Thread(thread) => (Some(thread.as_str()), None),
            Self::Contact(address) => (None, Some(address)),
        }
    }
}

/// An instruction, for the owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoredInstruction {
    pub id: String,
    pub persona: PersonaId,
    pub thread: Option<String>,
    pub contact: Option<String>,
    pub text: String,
    pub given_by: String,
    pub given_at: Timestamp,
    pub removed_at: Option<Timestamp>,
}

/// An instruction as a run is shown it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownInstruction {
    pub id: String,
    pub text: String,
    pub given_at: String,
    /// `true`: it belongs to the correspondent, not to the thread alone.
    pub is_of_contact: bool,
}

const ADD_INSTRUCTION: &str = "
    INSERT INTO thread_instructions (id, persona_id, thread_id, contact, text, given_by, given_at)
    SELECT $1, $2, $3, $4, $5, $6, $7 WHERE (SELECT count(*) FROM thread_instructions
      WHERE persona_id = $2 AND thread_id IS NOT DISTINCT FROM $3 AND contact IS NOT DISTINCT FROM $4 AND removed_at IS NULL) < $8";
const REMOVE_INSTRUCTION: &str = "
    UPDATE thread_instructions SET removed_at = $2, removed_by = $3 WHERE id = $1 AND removed_at IS NULL";
const INSTRUCTIONS: &str = "
    SELECT id, persona_id, thread_id, contact, text, given_by, given_at, removed_at FROM thread_instructions
    WHERE persona_id = $1 AND thread_id IS NOT DISTINCT FROM $2 AND contact IS NOT DISTINCT FROM $3 ORDER BY seq";
const INSTRUCTIONS_IN_FORCE: &str = "
    SELECT seq, id, text, given_at, 0 AS is_of_contact FROM thread_instructions
    WHERE persona_id = $1 AND thread_id = $2 AND contact IS NULL AND removed_at IS NULL
    UNION ALL
    SELECT seq, id, text, given_at, 1 AS is_of_contact FROM thread_instructions
    WHERE persona_id = $1 AND thread_id IS NULL AND contact = $3 AND removed_at IS NULL
    ORDER BY seq";
/// The thread that another was folded into has its instructions, too.
pub const FOLD_INSTRUCTIONS: &str =
    "UPDATE thread_instructions SET thread_id = $2 WHERE thread_id = $1";

impl Store {
    /// Adds an instruction and returns its id; `None`: there are too many already.
    pub async fn add_instruction(
        &self,
        persona: &PersonaId,
        scope: &InstructionScope,
        text: &str,
        by: &str,
    ) -> Result<Option<String>> {
        let (id, now) = (self.clock().new_id(), self.clock().now().to_string());
        let (persona, scope) = (persona.clone(), scope.clone());
        let (text, by, new) = (text.to_owned(), by.to_owned(), id.clone());
        let added = transact!(self, Scope::persona(&persona), |conn| {
            let (thread, contact) = scope.columns();
            let added = conn
                .exec(
                    ADD_INSTRUCTION,
                    (
                        new,
                        persona,
                        thread,
                        contact,
                        text,
                        by,
                        now,
                        INSTRUCTIONS_MAX,
                    ),
                )
                .await?;
            Ok(added)
        });
        Ok((added.await? > 0).then_some(id))
    }

    /// Takes an instruction back. Errors: [`StoreError::Missing`], also for one that was taken back before.
    pub async fn remove_instruction(&self, id: &str, by: &str) -> Result<()> {
        let (id, by, now) = (id.to_owned(), by.to_owned(), self.clock().now().to_string());
        transact!(
            self,
            Scope::persona_of("thread_instructions", &id),
            |conn| {
                match conn.exec(REMOVE_INSTRUCTION, (&id, now, by)).await? {
                    0 => Err(StoreError::Missing {
                        kind: "instruction",
                        id,
                    }),
                    _ => Ok(()),
                }
            }
        )
        .await
    }

    /// Returns the instructions of a scope, those that were taken back included, oldest first.
    pub async fn instructions(
        &self,
        persona: &PersonaId,
        scope: &InstructionScope,
    ) -> Result<Vec<StoredInstruction>> {
        let (thread, contact) = scope.columns();

        self.all(INSTRUCTIONS, (persona, thread, contact)).await
    }
}

impl PersonaStore {
    /// Returns the instructions in force for a thread and a correspondent, oldest first.
    pub async fn instructions_in_force(
        &self,
        thread: &ThreadId,
        contact: Option<&str>,
    ) -> Result<Vec<ShownInstruction>> {
        let rows = self
            .rows(INSTRUCTIONS_IN_FORCE, (&self.persona, thread, contact))
            .await?;
        let shown = |row: &Row| ShownInstruction {
            id: row.get("id"),
            text: row.get("text"),
            given_at: row.get("given_at"),
            is_of_contact: row.get("is_of_contact"),
        };
        Ok(rows.iter().map(shown).collect())
    }
}

from_row!(StoredInstruction {
    id,
    persona: "persona_id",
    thread: "thread_id",
    contact,
    text,
    given_by,
    given_at,
    removed_at
});
