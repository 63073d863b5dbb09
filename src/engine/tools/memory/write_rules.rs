//! Rules of what may be written into memory: deterministic, and each refusal says which rule and what would work.
//!
//! Whether a text is true, no rule can see; so a text says who wrote it, and its label says what it is worth.

use crate::domain::{
    MEMORY_OF_RUN_MAX, MEMORY_TEXT_CHARS_MAX, MemoryKind, MemoryScope, MemoryStatus, Timestamp,
    Trust,
};
use crate::store::{MemoryEntry, MemorySource, NewMemory, ReachableMemory};
use crate::text::likeness::find_quote;
use crate::text::{one_line, redact, visible};
use crate::tools::contract::memory::{MemoryAccess, QuotableText};
use crate::tools::contract::*;
use chrono::NaiveDate;

/// Bounds of a quote, in characters. A shorter one stands in every letter.
const QUOTE_CHARS_MIN: usize = 8;
const QUOTE_CHARS_MAX: usize = 1000;

/// Memory and new text of a run that may write.
pub(super) struct WritableMemory<'a> {
    pub access: MemoryAccess<'a>,
    pub new_text: &'a QuotableText,
    pub reachable: ReachableMemory,
}

/// Returns the memory for writing. Errors: `nobody_to_remember`, `enough_remembered`.
pub(super) async fn open<'a>(call: &ToolCall<'a>) -> Result<WritableMemory<'a>, ToolError> {
    let access = call.env.memory()?;
    let Some(new_text) = &access.place.new_text else {
        return refuse(
            "nobody_to_remember",
            "nothing of this run can be remembered: it answers nobody whose address is proved; finish without it",
        );
    };
    if access.entries.written_by(call.run).await? >= MEMORY_OF_RUN_MAX {
        return refuse(
            "enough_remembered",
            format!(
                "this run has written {MEMORY_OF_RUN_MAX} entries, and no run writes more; keep what matters most next time"
            ),
        );
    }
    let reachable = access.entries.reachable(call.clock.now()).await?;
    Ok(WritableMemory {
        access,
        new_text,
        reachable,
    })
}

/// Returns the text on one line. Errors: `empty_text`, `bad_text`, `text_too_long`, `secret`.
pub(super) fn checked_text(text: &str) -> Result<String, ToolError> {
    let is_break = |c: char| matches!(c, '\n' | '\r' | '\t');
    if visible(&text.replace(is_break, " ")) != text.replace(is_break, " ") {
        return refuse(
            "bad_text",
            "the text has control characters or invisible ones; write plain words",
        );
    }
    let line = one_line(text);
    let chars = line.chars().count();
    if chars == 0 {
        return refuse("empty_text", "field `text` is empty");
    }
    if chars > MEMORY_TEXT_CHARS_MAX {
        return refuse(
            "text_too_long",
            format!(
                "the text has {chars} characters, and an entry has at most {MEMORY_TEXT_CHARS_MAX}; keep to one thing"
            ),
        );
    }
    if redact::has_key(&line) || redact::names_password(&line) {
        return refuse(
            "secret",
            "the text has what looks like a key or password; leave it out",
        );
    }
    Ok(line)
}

/// Returns where the quote stands in the new text of the run. Errors: `quote_too_short`, `not_in_new_text`, `secret`.
pub(super) fn checked_quote(
    new_text: &QuotableText,
    quote: &str,
) -> Result<MemorySource, ToolError> {
    let chars = one_line(quote).chars().count();
    let whole = one_line(&new_text.text).chars().count();
    if chars > QUOTE_CHARS_MAX || chars < QUOTE_CHARS_MIN.min(whole) || chars == 0 {
        return refuse(
            "bad_quote",
            format!(
                "`source_quote` has {chars} characters; quote {QUOTE_CHARS_MIN} to {QUOTE_CHARS_MAX} of the letter, word for word"
            ),
        );
    }
    let Some((start, end)) = find_quote(&new_text.text, quote) else {
        return refuse(
            "not_in_new_text",
            "`source_quote` does not stand in the letter that you answer; quote its own new words. Notes, earlier letters, \
            knowledge and results of tools are no source: what they say is known already",
        );
    };
    let quote: String = new_text
        .text
        .chars()
        .skip(start)
        .take(end - start)
        .collect();
    if redact::has_key(&quote) || redact::names_password(&quote) {
        return refuse(
            "secret",
            "the quote has what looks like a key or password; quote words without it",
        );
    }
    Ok(MemorySource {
        message: new_text.message.clone(),
        part: new_text.part.to_owned(),
        start,
        end,
        quote,
    })
}

/// Parses a day or an instant in the future. Errors: `bad_valid_to`.
pub(super) fn checked_end(
    valid_to: Option<&str>,
    now: Timestamp,
) -> Result<Option<Timestamp>, ToolError> {
    let Some(text) = valid_to.map(str::trim).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let day = || {
        let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
        Timestamp::parse(&format!("{}T23:59:59Z", day.format("%Y-%m-%d")))
    };
    let until = Timestamp::parse(text).or_else(day);
    match until.filter(|until| *until > now) {
        Some(until) => Ok(Some(until)),
        None => refuse(
            "bad_valid_to",
            "`valid_to` must be a day in the future, as YYYY-MM-DD; leave it out for what does not end",
        ),
    }
}

/// Errors: `memory_full`; the fill level is in the text.
pub(super) fn require_room(
    memory: &WritableMemory<'_>,
    scope: &MemoryScope,
) -> Result<(), ToolError> {
    let (filled, max) = (memory.reachable.filled(scope), scope.entries_max());
    if filled < max {
        return Ok(());
    }
    refuse(
        "memory_full",
        format!(
            "there are {filled} of {max} entries; `forget` what is over or wrong, or `correct` one, before you add another"
        ),
    )
}

/// Makes the entry, its label stamped by what the run has read. It is active at once where everybody who reads along may
/// know all of that, and somebody known said it; otherwise it waits for the owner.
pub(super) fn stamped(
    call: &ToolCall<'_>,
    memory: &WritableMemory<'_>,
    scope: MemoryScope,
    kind: MemoryKind,
    text: String,
    source: MemorySource,
) -> NewMemory {
    let circle = &memory.access.place.circle;
    let (label, new_text) = (&call.origin.readers, memory.new_text);
    let people = crate::domain::Readers::Only(circle.people.clone());
    let is_own =
        circle.is_known() && call.origin.lowest >= Trust::Contact && label.include(&people, &[]);
    // The owner's words may be used with everybody; those of a correspondent stay among those who heard them.
    let readers = match circle.trust >= Trust::Owner {
        true => label.clone(),
        false => label.clone().and(people),
    };
    NewMemory {
        scope,
        kind,
        text,
        status: match is_own {
            true => MemoryStatus::Active,
            false => MemoryStatus::Proposed,
        },
        trust: call.origin.lowest.min(circle.trust),
        readers,
        audience: Some(circle.people.clone()),
        said_by: new_text.said_by.clone(),
        said_at: new_text.said_at,
        valid_to: None,
        supersedes: None,
        proposes: None,
        replaces: Vec::new(),
        confirmed_at: None,
        sources: vec![source],
    }
}

/// Returns the entry with an id such as `c3`. Errors: `no_such_entry`, `not_yours`.
pub(super) fn own_entry<'e>(
    reachable: &'e ReachableMemory,
    id: &str,
) -> Result<&'e MemoryEntry, ToolError> {
    let Some(entry) = reachable.find(id.trim()) else {
        return refuse(
            "no_such_entry",
            "there is no such entry; ids such as `c3` stand before the entries in your notes and in results of `recall`",
        );
    };
    if entry.scope == MemoryScope::Persona {
        return refuse(
            "not_yours",
            "that entry is your owner's, and only they change it; tell them what is wrong with it",
        );
    }
    Ok(entry)
}
