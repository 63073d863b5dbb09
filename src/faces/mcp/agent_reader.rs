//! What another agent reads: threads, runs, letters, the schedule and what was used, as far as its rights go. Each answer is bounded,
//! with a cursor that goes on; words of mail stand in a frame.

use super::agent_access::AgentAccess;
use super::agent_args::{
    ListRunsArgs, ListThreadsArgs, ReadRunArgs, ReadThreadArgs, SearchMailArgs,
};
use super::agent_thread::{ReadableThread, readable_thread};
use super::answer_room::{AnswerRoom, piece_from};
use super::mail_frame::{FRAME_NOTE, framed_record, framed_text};
use crate::config::{AgentReads, Config, Persona};
use crate::domain::{PersonaId, RunId, RunState, ThreadId, Timestamp};
use crate::runs::chat::outcome::AskedRun;
use crate::runs::chat::question::AskedAt;
use crate::store::{
    FoundMessage, MessageSearch, RunFilter, RunSummary, Store, StoreError, ThreadFilter,
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Most threads or runs of one page, and their number where an agent names none.
const PAGE_MAX: u32 = 100;
const PAGE: u32 = 20;
/// Most letters of one page of a search, and most that its pages go back.
const LETTERS_MAX: u32 = 50;
const LETTERS_BACK_MAX: u32 = 500;
/// Most pages of the store that are read for one of an agent.
const PAGES_MAX: usize = 50;

/// Reason for the agent why it gets nothing.
pub type Refusal = String;

/// Reader with the rights of one agent.
#[derive(Clone)]
pub struct AgentReader {
    pub store: Store,
    pub config: Arc<Config>,
    pub access: Arc<AgentAccess>,
}

/// A run with a piece of its answer.
#[derive(Serialize)]
struct AskedPiece {
    #[serde(flatten)]
    asked: AskedRun,
    /// `cursor` of the rest of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

impl AgentReader {
    pub fn asked_at(&self) -> AskedAt<'_> {
        AskedAt::Agent {
            trust: self.access.trust.trust(),
            key: self.access.key.as_deref(),
        }
    }

    pub async fn list_threads(&self, args: ListThreadsArgs) -> Result<String, Refusal> {
        let persona = self.persona(&self.access.reads_of, &args.persona)?;
        let limit = limit(args.limit, PAGE_MAX)?;
        let mut offset = offset(args.cursor.as_deref())?;
        let mut page = AnswerPage::of("threads", self.note());
        // Pages of threads that it may not read are passed over, so many at most that the agent need not wait long.
        for _ in 0..PAGES_MAX {
            let filter = ThreadFilter {
                persona: Some(persona.id.clone()),
                limit: PAGE_MAX,
                offset,
            };
            let found = self.store.list_threads(&filter).await.map_err(unread)?;
            let is_last = found.len() < PAGE_MAX as usize;
            for thread in found {
                let may_read = self.may_read(&persona.id, &thread.id).await?;
                if page.items.len() == limit as usize || may_read && !page.add(self.shown(&thread))
                {
                    return page.ended(Some(offset));
                }
                offset = offset.saturating_add(1);
            }
            if is_last {
                return page.ended(None);
            }
        }
        page.ended(Some(offset))
    }

    pub async fn read_run(&self, args: &ReadRunArgs) -> Result<String, Refusal> {
        let run = self.run(&args.id).await?;
        let asked = AskedRun::of(&self.store, &run.id).await.map_err(unread)?;
        let begin = offset(args.cursor.as_deref())?;
        if self.access.reads == AgentReads::Asked {
            return self.asked_answer(asked.for_agent(), begin, None);
        }
        let answer = asked.answer.unwrap_or_default();
        let (piece, next) = piece(&answer, begin)?;
        let mut record = noted(self.note());
        if let Value::Object(members) = self.shown(&run) {
            record.extend(members);
        }
        let has_answer = !answer.is_empty();
        let framed = has_answer.then(|| framed_text(piece));
        record.insert("answer".to_owned(), framed.into());
        record.insert("next".to_owned(), next.into());
        json(&record)
    }

    /// Formats what became of a question, with as much of its answer as there is room for.
    pub fn asked_answer(
        &self,
        mut asked: AskedRun,
        begin: u32,
        note: Option<&'static str>,
    ) -> Result<String, Refusal> {
        let answer = asked.answer.take();
        let cut = answer.as_deref().map(|answer| piece(answer, begin));
        let (piece, next) = cut.transpose()?.unzip();
        asked.answer = piece.map(str::to_owned);
        let next = next.flatten();
        let mut record = json_members(&AskedPiece { asked, next });
        if let Some(note) = note {
            record.insert("note".to_owned(), note.into());
        }
        json(&record)
    }

    pub async fn read_thread(&self, args: &ReadThreadArgs) -> Result<ReadableThread, Refusal> {
        let none = || "no such thread; `list_threads` shows them".to_owned();
        let id = ThreadId::new(args.id.as_str());
        let thread = match self.store.thread_summary(&id).await {
            Err(StoreError::Missing { .. }) => return Err(none()),
            thread => thread.map_err(unread)?,
        };
        let is_open = self.access.reads_of.contains(&thread.persona);
        if !is_open || !self.may_read(&thread.persona, &id).await? {
            return Err(none());
        }
        let rows = self.store.persona(&thread.persona);
        let page = readable_thread(&rows, &id, self.access.reads, args).await;
        page.map_err(unread)?.ok_or_else(|| {
            "`cursor` is none of this thread's newest items; leave it out to begin anew".to_owned()
        })
    }

    pub async fn search_mail(&self, args: SearchMailArgs) -> Result<String, Refusal> {
        let persona = self.persona(&self.access.reads_of, &args.persona)?;
        let limit = limit(args.limit, LETTERS_MAX)?;
        let mut offset = offset(args.cursor.as_deref())?;
        let until = offset.saturating_add(limit);
        if until > LETTERS_BACK_MAX {
            return Err(format!(
                "a search goes back {LETTERS_BACK_MAX} letters; narrow it with `since`, `before`, `from` or `subject`"
            ));
        }
        let words = |typed: Option<String>| typed.filter(|text| !text.trim().is_empty());
        let search = MessageSearch {
            query: words(args.query),
            from: words(args.from),
            subject: words(args.subject),
            since: instant("since", args.since)?,
            before: instant("before", args.before)?,
            visible_to: None,
            limit: until.saturating_add(1),
        };
        let rows = self.store.persona(&persona.id);
        let found = rows.search_messages(&search).await.map_err(unread)?;
        let mut page = AnswerPage::of("letters", self.note());
        for letter in found.iter().skip(offset as usize) {
            if page.items.len() == limit as usize || !page.add(found_letter(letter)) {
                return page.ended(Some(offset));
            }
            offset += 1;
        }
        page.ended(None)
    }

    pub async fn list_runs(&self, args: ListRunsArgs) -> Result<String, Refusal> {
        let persona = self.persona(&self.access.reads_of, &args.persona)?;
        let limit = limit(args.limit, PAGE_MAX)?;
        let mut offset = offset(args.cursor.as_deref())?;
        let state = args.state.filter(|state| !state.is_empty());
        let state = state.map(|word| RunState::parse(&word).ok_or("no run has this `state`"));
        let filter = RunFilter {
            states: state.transpose()?.into_iter().collect(),
            persona: Some(persona.id.clone()),
            limit: limit + 1,
            offset,
            ..RunFilter::default()
        };
        let found = self.store.list_runs(&filter).await.map_err(unread)?;
        let mut page = AnswerPage::of("runs", self.note());
        for run in &found {
            if page.items.len() == limit as usize || !page.add(self.shown(run)) {
                return page.ended(Some(offset));
            }
            offset = offset.saturating_add(1);
        }
        page.ended(None)
    }

    /// Finds a run that the agent may read.
    pub async fn run(&self, id: &str) -> Result<RunSummary, Refusal> {
        let none = || "no such run; an answer to `ask` names its run".to_owned();
        let run = match self.store.run_summary(&RunId::new(id)).await {
            Err(StoreError::Missing { .. }) => return Err(none()),
            run => run.map_err(unread)?,
        };
        let is_open = self.access.reads_of.contains(&run.persona);
        match is_open && self.may_read(&run.persona, &run.thread).await? {
            true => Ok(run),
            false => Err(none()),
        }
    }

    async fn may_read(&self, persona: &PersonaId, thread: &ThreadId) -> Result<bool, Refusal> {
        let asked_at = self.asked_at().word();
        let rows = self.store.persona(persona);
        match self.access.reads {
            AgentReads::All => Ok(true),
            AgentReads::Asked => rows.is_asked_at(thread, &asked_at).await.map_err(unread),
        }
    }

    pub fn persona(&self, open: &[PersonaId], name: &str) -> Result<&Persona, Refusal> {
        let id = open.iter().find(|id| id.as_str() == name);
        let persona = id.and_then(|id| self.config.personas.get(id));
        persona.ok_or_else(|| {
            let names: Vec<&str> = open.iter().map(PersonaId::as_str).collect();
            format!("no such persona; there are: {}", names.join(", "))
        })
    }

    /// Returns the sentence about words of mail, where answers hold some.
    pub fn note(&self) -> Option<&'static str> {
        (self.access.reads == AgentReads::All).then_some(FRAME_NOTE)
    }

    /// Returns a record as the agent reads it: what it asked itself needs no frame.
    fn shown(&self, record: &impl Serialize) -> Value {
        match self.access.reads {
            AgentReads::All => framed_record(record),
            AgentReads::Asked => Value::Object(json_members(record)),
        }
    }
}

fn found_letter(found: &FoundMessage) -> Value {
    framed_record(&json!({
        "id": found.id.as_str(),
        "thread": found.thread_id.as_str(),
        "direction": found.direction,
        "from": found.sender,
        "at": found.received_at,
        "subject": found.subject,
        "snippet": found.snippet,
        "trust": (found.direction == "inbound").then_some(&found.trust),
        "disposition": found.disposition,
    }))
}

/// Answer that is a page of a listing.
pub struct AnswerPage {
    name: &'static str,
    note: Option<&'static str>,
    items: Vec<Value>,
    room: AnswerRoom,
}

impl AnswerPage {
    pub fn of(name: &'static str, note: Option<&'static str>) -> Self {
        Self {
            name,
            note,
            items: Vec::new(),
            room: AnswerRoom::default(),
        }
    }

    /// Adds an item; `false`: there is no room for it.
    pub fn add(&mut self, item: Value) -> bool {
        let has_room = self.room.take(&item);
        if has_room {
            self.items.push(item);
        }
        has_room
    }

    /// Fills the page with items from a number on, as many as there is room for, and formats it.
    pub fn filled(
        mut self,
        from: u32,
        items: impl Iterator<Item = Value>,
    ) -> Result<String, Refusal> {
        for (number, item) in (from..).zip(items.skip(from as usize)) {
            if !self.add(item) {
                return self.ended(Some(number));
            }
        }
        self.ended(None)
    }

    /// Formats the page. `next`: number of the first item of the next one.
    pub fn ended(self, next: Option<u32>) -> Result<String, Refusal> {
        let mut record = noted(self.note);
        record.insert(self.name.to_owned(), self.items.into());
        let next = next.map(|next| next.to_string());
        record.insert("next".to_owned(), next.into());
        json(&record)
    }
}

/// Formats a piece of a text of mail, and where it goes on.
pub fn text_answer(
    head: (&str, &str),
    text: &str,
    cursor: Option<&str>,
) -> Result<String, Refusal> {
    let (piece, next) = piece(text, offset(cursor)?)?;
    let mut record = noted(Some(FRAME_NOTE));
    record.insert(head.0.to_owned(), head.1.into());
    record.insert("text".to_owned(), framed_text(piece).into());
    record.insert("next".to_owned(), next.into());
    json(&record)
}

fn noted(note: Option<&'static str>) -> Map<String, Value> {
    let note = note.map(|note| ("note".to_owned(), note.into()));
    note.into_iter().collect()
}

fn piece(text: &str, begin: u32) -> Result<(&str, Option<String>), Refusal> {
    let found = piece_from(text, begin as usize).ok_or_else(foreign_cursor)?;
    Ok((found.0, found.1.map(|next| next.to_string())))
}

fn limit(typed: Option<u32>, most: u32) -> Result<u32, Refusal> {
    let limit = typed.unwrap_or(PAGE);
    match (1..=most).contains(&limit) {
        true => Ok(limit),
        false => Err(format!("`limit` is 1 to {most}")),
    }
}

/// Reads a cursor that is a number; without one, the beginning.
pub fn offset(cursor: Option<&str>) -> Result<u32, Refusal> {
    match cursor {
        None => Ok(0),
        Some(cursor) => cursor.parse().map_err(|_| foreign_cursor()),
    }
}

fn foreign_cursor() -> Refusal {
    "`cursor` is none of ours; leave it out to begin anew".to_owned()
}

fn instant(name: &str, typed: Option<String>) -> Result<Option<Timestamp>, Refusal> {
    let read = |text: String| {
        Timestamp::parse(&text)
            .ok_or_else(|| format!("`{name}` is no instant such as `2026-11-20T00:00:00Z`"))
    };
    typed.map(read).transpose()
}

fn json_members(record: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(record) {
        Ok(Value::Object(members)) => members,
        // Records of ours always are objects.
        _ => Map::new(),
    }
}

/// Formats a value as commands print it under `--json`.
pub fn json(value: &impl Serialize) -> Result<String, Refusal> {
    serde_json::to_string_pretty(value).map_err(|_| "it cannot be written as JSON".to_owned())
}

/// A failure of our database is in the log only.
pub fn unread(error: StoreError) -> Refusal {
    tracing::warn!(%error, "an agent got no answer");
    "the database of the engine cannot be used at the moment".to_owned()
}
