//! Events that the store itself detects, with their wording: each is emitted in the transaction
//! that makes it true.
//!
//! The only text of a letter in them is its subject, quoted and bounded, and there is no text of a
//! provider: it may repeat its prompt. A notice that fails emits no event; it is logged and nothing
//! else.

use crate::clock::Clock;
use crate::domain::{
    ErrorClass, MessageId, NoticeId, NoticeKind, NoticeSubject, PersonaId, RunId, Timestamp,
    Trigger,
};
use crate::store::db::{Connection, Scope, Sql};
use crate::store::journal::step::{Executor, Step};
use crate::store::notices::emit::{NewNotice, emit};
use crate::store::notices::wording::{first_few, quoted};
use crate::store::sql::persona_id;
use crate::store::{Result, Store, StoreError};
use serde::Deserialize;
use std::time::Duration;

/// Most waiting mails that are noted in one transaction; the others wait for the next tick.
const DELAYS_MAX: i64 = 500;

/// Only for these classes is the message the engine's own text.
const FAILED_RUN: &str = "
    SELECT r.persona_id, r.trigger, r.error_class, r.attempt, r.provider, r.model, m.subject, m.sender,
      CASE WHEN r.error_class IN ('config', 'crashed') THEN r.error_message END AS reason
    FROM runs r JOIN messages m ON m.id = r.trigger_message_id WHERE r.id = $1 AND r.state = 'failed'
      AND r.trigger <> 'summary'"; // its letter is answered, and the next context says that letters are left out
const DOUBTFUL_RUN: &str = "
    SELECT r.persona_id, m.subject FROM runs r JOIN messages m ON m.id = r.trigger_message_id WHERE r.id = $1";
const TROUBLED_DELIVERY: Sql = Sql::pair(
    "
    SELECT d.persona_id, coalesce(d.finished_at, '') AS finished_at, d.possible_duplicate, m.subject,
      (SELECT json_group_array(json_object('recipient', recipient, 'code', last_code, 'reply', last_reply))
       FROM (SELECT * FROM delivery_recipients WHERE delivery_id = d.id AND state IN ('queued', 'deferred', 'failed')
               AND bounced_at IS NULL -- told when it came back
             ORDER BY recipient) AS recipients) AS troubled
    FROM deliveries d JOIN messages m ON m.id = d.message_id WHERE d.id = $1 AND d.kind = 'mail'",
    "
    SELECT d.persona_id, coalesce(d.finished_at, '') AS finished_at, d.possible_duplicate, m.subject,
      (SELECT json_group_array(json_build_object('recipient', recipient, 'code', last_code, 'reply', last_reply))
       FROM (SELECT * FROM delivery_recipients WHERE delivery_id = d.id AND state IN ('queued', 'deferred', 'failed')
               AND bounced_at IS NULL -- told when it came back
             ORDER BY recipient) AS recipients) AS troubled
    FROM deliveries d JOIN messages m ON m.id = d.message_id WHERE d.id = $1 AND d.kind = 'mail'",
);
/// The first condition is the one of the index `deliveries_open`.
const DELAYED_DELIVERIES: &str = "
    SELECT d.id FROM deliveries d
    WHERE d.state IN ('queued', 'sending', 'committing') AND d.created_at <= $1 AND d.kind = 'mail'
      AND NOT EXISTS (SELECT 1 FROM notices n
        WHERE n.kind = 'delivery_delayed' AND n.subject_id = d.id AND n.occurrence = '')
    ORDER BY +d.seq LIMIT $2";

/// Emits that a run has just failed for good.
pub async fn run_failed(conn: &mut Connection, run: &str, clock: &dyn Clock) -> Result<()> {
    let found = conn.maybe_row(FAILED_RUN, run).await?;
    let Some(row) = found else { return Ok(()) };
    let class = row
        .get::<Option<&str>>("error_class")
        .and_then(ErrorClass::parse);
    let (persona, word) = (
        persona_id(&row)?,
        class.map_or("failed", ErrorClass::as_str),
    );
    let asked = match (
        row.get::<Option<String>>("provider"),
        row.get::<Option<String>>("model"),
    ) {
        (Some(provider), Some(model)) => format!("{} on {}, ", quoted(&model), quoted(&provider)),
        _ => String::new(),
    };
    let subject = quoted(row.get("subject"));
    let missing = match Trigger::parse(row.get("trigger")) {
        Some(Trigger::Email) => {
            format!("no answer to {}", quoted(row.get("sender")))
        }
        _ => format!("{persona} did not finish"),
    };
    let reason = row
        .get::<Option<String>>("reason")
        .map(|reason| format!(": {}", quoted(&reason)));
    let new = NewNotice {
        id: NoticeId::new(clock.new_id()),
        kind: NoticeKind::RunFailed,
        detail: word.to_owned(),
        subject: NoticeSubject::Run,
        subject_id: run.to_owned(),
        occurrence: row.get::<i64>("attempt").to_string(),
        summary: format!(
            "{missing}: {} (about {subject}, {asked}`{word}`){}",
            class.map_or("it failed", ErrorClass::words),
            reason.unwrap_or_default()
        ),
        hint: after_run(class, &persona, run),
        persona: Some(persona),
    };
    emit(conn, &new, clock.now()).await?;
    Ok(())
}

/// Emits that a call of ours was interrupted and may not be run again, if the step that was just
/// recorded says so.
pub async fn step_recorded(
    conn: &mut Connection,
    run: &RunId,
    step: &Step,
    clock: &dyn Clock,
) -> Result<()> {
    if step.executor != Executor::Engine || !step.is_in_doubt() {
        return Ok(());
    }
    let row = conn.row(DOUBTFUL_RUN, run).await?;
    let persona = persona_id(&row)?;
    let new = NewNotice {
        id: NoticeId::new(clock.new_id()),
        kind: NoticeKind::OutcomeUnknown,
        detail: step.tool_name.clone(),
        subject: NoticeSubject::Run,
        subject_id: run.to_string(),
        occurrence: step.tool_call_id.clone(),
        summary: format!(
            "the work of {persona} on {} was cut off while `{}` was running, which may or may not have taken effect; it is \
             not run again",
            quoted(row.get("subject")),
            step.tool_name
        ),
        hint: format!("`attache runs show {run}` has its arguments; see whether it has happened"),
        persona: Some(persona),
    };
    emit(conn, &new, clock.now()).await?;
    Ok(())
}

/// Emits that an answer goes to the sender of its letter, although its `Reply-To` names somebody else: once for each such pair.
pub async fn reply_to_unused(
    conn: &mut Connection,
    persona: &PersonaId,
    mail: &MessageId,
    to: &str,
    reply_to: &str,
    now: Timestamp,
) -> Result<()> {
    let new = NewNotice {
        // No two notices are about one mail that leaves.
        id: NoticeId::new(mail.to_string()),
        persona: Some(persona.clone()),
        kind: NoticeKind::ReplyToUnused,
        detail: String::new(),
        subject: NoticeSubject::Correspondent,
        subject_id: to.to_owned(),
        occurrence: format!("{persona}:{reply_to}"),
        summary: format!(
            "the answer {mail} of {persona} went to {}, and the Reply-To of its letter names {}, who has no answer",
            quoted(to),
            quoted(reply_to)
        ),
        hint: "write to them yourself, if they wait for an answer; if the sender is a form, add it to `reply_to_of` in \
               `configs/security.json`: then answers go to the Reply-To, which the sender must sign"
            .to_owned(),
    };
    emit(conn, &new, now).await?;
    Ok(())
}

/// Returns the owner's remedy for runs that failed with this class.
fn after_run(class: Option<ErrorClass>, persona: &PersonaId, run: &str) -> String {
    if class == Some(ErrorClass::AnswerTooLarge) {
        return format!(
            "`attache runs show {run}` has the answer, which is paid; send what is wanted of it yourself"
        );
    }
    let first = match class {
        Some(ErrorClass::Auth | ErrorClass::Permission) => {
            "give the provider a key that it accepts in `.secrets`, and it is used within seconds (one in the environment after a restart)"
        }
        Some(ErrorClass::Billing) => "see to the account at the provider",
        Some(ErrorClass::ModelNotFound) => {
            "name a model that the provider has, in `configs/inference.json` or in the persona's `persona.json`"
        }
        Some(ErrorClass::ContextOverflow | ErrorClass::RequestTooLarge) => {
            "lower `context_tokens_max` in `configs/inference.json`, or choose a model that takes more"
        }
        Some(ErrorClass::OutputLimit) => {
            "raise `max_output_tokens` in `configs/inference.json`, or let the model think less"
        }
        Some(ErrorClass::BadRequest | ErrorClass::Unsupported) => &format!(
            "see what the provider refused with `attache runs show {run}`; for a model without tools write `\"tools\": []` in \
                 `personas/{persona}/persona.json`"
        ),
        Some(ErrorClass::NoAnswer) => {
            "answer the message yourself, or choose a model that does, in `configs/inference.json`"
        }
        Some(ErrorClass::Config) => "put right what `attache config check` names",
        Some(ErrorClass::OutboundNotConfigured) => "configure `outbound` in `configs/gateway.json`",
        Some(ErrorClass::ContentFilter) => "answer the letter yourself, if it wants an answer",
        _ => &format!("see what happened with `attache runs show {run}`"),
    };
    let class = class.map_or(String::new(), |class| format!(" --class {class}"));
    format!(
        "{first}; then queue what failed again: `attache runs retry --failed{class} --persona {persona} --yes`"
    )
}

/// Emits that a delivery has just ended without reaching all recipients.
pub async fn delivery_failed(
    conn: &mut Connection,
    delivery: &str,
    clock: &dyn Clock,
) -> Result<()> {
    let Some(failure) = DeliveryProblem::read(conn, delivery).await? else {
        return Ok(());
    };
    let end = match failure.is_doubtful {
        true => "ended without a yes: a copy may have arrived, and no more is sent by itself; open",
        false => "was given up",
    };
    let new = NewNotice {
        occurrence: failure.finished_at.clone(),
        summary: format!(
            "the mail {} of {} {end} for {}",
            failure.subject, failure.persona, failure.recipients
        ),
        hint: format!(
            "`attache outbox show {delivery}` has what the servers said, `attache outbox retry {delivery}` tries once more"
        ),
        ..failure.notice(NoticeKind::DeliveryFailed, delivery, clock)
    };
    emit(conn, &new, clock.now()).await?;
    Ok(())
}

/// Emits that a delivery has just been held, because its server may have it and a second copy is
/// not wanted.
pub async fn delivery_held(conn: &mut Connection, delivery: &str, clock: &dyn Clock) -> Result<()> {
    let Some(failure) = DeliveryProblem::read(conn, delivery).await? else {
        return Ok(());
    };
    let new = NewNotice {
        summary: format!(
            "the mail {} of {} is on hold: a copy may have arrived, the server got it and did not say so; open for {}",
            failure.subject, failure.persona, failure.recipients
        ),
        hint: format!(
            "ask a recipient or the server's log; `attache outbox retry {delivery}` sends it again, \
             `attache outbox cancel {delivery}` closes it; `outbound.on_unknown` decides for others"
        ),
        // Each hold is a new occurrence.
        occurrence: clock.now().to_string(),
        ..failure.notice(NoticeKind::DeliveryHeld, delivery, clock)
    };
    emit(conn, &new, clock.now()).await?;
    Ok(())
}

async fn delivery_delayed(
    conn: &mut Connection,
    delivery: &str,
    clock: &dyn Clock,
) -> Result<bool> {
    let Some(failure) = DeliveryProblem::read(conn, delivery).await? else {
        return Ok(false);
    };
    let new = NewNotice {
        summary: format!(
            "the mail {} of {} still waits to be sent to {}",
            failure.subject, failure.persona, failure.recipients
        ),
        hint: format!(
            "nothing has to be done, it is tried again; `attache outbox show {delivery}` says why it waits, \
             `attache outbox retry {delivery}` tries now, `attache outbox cancel {delivery}` gives it up"
        ),
        ..failure.notice(NoticeKind::DeliveryDelayed, delivery, clock)
    };
    emit(conn, &new, clock.now()).await
}

/// Emits that a responsibility's file cannot be used in this revision.
pub async fn responsibility_broken(
    conn: &mut Connection,
    of: (&PersonaId, &str, i64),
    error: &str,
    clock: &dyn Clock,
) -> Result<()> {
    let (persona, responsibility, revision) = of;
    let new = NewNotice {
        id: NoticeId::new(clock.new_id()),
        persona: Some(persona.clone()),
        kind: NoticeKind::ResponsibilityBroken,
        detail: String::new(),
        subject: NoticeSubject::Responsibility,
        subject_id: responsibility.to_owned(),
        occurrence: revision.to_string(),
        summary: format!("a responsibility of {persona} does not run any more: {}", quoted(error)),
        hint: "correct the file, it is read again by itself; `attache schedule list` shows what is in force"
            .to_owned(),
    };
    emit(conn, &new, clock.now()).await?;
    Ok(())
}

/// Emits that a file was read that a persona proposed and that is not enabled: once for the run
/// that proposed it.
pub async fn responsibility_proposed(
    conn: &mut Connection,
    of: (&PersonaId, &str, &str),
    name: &str,
    run: &RunId,
    clock: &dyn Clock,
) -> Result<()> {
    let (persona, responsibility, file) = of;
    let new = NewNotice {
        id: NoticeId::new(clock.new_id()),
        persona: Some(persona.clone()),
        kind: NoticeKind::ResponsibilityProposed,
        detail: String::new(),
        subject: NoticeSubject::Responsibility,
        subject_id: responsibility.to_owned(),
        occurrence: run.to_string(),
        summary: format!(
            "{persona} proposes {} in `personas/{persona}/{file}`; it does not run (`attache runs show {run}` shows why it was \
             proposed)",
            quoted(name)
        ),
        hint: "read the file, then set `enabled: true` in it, or remove it".to_owned(),
    };
    emit(conn, &new, clock.now()).await?;
    Ok(())
}

impl Store {
    /// Emits an event for every mail that has been waiting for at least `after` and has none yet;
    /// returns their number. Called by the notices' worker, so that it happens also while no
    /// attempt is made.
    pub async fn emit_delays(&self, after: Duration) -> Result<u64> {
        let clock = self.clock().clone();
        let queued_before = clock.now().minus(after).to_string();
        let late: Vec<String> = self
            .all(DELAYED_DELIVERIES, (queued_before, DELAYS_MAX))
            .await?;
        if late.is_empty() {
            return Ok(0);
        }
        transact!(self, Scope::Engine, |conn| {
            let mut emitted = 0;
            for delivery in &late {
                emitted += u64::from(delivery_delayed(conn, delivery, clock.as_ref()).await?);
            }
            Ok(emitted)
        })
        .await
    }
}

/// Facts of a delivery that does not arrive.
struct DeliveryProblem {
    persona: PersonaId,
    /// Subject, quoted.
    subject: String,
    finished_at: String,
    /// `true`: the server may have it although it never said so.
    is_doubtful: bool,
    recipients: String,
}

#[derive(Deserialize)]
struct Troubled {
    recipient: String,
    code: Option<u16>,
    reply: Option<String>,
}

impl DeliveryProblem {
    /// Reads the facts of a delivery. `None` for notices, and when all remaining recipients
    /// bounced: the owner was notified of them then.
    async fn read(conn: &mut Connection, delivery: &str) -> Result<Option<Self>> {
        let found = conn.maybe_row(TROUBLED_DELIVERY, delivery).await?;
        let Some(row) = found else { return Ok(None) };
        let troubled: Vec<Troubled> =
            serde_json::from_str(row.get("troubled")).map_err(|_| StoreError::Unreadable {
                what: "recipients of a delivery",
            })?;
        if troubled.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self {
            persona: persona_id(&row)?,
            subject: quoted(row.get("subject")),
            finished_at: row.get("finished_at"),
            is_doubtful: row.get("possible_duplicate"),
            recipients: named(&troubled),
        }))
    }

    fn notice(&self, kind: NoticeKind, delivery: &str, clock: &dyn Clock) -> NewNotice {
        NewNotice {
            id: NoticeId::new(clock.new_id()),
            persona: Some(self.persona.clone()),
            kind,
            detail: String::new(),
            subject: NoticeSubject::Delivery,
            subject_id: delivery.to_owned(),
            occurrence: String::new(),
            summary: String::new(),
            hint: String::new(),
        }
    }
}

fn named(troubled: &[Troubled]) -> String {
    first_few(troubled, |one| {
        let code = one.code.map(|code| format!("{code} ")).unwrap_or_default();
        let reply = one.reply.as_deref().unwrap_or("not tried yet");
        format!(
            "{} ({})",
            quoted(&one.recipient),
            quoted(&format!("{code}{reply}"))
        )
    })
}
