//! Digests of entries of memory that wait: mailed to the owners like questions, and answered to an address of their own.

use super::letter::{SUBJECT_CHARS_MAX, UNSIGNED_CONTENT, fence_for};
use super::station::{ExplainedAnswer, OwnerQuestions};
use crate::config::Persona;
use crate::domain::MemoryProposal;
use crate::store::{DigestEntry, DigestExplanation, DueDigest, MemoryEntry, Result, StoreError};
use crate::text::{one_line, shortened, visible};
use chrono_tz::Tz;

/// Most characters of a quote that is shown.
const QUOTE_CHARS_MAX: usize = 240;

impl OwnerQuestions {
    /// Queues the digests that are due, and explanations of answers to them; returns the number of mails.
    pub(super) async fn work_on_digests(&self) -> Result<usize> {
        let mut queued = 0;
        let gathers = self.config.gateway.notices.interval;
        for digest in self.store.due_digests(gathers).await? {
            queued += self.send_digest(&digest).await?;
        }
        for pending in self.store.digest_explanations().await? {
            let answer = ExplainedAnswer {
                persona: &pending.persona,
                owner: &pending.owner,
                message: &pending.message,
                subject: &pending.subject,
                rfc_message_id: &pending.rfc_message_id,
                references: &pending.references,
            };
            let body = (!pending.is_enough).then(|| why(&pending));
            queued += self.send_explanation(answer, body).await?;
        }
        Ok(queued)
    }

    async fn send_digest(&self, digest: &DueDigest) -> Result<usize> {
        let Some(persona) = self.config.personas.get(&digest.persona) else {
            return Ok(0);
        };
        let mut mails = Vec::new();
        for owner in &self.owners {
            let text = (
                subject(&persona.name, digest.entries.len()),
                body(digest, persona, self.config.gateway.page("/memory")),
            );
            let owner = (owner, self.new_token());
            let instead = "entries of its memory are decided by `attache memory` alone";
            mails.extend(self.question_mail(persona, owner, text, instead));
        }
        let count = mails.len();
        match self.store.open_digest(digest, mails).await {
            Ok(()) => {
                tracing::info!(persona = %digest.persona, entries = digest.entries.len(), mails = count, "owners are shown what waits to be remembered");
                Ok(count)
            }
            Err(StoreError::WrongState { .. }) => Ok(0),
            Err(error) => Err(error),
        }
    }
}

fn subject(persona: &str, count: usize) -> String {
    let what = match count {
        1 => "1 entry of memory waits".to_owned(),
        count => format!("{count} entries of memory wait"),
    };
    shortened(&one_line(&format!("{persona}: {what}")), SUBJECT_CHARS_MAX)
}

/// Returns the text of a digest, in the dialect of letters. What models and letters wrote is in a fence that it cannot close.
fn body(digest: &DueDigest, persona: &Persona, page: Option<String>) -> String {
    let numbered = (1..).zip(&digest.entries);
    let shown: Vec<String> = numbered
        .map(|(place, shown)| entry(place, shown, persona.timezone))
        .collect();
    let shown = shown.join("\n\n");
    let (fence, name, id) = (fence_for(&shown), &persona.name, &digest.persona);
    let page = page.map_or(String::new(), |page| {
        format!("Read or decide them on their page: {page}\n\n")
    });
    format!(
        "**{name} would remember this, or change what it remembers.** It uses nothing of it before you say so.\n\n\
         Reply with the numbers that you mean, such as `yes 1 3` or `no 2`, in the first lines.\n\n\
         {fence}letter\n{shown}\n{fence}\n\n\
         **How to answer.**\n\n\
         - `yes 1 3` has them used\n\
         - `no 2`, or `no 2, because …`, does not, and they are not written again\n\
         - `edit 4: …` has the fourth used in your words\n\
         - `yes all` and `no all` mean all that still wait\n\n\
         {page}What you do not name waits on. On the machine: `attache memory list --status proposed --persona {id}`. Only you can answer \
         this mail; a reply by anybody else decides nothing.\n"
    )
}

fn entry(place: u32, shown: &DigestEntry, zone: Tz) -> String {
    let entry = &shown.entry;
    let day = |entry: &MemoryEntry| {
        let at = entry.said_at.to_utc().with_timezone(&zone);
        at.format("%-d %b %Y").to_string()
    };
    let about = match entry.scope.columns() {
        ("persona", _) => "for everybody".to_owned(),
        ("thread", _) => "about a thread".to_owned(),
        (_, address) => format!("about {}", visible(address)),
    };
    let says = format!("\"{}\"", visible(&entry.text));
    let what = match entry.proposes {
        None => format!(
            "remember ({}): {says}\n   said by {} on {}, trust {}",
            entry.kind,
            visible(&entry.said_by),
            day(entry),
            entry.trust.as_str()
        ),
        Some(MemoryProposal::Merge) => format!("put in one: {says}"),
        Some(MemoryProposal::Correct) => format!("correct to: {says}"),
        Some(MemoryProposal::Expire) => format!("use no longer, because {says}"),
    };
    let mut lines = vec![format!("{place}. {about}, {what}")];
    for old in &shown.replaces {
        let text = visible(&old.text);
        lines.push(format!(
            "   now: \"{text}\" ({}, {})",
            visible(&old.said_by),
            day(old)
        ));
    }
    if !shown.why.is_empty() {
        lines.push(format!("   reason: {}", visible(&shown.why)));
    }
    for quote in &shown.quotes {
        let quote = shortened(&visible(&one_line(quote)), QUOTE_CHARS_MAX);
        lines.push(format!("   rests on: \"{quote}\""));
    }
    lines.join("\n")
}

/// Returns why an answer did not do all that it says.
fn why(pending: &DigestExplanation) -> String {
    let why = match pending.outcome.as_str() {
        "not_understood" => "I did not understand your answer, so nothing was changed. Write lines such as `yes 1 3`, `no 2` or `edit 4: …` \
             at the beginning of a reply, and nothing else before your greeting."
            .to_owned(),
        "no_such_number" => "Your answer names a number that the list does not have, so nothing was changed.".to_owned(),
        "not_dated" => "Your answer has no `Date`, or one that is more than a week old or more than a day ahead, so it changed nothing: it \
             could be an older letter that somebody sent again. Correct the clock of your machine and answer again."
            .to_owned(),
        "unsigned_content" => format!("{UNSIGNED_CONTENT}."),
        "not_by_mail" => "Entries of memory are not decided by mail (`not_by_mail` in `configs/policy.json`), so nothing was changed.".to_owned(),
        "digest_closed" => "This list is closed: all of it was decided, or a later list took its place. Your answer changed nothing; answer \
             the newest list."
            .to_owned(),
        _ => "This part of your answer changed nothing; the rest is done.".to_owned(),
    };
    let report = match pending.report.is_empty() {
        true => String::new(),
        false => {
            let fence = fence_for(&pending.report);
            format!("\n\n{fence}\n{}\n{fence}", pending.report)
        }
    };
    format!("{why}{report}\n\nOn the machine: `attache memory list --status proposed`.\n")
}
