//! Letters that a rule stored without a run: which there are, and what the owners are told of them.
//!
//! They are told together, once a day, by a look at what was filed since: a row of `notices` for each letter would let
//! whoever sends spam fill that table.

use super::notices::{NewNotice, quoted, raise};
use super::runs::{persona_id, to_i64};
use super::threads::json_list;
use super::{Result, Store, StoreError};
use crate::clock::Clock;
use crate::domain::{MessageId, NoticeId, NoticeKind, NoticeSubject, PersonaId, Timestamp, Withheld, filed};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};
use std::collections::BTreeMap;
use std::time::Duration;

/// Letters of a persona that a look spells out, the newest; the others are counted.
const SPELLED_OUT: usize = 8;

/// A letter without a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FiledLetter {
    pub id: MessageId,
    pub persona: PersonaId,
    /// From as a person reads it.
    pub sender: String,
    pub subject: String,
    /// The rule that files it.
    pub rule: String,
}

/// The conditions are those of the index `messages_filed`, here and below.
pub(super) const NEWEST_FILED: &str = "
    SELECT id, persona_id, sender, subject, disposition FROM messages
    WHERE disposition >= 'filed:' AND disposition < 'filed:~' AND disposition <> 'filed:import'
    ORDER BY seq DESC LIMIT 1";
pub(super) const TOLD: &str = "SELECT through_seq, told_at FROM filed_told WHERE id = 1";
pub(super) const IS_NEWS: &str = "
    SELECT EXISTS (SELECT 1 FROM messages
      WHERE disposition >= 'filed:' AND disposition < 'filed:~' AND disposition <> 'filed:import' AND seq > $1
        AND disposition IN (SELECT value FROM json_each($2)))";
pub(super) const FILED_SINCE: &str = "
    SELECT persona_id, disposition, count(*) AS letters, max(seq) AS last FROM messages
    WHERE disposition >= 'filed:' AND disposition < 'filed:~' AND disposition <> 'filed:import' AND seq > $1
    GROUP BY persona_id, disposition";
pub(super) const MISSED_LETTERS: &str = "
    SELECT id, persona_id, sender, subject, disposition FROM messages
    WHERE disposition >= 'filed:' AND disposition < 'filed:~' AND disposition <> 'filed:import' AND seq > $1
      AND +persona_id = $2 AND disposition IN (SELECT value FROM json_each($3)) ORDER BY seq DESC LIMIT $4";
pub(super) const MARK_FILED_TOLD: &str = "
    UPDATE filed_told SET through_seq = $2, told_at = $3 WHERE id = 1 AND through_seq = $1";

impl Store {
    /// The filed letter that came last, imported history aside.
    pub async fn newest_filed(&self) -> Result<Option<FiledLetter>> {
        let row = sqlx::query(NEWEST_FILED).fetch_optional(self.readers()).await?;
        row.as_ref().map(filed_letter).transpose()
    }

    /// Notes what was filed and not answered since the last such note, when that is `every` ago or there was none; how
    /// many facts. Letters that nobody may miss are counted, and are no reason.
    pub async fn raise_filed(&self, every: Duration) -> Result<u64> {
        let clock = self.clock().clone();
        let now = clock.now();
        let told = sqlx::query(TOLD).fetch_one(self.readers()).await?;
        let told_at = told.get::<Option<String>, _>("told_at").map(|at| super::deliveries::instant(&at));
        let told_at = told_at.transpose()?;
        if told_at.is_some_and(|at| at > now.minus(every)) {
            return Ok(0);
        }
        let through: i64 = told.get("through_seq");
        let missed: Vec<String> = filed::MISSED.iter().map(|rule| format!("filed:{rule}")).collect();
        let missed = json_list(missed.iter().map(String::as_str));
        let news = sqlx::query_scalar(IS_NEWS).bind(through).bind(&missed);
        if !news.fetch_one(self.readers()).await? {
            return Ok(0);
        }
        self.write(move |conn| {
            Box::pin(async move {
                let heaps = heaps(conn, through).await?;
                let last = heaps.values().map(|heap| heap.last).max().unwrap_or(through);
                let mark = sqlx::query(MARK_FILED_TOLD).bind(through).bind(last).bind(now.to_string());
                if mark.execute(&mut *conn).await?.rows_affected() == 0 {
                    return Ok(0); // somebody else told it meanwhile
                }
                let mut raised = 0;
                for (persona, heap) in &heaps {
                    let letters = sqlx::query(MISSED_LETTERS).bind(through).bind(persona.as_str());
                    let letters =
                        letters.bind(&missed).bind(to_i64(SPELLED_OUT)).fetch_all(&mut *conn).await?;
                    let letters = letters.iter().map(filed_letter).collect::<Result<Vec<_>>>()?;
                    for new in facts(persona, heap, &letters, told_at, clock.as_ref()) {
                        raised += u64::from(raise(conn, &new, now).await?);
                    }
                }
                Ok(raised)
            })
        })
        .await
    }
}

/// What was filed for one persona.
#[derive(Default)]
struct Heap {
    /// Letters by rule.
    rules: BTreeMap<String, i64>,
    last: i64,
}

async fn heaps(conn: &mut SqliteConnection, through: i64) -> Result<BTreeMap<PersonaId, Heap>> {
    let rows = sqlx::query(FILED_SINCE).bind(through).fetch_all(conn).await?;
    let mut heaps: BTreeMap<PersonaId, Heap> = BTreeMap::new();
    for row in &rows {
        let heap = heaps.entry(persona_id(row)?).or_default();
        heap.rules.insert(rule_in(row)?, row.get("letters"));
        heap.last = heap.last.max(row.get("last"));
    }
    Ok(heaps)
}

/// The newest letters one by one, oldest first, and above them how many there are when there are more.
fn facts(
    persona: &PersonaId,
    heap: &Heap,
    letters: &[FiledLetter],
    told_at: Option<Timestamp>,
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
               whose letters are answered without proof, from the next start on; `attache threads list` shows under HELD \
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
            format!("{from} about {about} is filed as `{rule}`: {why}; its id is {}", letter.id),
        )
    };
    let mut facts: Vec<NewNotice> = letters.iter().rev().map(one).collect();
    let all: i64 = heap.rules.values().sum();
    if let Some(newest) =
        letters.first().filter(|_| usize::try_from(all).is_ok_and(|all| all > letters.len()))
    {
        let rules: Vec<String> =
            heap.rules.iter().map(|(rule, letters)| format!("{letters} `{rule}`")).collect();
        let since = told_at.map(|at| format!(" since {at}")).unwrap_or_default();
        facts.push(notice(
            newest,
            "all",
            format!("{all} letters to {persona} were filed{since}: {}", rules.join(", ")),
        ));
    }
    facts
}

/// Who wrote, without the name that they give themselves.
fn from(letter: &FiledLetter) -> String {
    quoted(
        &filed::address_in(&letter.sender)
            .map_or_else(|| letter.sender.clone(), |address| address.to_string()),
    )
}

/// A letter was filed, or an answer withheld, because a correspondent or a thread has had as many answers as they may
/// have: told once a day for each.
pub(super) async fn limit_reached(
    conn: &mut SqliteConnection,
    persona: &PersonaId,
    (who, rule): (&str, Withheld),
    message: &MessageId,
    now: Timestamp,
) -> Result<()> {
    let day = &now.to_string()[.."2026-01-01".len()];
    let limits = match rule {
        Withheld::RateLimited => "`replies_per_hour_max` or `replies_per_day_max`",
        _ => "`alternations_max`",
    };
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
            "nothing has to be done if this is a machine; else raise {limits} under `limits` in `configs/gateway.json`, start the \
             engine again, and `attache runs answer ID` has a filed letter answered"
        ),
    };
    raise(conn, &new, now).await?;
    Ok(())
}

fn filed_letter(row: &SqliteRow) -> Result<FiledLetter> {
    Ok(FiledLetter {
        id: MessageId::new(row.get::<String, _>("id")),
        persona: persona_id(row)?,
        sender: row.get("sender"),
        subject: row.get("subject"),
        rule: rule_in(row)?,
    })
}

fn rule_in(row: &SqliteRow) -> Result<String> {
    let rule = filed::rule_of(row.get("disposition")).map(str::to_owned);
    rule.ok_or(StoreError::Unreadable { what: "disposition of a letter" })
}
