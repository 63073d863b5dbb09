//! Letters that a rule stored without a run: their listing, and the notice of them to the owners.
//!
//! One notice a day covers the letters filed since the previous one: a row of `notices` for each
//! letter would let a spammer fill that table.

use crate::clock::Clock;
use crate::domain::mail::filed;
use crate::domain::{
    MessageId, NoticeId, NoticeKind, NoticeSubject, PersonaId, Timestamp, Withheld,
};
use crate::store::db::{Connection, Row, Scope};
use crate::store::notices::emit::{NewNotice, emit};
use crate::store::notices::wording::quoted;
use crate::store::sql::{json_list, persona_id};
use crate::store::{Result, Store, StoreError};
use std::collections::BTreeMap;
use std::time::Duration;

/// Newest letters of a persona that a notice lists; the others are counted.
const LISTED_MAX: usize = 8;

/// A letter without a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FiledLetter {
    pub id: MessageId,
    pub persona: PersonaId,
    /// The From field in its display form.
    pub sender: String,
    pub subject: String,
    /// The rule by which it is filed.
    pub rule: String,
}

/// The first conditions are those of the index `messages_filed`, here and below.
const NEWEST_FILED: &str = "
    SELECT id, persona_id, sender, subject, disposition FROM messages
    WHERE disposition >= 'filed:' AND disposition < 'filed:~' AND disposition <> 'filed:import'
      AND disposition NOT IN (SELECT value FROM jsonb_each($1)) ORDER BY seq DESC LIMIT 1";
const LAST_SUMMARY: &str = "SELECT filed_through, filed_told_at FROM engine WHERE id = 1";
const HAS_NEW: &str = "
    SELECT EXISTS (SELECT 1 FROM messages
      WHERE disposition >= 'filed:' AND disposition < 'filed:~' AND disposition <> 'filed:import' AND seq > $1
        AND disposition IN (SELECT value FROM jsonb_each($2)))";
const FILED_SINCE: &str = "
    SELECT persona_id, disposition, count(*) AS letters, max(seq) AS last FROM messages
    WHERE disposition >= 'filed:' AND disposition < 'filed:~' AND disposition <> 'filed:import' AND seq > $1
      AND disposition <> 'filed:command' GROUP BY persona_id, disposition";
const MISSED_LETTERS: &str = "
    SELECT id, persona_id, sender, subject, disposition FROM messages
    WHERE disposition >= 'filed:' AND disposition < 'filed:~' AND disposition <> 'filed:import' AND seq > $1
      AND +persona_id = $2 AND disposition IN (SELECT value FROM jsonb_each($3)) ORDER BY seq DESC LIMIT $4";
const MARK_SUMMARY: &str = "
    UPDATE engine SET filed_through = $2, filed_told_at = $3 WHERE id = 1 AND filed_through = $1";

impl Store {
    /// Returns the newest filed letter, without imported history and commands.
    pub async fn newest_filed(&self) -> Result<Option<FiledLetter>> {
        self.newest_filed_but(&[filed::COMMAND_RULE]).await
    }

    /// Returns the newest filed letter that a persona may be told to answer: no command or decision of an owner, no
    /// bounce.
    pub async fn newest_unanswered(&self) -> Result<Option<FiledLetter>> {
        let others: Vec<&str> = filed::not_to_answer().collect();
        self.newest_filed_but(&others).await
    }

    async fn newest_filed_but(&self, rules: &[&str]) -> Result<Option<FiledLetter>> {
        let rules: Vec<String> = rules.iter().map(|rule| format!("filed:{rule}")).collect();
        self.maybe(NEWEST_FILED, json_list(rules.iter())).await
    }

    /// Emits an event for the letters that were filed and not answered since the last such event,
    /// when that is `every` ago or there was none; returns the number of events. Letters of rules
    /// outside [`filed::MISSED`] are counted, and are no reason for an event.
    pub async fn emit_filed(&self, every: Duration) -> Result<u64> {
        let clock = self.clock().clone();
        let now = clock.now();
        let last = self.row(LAST_SUMMARY, ()).await?;
        let sent_at = last
            .get::<Option<String>>("filed_told_at")
            .map(|at| crate::store::sql::instant(&at));
        let sent_at = sent_at.transpose()?;
        if sent_at.is_some_and(|at| at > now.minus(every)) {
            return Ok(0);
        }
        let through: i64 = last.get("filed_through");
        let missed: Vec<String> = filed::MISSED
            .iter()
            .map(|rule| format!("filed:{rule}"))
            .collect();
        let missed = json_list(missed.iter());
        if !self.one(HAS_NEW, (through, &missed)).await? {
            return Ok(0);
        }
        transact!(self, Scope::Engine, |conn| {
            let heaps = heaps(conn, through).await?;
            let last = heaps
                .values()
                .map(|heap| heap.last)
                .max()
                .unwrap_or(through);
            if conn.exec(MARK_SUMMARY, (through, last, now)).await? == 0 {
                return Ok(0); // another process emitted it meanwhile
            }
            let mut emitted = 0;
            for (persona, heap) in &heaps {
                let letters = conn
                    .rows(MISSED_LETTERS, (through, &persona, &missed, LISTED_MAX))
                    .await?;
                let letters = letters.iter().map(Row::to).collect::<Result<Vec<_>>>()?;
                for new in events(persona, heap, &letters, sent_at, clock.as_ref()) {
                    emitted += u64::from(emit(conn, &new, now).await?);
                }
            }
            Ok(emitted)
        })
        .await
    }
}

/// Filed letters of one persona.
#[derive(Default)]
struct Heap {
    /// Number of letters by rule.
    rules: BTreeMap<String, i64>,
    last: i64,
}

async fn heaps(conn: &mut Connection, through: i64) -> Result<BTreeMap<PersonaId, Heap>> {
    let rows = conn.rows(FILED_SINCE, through).await?;
    let mut heaps: BTreeMap<PersonaId, Heap> = BTreeMap::new();
    for row in &rows {
        let heap = heaps.entry(persona_id(row)?).or_default();
        heap.rules.insert(rule_in(row)?, row.get("letters"));
        heap.last = heap.last.max(row.get("last"));
    }
    Ok(heaps)
}

/// Returns an event for each of the newest letters, oldest first, before them an event with the
/// number when there are more.
fn events(
    persona: &PersonaId,
    heap: &Heap,
    letters: &[FiledLetter],
    sent_at: Option<Timestamp>,
    clock: &dyn Clock,
) -> Vec<NewNotice> {
    let notice = |letter: &FiledLetter, occurrence: &str, summary: String| {
        NewNotice {
        id: NoticeId::new(clock.new_id()),
        persona: Some(persona.clone()),
        kind: NoticeKind::LetterFiled,
        detail: String::new(),
        subject: NoticeSubject::Letter,
        subject_id: letter.id.to_string(),
        occurrence: occurrence.to_owned(),
        summary,
        hint: "`attache runs answer ID` has a letter answered; `allow` under `access` in `configs/security.json` names \
               whose letters are answered without proof, within seconds; `attache threads list` shows under HELD \
               what is filed"
            .to_owned(),
    }
    };
    let one = |letter: &FiledLetter| {
        let (from, rule) = (from(letter), &letter.rule);
        let (about, why) = (quoted(&letter.subject), filed::why(rule));
        notice(
            letter,
            "",
            format!(
                "{from} about {about} is filed as `{rule}`: {why}; its id is {}",
                letter.id
            ),
        )
    };
    let mut events: Vec<NewNotice> = letters.iter().rev().map(one).collect();
    let all: i64 = heap.rules.values().sum();
    if let Some(newest) = letters
        .first()
        .filter(|_| usize::try_from(all).is_ok_and(|all| all > letters.len()))
    {
        let rules: Vec<String> = heap
            .rules
            .iter()
            .map(|(rule, letters)| format!("{letters} `{rule}`"))
            .collect();
        let since = sent_at.map(|at| format!(" since {at}")).unwrap_or_default();
        events.push(notice(
            newest,
            "all",
            format!(
                "{all} letters to {persona} were filed{since}: {}",
                rules.join(", ")
            ),
        ));
    }
    events
}

/// Returns the sender's address, without its display name.
fn from(letter: &FiledLetter) -> String {
    quoted(
        &filed::address_in(&letter.sender)
            .map_or_else(|| letter.sender.clone(), |address| address.to_string()),
    )
}

/// Emits that a letter was filed, or an answer withheld, because a correspondent or a thread has
/// reached its limit of answers: once a day for each.
pub async fn limit_reached(
    conn: &mut Connection,
    persona: &PersonaId,
    (who, rule): (&str, Withheld),
    message: &MessageId,
    now: Timestamp,
) -> Result<()> {
    let day = &now.to_string()[.."2026-01-01".len()];
    let limits = match rule {
        Withheld::RateLimited => "`replies_per_hour_max` or `replies_per_day_max`",
        Withheld::DomainLimited => "`domain_runs_per_day_max`",
        _ => "`alternations_max`",
    };
    if rule == Withheld::DayMails {
        return day_reached(conn, persona, message, now).await;
    }
    let new = NewNotice {
        // No two notices are about one message.
        id: NoticeId::new(message.to_string()),
        persona: Some(persona.clone()),
        kind: NoticeKind::LimitReached,
        detail: rule.as_str().to_owned(),
        subject: NoticeSubject::Correspondent,
        subject_id: who.to_owned(),
        occurrence: format!("{persona}:{rule}:{day}"),
        summary: format!(
            "{} has had as many answers of {persona} as {limits} allows; what comes now is filed as `{rule}` and not answered, \
             message {message} is the first",
            quoted(who)
        ),
        hint: format!(
            "nothing has to be done if this is a machine; else raise {limits} under `limits` in `configs/gateway.json`, and \
             `attache runs answer ID` has a filed letter answered"
        ),
    };
    emit(conn, &new, now).await?;
    Ok(())
}

/// Emits that a persona has sent as many mails as it may in a day, once that day.
async fn day_reached(
    conn: &mut Connection,
    persona: &PersonaId,
    message: &MessageId,
    now: Timestamp,
) -> Result<()> {
    let rule = Withheld::DayMails;
    let new = NewNotice {
        id: NoticeId::new(message.to_string()),
        persona: Some(persona.clone()),
        kind: NoticeKind::LimitReached,
        detail: rule.as_str().to_owned(),
        subject: NoticeSubject::Persona,
        subject_id: persona.to_string(),
        occurrence: format!("{rule}:{}", &now.to_string()[.."2026-01-01".len()]),
        summary: format!(
            "{persona} has sent as many mails today as `persona_day_mails_max` allows, or three quarters of them, which is all for \
             senders below `contact`; letters that come until midnight (UTC) are filed as `{rule}` and not answered, message {message} \
             is the first"
        ),
        hint: "if so much mail is meant, raise `budget.persona_day_mails_max` in `configs/inference.json`; `attache runs answer ID` \
               has a filed letter answered"
            .to_owned(),
    };
    emit(conn, &new, now).await?;
    Ok(())
}

from_row!(|row| FiledLetter {
    id,
    persona: "persona_id",
    sender,
    subject,
    rule: { rule_in(row)? }
});

fn rule_in(row: &Row) -> Result<String> {
    let rule = filed::rule_of(row.get("disposition")).map(str::to_owned);
    rule.ok_or(StoreError::Unreadable {
        what: "disposition of a letter",
    })
}
