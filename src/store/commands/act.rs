//! A command by mail is carried out: its effect, its outcome and the line in the audit log are one commit.
//!
//! The answer is another commit (`answer`), which reads the outcome: a kill switch must not wait for a mail that cannot
//! be made, and an effect that is recorded with its outcome is never repeated.
//!
//! Absent on purpose: who may give a command. The intake has decided that before it stored one.

use super::by_number::{NumberedDecision, decide_by_number};
use super::record::CommandOutcome;
use super::resets;
use crate::clock::Clock;
use crate::domain::{CommandRefusal, MailCommand, PersonaId, RunId, ThreadId, Timestamp};
use crate::store::db::{Connection, Scope};
use crate::store::mail::audit_log::audit;
use crate::store::runs::halts::{HALT, HALTS, LIFT_HALT};
use crate::store::runs::run_control::{self, Cancellation};
use crate::store::sql::{from_json, optional_timestamp, persona_id, timestamp, to_json};
use crate::store::{Result, Store, StoreError};
use std::time::Duration;

/// Time by which the clock of a sender's server may differ from ours.
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(10 * 60);
/// Most runs of a thread that one command ends; a thread has rarely more than one at a time.
const CANCELLED_MAX: i64 = 500;

const COMMAND: &str = "
    SELECT c.persona_id, c.owner, c.command, c.argument, c.refusal, c.sent_at, c.acted_at, c.outcome_json,
      c.message_id AS letter, m.thread_id, m.seq AS letter_seq
    FROM mail_commands c JOIN messages m ON m.id = c.message_id WHERE c.seq = $1";
/// Fenced: an engine that is gone carries out nothing.
const MARK_ACTED: &str = "
    UPDATE mail_commands SET acted_at = $2, outcome_json = $3, refusal = $4
    WHERE seq = $1 AND acted_at IS NULL AND EXISTS (SELECT 1 FROM nodes WHERE epoch = $5)";
const OPEN_RUNS_OF_THREAD: &str = "
    SELECT id FROM runs WHERE thread_id = $1 AND state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')
    ORDER BY seq LIMIT $2";
const LATER_HALT_COMMAND: &str = "
    SELECT EXISTS (SELECT 1 FROM mail_commands WHERE persona_id = $1 AND command IN ('pause', 'resume')
      AND acted_at IS NOT NULL AND refusal IS NULL AND sent_at > $2)";
const HALTED_AT: &str = "SELECT halted_at FROM halts WHERE persona_id = $1";

/// A command, and where it was given.
struct Given {
    persona: PersonaId,
    owner: String,
    command: MailCommand,
    argument: String,
    sent_at: Timestamp,
    letter: String,
    letter_seq: i64,
    thread: ThreadId,
}

impl Store {
    /// Carries out a command, unless that was done before; returns its outcome. `not_by_mail` names tools whose questions
    /// no mail decides, as patterns.
    ///
    /// Errors: [`StoreError::Missing`]; [`StoreError::WrongState`] when another engine has taken over.
    pub async fn act_on_command(&self, seq: i64, not_by_mail: &[String]) -> Result<CommandOutcome> {
        let (epoch, clock) = (self.epoch(), self.clock().clone());
        let not_by_mail = not_by_mail.to_vec();
        self.write(Scope::Engine, move |conn| {
            Box::pin(async move { act_once(conn, seq, epoch, &not_by_mail, clock.as_ref()).await })
        })
        .await
    }
}

async fn act_once(
    conn: &mut Connection,
    seq: i64,
    epoch: i64,
    not_by_mail: &[String],
    clock: &dyn Clock,
) -> Result<CommandOutcome> {
    let row = conn.maybe_row(COMMAND, seq).await?;
    let row = row.ok_or_else(|| StoreError::missing("command", seq))?;
    if optional_timestamp(&row, "acted_at")?.is_some() {
        return from_json(row.try_get("outcome_json")?, "outcome of a command");
    }
    let given = Given {
        persona: persona_id(&row)?,
        owner: row.try_get("owner")?,
        command: row.try_get("command")?,
        argument: row.try_get("argument")?,
        sent_at: row.try_get("sent_at")?,
        letter: row.try_get("letter")?,
        letter_seq: row.try_get("letter_seq")?,
        thread: ThreadId::new(row.try_get::<String>("thread_id")?),
    };
    let outcome = match row.try_get("refusal")? {
        Some(why) => CommandOutcome::Refused { why },
        None => act(conn, &given, not_by_mail, clock).await?,
    };
    let refusal = match &outcome {
        CommandOutcome::Refused { why } => Some(why.as_str()),
        _ => None,
    };
    crate::crash::crash_point!("MC1");
    let now = clock.now();
    if conn
        .exec(MARK_ACTED, (seq, now, to_json(&outcome)?, refusal, epoch))
        .await?
        == 0
    {
        return Err(StoreError::WrongState {
            kind: "command",
            id: seq.to_string(),
            state: "no longer ours".to_owned(),
            hint: "another engine carries it out",
        });
    }
    let decision = match refusal {
        Some(why) => format!("command_refused:{why}"),
        None => format!("command:{}", given.command),
    };
    let subject = ("message", given.letter.as_str());
    audit(conn, Some(&given.persona), subject, &decision, now).await?;
    Ok(outcome)
}

async fn act(
    conn: &mut Connection,
    given: &Given,
    not_by_mail: &[String],
    clock: &dyn Clock,
) -> Result<CommandOutcome> {
    match given.command {
        MailCommand::Status | MailCommand::Help | MailCommand::Unknown => Ok(CommandOutcome::Noted),
        MailCommand::Cancel => cancel(conn, given, clock).await,
        MailCommand::Pause => pause(conn, given, clock.now()).await,
        MailCommand::Resume => resume(conn, given, clock.now()).await,
        MailCommand::Reset => {
            resets::reset(conn, (&given.thread, given.letter_seq), clock.now()).await?;
            Ok(CommandOutcome::Reset)
        }
        MailCommand::Approve | MailCommand::Reject => {
            let decision = NumberedDecision {
                persona: &given.persona,
                owner: &given.owner,
                letter: &given.letter,
                is_yes: given.command == MailCommand::Approve,
                argument: &given.argument,
                not_by_mail,
            };
            decide_by_number(conn, &decision, clock).await
        }
    }
}

async fn cancel(conn: &mut Connection, given: &Given, clock: &dyn Clock) -> Result<CommandOutcome> {
    let open: Vec<String> = conn
        .all(OPEN_RUNS_OF_THREAD, (&given.thread, CANCELLED_MAX))
        .await?;
    let (mut ended, mut stopping) = (0, 0);
    for run in open {
        match run_control::cancel(conn, &RunId::new(run), "cancel:command", clock).await? {
            Some(Cancellation::Done) => ended += 1,
            Some(Cancellation::Requested) => stopping += 1,
            None => {}
        }
    }
    Ok(CommandOutcome::Cancelled { ended, stopping })
}

async fn pause(conn: &mut Connection, given: &Given, now: Timestamp) -> Result<CommandOutcome> {
    if is_overtaken(conn, given).await? {
        return Ok(overtaken());
    }
    let persona = given.persona.as_str();
    let halt = conn.exec(HALT, (persona, "/pause by mail", now)).await?;
    let is_new = halt > 0;
    if is_new {
        audit(
            conn,
            Some(&given.persona),
            ("halt", persona),
            "halt:command",
            now,
        )
        .await?;
    }
    Ok(CommandOutcome::Paused { is_new })
}

/// Lifts the halt of the persona. A letter that was sent before that halt does not mean it: it was delayed, or kept back
/// by somebody.
async fn resume(conn: &mut Connection, given: &Given, now: Timestamp) -> Result<CommandOutcome> {
    let persona = given.persona.as_str();
    let halted = conn.maybe_row(HALTED_AT, persona).await?;
    let halted_at = halted
        .as_ref()
        .map(|row| timestamp(row, "halted_at"))
        .transpose()?;
    let is_before = |at: Timestamp| given.sent_at < at.minus(CLOCK_SKEW_MAX);
    if is_overtaken(conn, given).await? || halted_at.is_some_and(is_before) {
        return Ok(overtaken());
    }
    let lifted = conn.exec(LIFT_HALT, persona).await?;
    let was_halted = lifted > 0;
    if was_halted {
        audit(
            conn,
            Some(&given.persona),
            ("halt", persona),
            "resume:command",
            now,
        )
        .await?;
    }
    let left = conn.rows(HALTS, ()).await?;
    Ok(CommandOutcome::Resumed {
        was_halted,
        all_halted: left
            .iter()
            .any(|row| row.get::<&str>("persona_id").is_empty()),
    })
}

fn overtaken() -> CommandOutcome {
    CommandOutcome::Refused {
        why: CommandRefusal::Overtaken,
    }
}

/// Reports whether `/pause` or `/resume` was carried out that was sent later.
async fn is_overtaken(conn: &mut Connection, given: &Given) -> Result<bool> {
    conn.one(LATER_HALT_COMMAND, (&given.persona, given.sent_at))
        .await
}
