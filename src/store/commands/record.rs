//! A command by mail and its outcome, as values and as rows of `mail_commands`.

use crate::domain::{
    ApprovalState, CommandRefusal, MailCommand, MessageId, PersonaId, ThreadId, Timestamp,
};
use crate::store::db::Connection;
use crate::store::sql::from_json;
use crate::store::{Result, Store};
use serde::{Deserialize, Serialize};

/// A command that a letter brings; it is stored with the letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMailCommand {
    /// Address of the owner who sent it.
    pub owner: String,
    pub command: MailCommand,
    pub argument: String,
    /// Reason for which it does nothing.
    pub refusal: Option<CommandRefusal>,
    /// Instant of sending, by its signature.
    pub sent_at: Timestamp,
}

/// A command that is not answered yet.
#[derive(Debug, Clone)]
pub struct OpenCommand {
    pub seq: i64,
    pub persona: PersonaId,
    pub owner: String,
    pub command: MailCommand,
    pub argument: String,
    /// `None`: it is still to be carried out.
    pub outcome: Option<CommandOutcome>,
    /// Its letter.
    pub message: MessageId,
    pub thread: ThreadId,
    pub rfc_message_id: String,
    /// References of the letter, oldest first.
    pub references: Vec<String>,
    pub subject: String,
}

/// What a command has done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum CommandOutcome {
    /// It changes nothing: it is only answered.
    Noted,
    Refused {
        why: CommandRefusal,
    },
    /// Runs of the thread: `ended` now, `stopping` as soon as the engine that works on them notices.
    Cancelled {
        ended: u32,
        stopping: u32,
    },
    Paused {
        /// `false`: the persona was halted before.
        is_new: bool,
    },
    Resumed {
        was_halted: bool,
        /// `true`: every persona is halted, which this command does not lift.
        all_halted: bool,
    },
    /// Later runs of the thread do not see its history.
    Reset,
    Decided {
        state: ApprovalState,
    },
    DecidedBefore {
        state: ApprovalState,
    },
    /// No open question has that number, or several have.
    NoApproval,
    /// The policy lets no mail decide on such a question.
    NotByMail,
    /// The question takes an answer in words, and not yes or no.
    NotFitting,
}

/// A second arrival of a letter is stored as a letter and is no second command.
const INSERT_COMMAND: &str = "
    INSERT INTO mail_commands (message_id, persona_id, rfc_message_id, owner, command, argument, refusal, sent_at, received_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (persona_id, rfc_message_id) DO NOTHING";
const OPEN_COMMANDS: &str = "
    SELECT c.seq, c.persona_id, c.owner, c.command, c.argument, c.outcome_json, c.message_id AS letter, m.thread_id,
      m.message_id AS rfc_message_id, m.references_json, m.subject
    FROM mail_commands c JOIN messages m ON m.id = c.message_id
    WHERE c.answered_at IS NULL ORDER BY c.seq LIMIT $1";

/// Most commands of one pass; the others wait for the next.
const OPEN_MAX: i64 = 50;

/// Stores a command in the commit that stores its letter.
pub async fn insert(
    conn: &mut Connection,
    (persona, message, rfc_message_id): (&PersonaId, &MessageId, &str),
    command: &NewMailCommand,
    received_at: Timestamp,
) -> Result<()> {
    // An altered copy must not use up the Message-ID of the genuine letter.
    let once = match command.refusal {
        Some(CommandRefusal::UnsignedContent) => format!("unsigned:{rfc_message_id}"),
        _ => rfc_message_id.to_owned(),
    };

    conn.exec(
        INSERT_COMMAND,
        (
            &message,
            &persona,
            once,
            &command.owner,
            &command.command,
            &command.argument,
            command.refusal,
            command.sent_at,
            received_at,
        ),
    )
    .await?;
    Ok(())
}

impl Store {
    /// Returns the commands that are not answered yet, in the order in which they came.
    pub async fn open_commands(&self) -> Result<Vec<OpenCommand>> {
        self.all(OPEN_COMMANDS, OPEN_MAX).await
    }
}

from_row!(|row| OpenCommand {
    seq,
    persona: "persona_id",
    owner,
    command,
    argument,
    outcome: {
        let outcome: Option<&str> = row.try_get("outcome_json")?;
        let outcome = outcome.map(|json| from_json(json, "outcome of a command"));
        outcome.transpose()?
    },
    message: "letter",
    thread: "thread_id",
    rfc_message_id,
    references: { row.json("references_json", "references of a message")? },
    subject
});
