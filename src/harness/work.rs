//! One run on the desk: what it was told, what was said so far, what is still to be committed.

use super::context::{self, Sources};
use super::desk::{Desk, RunError};
use super::gate::Gate;
use super::meter::Meter;
use super::providers::{Message, Request, Response, Role, Stop, ToolChoice, ToolSpec};
use super::quota;
use super::resolvers::Subject;
use super::route::Route;
use super::sessions::{self, AgentState};
use crate::config::{Budget, Persona};
use crate::domain::{ErrorClass, Usage, Withheld};
use crate::store::{
    AssembledContext, ClaimedRun, Entry, Fate, JournalSoFar, NewOutbound, PersonaStore, RunKey, Step,
    TriggerMessage,
};
use crate::tools::Tool;
use cap_std::fs_utf8::Dir;
use std::collections::HashMap;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Everything a run is worked on with, and how far it has come.
pub struct Work<'a> {
    pub desk: &'a Desk,
    pub run: &'a ClaimedRun,
    pub key: RunKey,
    pub persona: &'a Persona,
    pub folder: Dir,
    pub store: PersonaStore,
    pub subject: Subject,
    /// Where the next call goes.
    pub route: Route<'a>,
    pub agent: AgentState,
    pub tools: Vec<&'static dyn Tool>,
    pub cancel: &'a CancellationToken,
    /// The first request; later ones are this one with more messages.
    pub first: Request,
    /// Not yet committed: rides with the first turn.
    pub fresh_context: Option<AssembledContext>,
    /// What was said after the first request.
    pub said: Vec<Message>,
    /// The last answer of an earlier attempt, whose calls may be open.
    pub resumed: Option<Response>,
    /// Steps of earlier attempts.
    pub known_steps: Vec<Step>,
    /// Highest attempt per turn of earlier attempts.
    pub turn_attempts: HashMap<u32, u32>,
    pub meter: Meter,
    /// Committed with the next thing that must be committed.
    pub pending: Vec<Entry>,
    pub mails_sent: usize,
    /// Some mail of this run answered the trigger.
    pub replied: bool,
    /// Why the model need not be asked: its answer could not be sent.
    pub unasked: Option<Withheld>,
    began: Duration,
}

impl<'a> Work<'a> {
    /// Loads what the run is about; assembles its context, or goes on from its journal.
    pub async fn begin(
        desk: &'a Desk,
        run: &'a ClaimedRun,
        cancel: &'a CancellationToken,
    ) -> Result<Work<'a>, RunError> {
        let (persona, folder) = desk.persona(&run.persona)?;
        let route = Route::of(desk, persona)?;
        let store = desk.store.persona(&run.persona);
        let TriggerMessage { message, attachments, has_past, sent } =
            store.trigger_message(&run.trigger_message).await?;
        let subject = Subject { trigger: run.trigger, message, attachments, has_past };
        let tools = desk.tools(persona);
        let first = Request {
            model: route.model.clone(),
            system: Vec::new(),
            messages: Vec::new(),
            tools: tools.iter().map(|tool| spec(*tool)).collect(),
            tool_choice: ToolChoice::Auto,
            max_output_tokens: desk.config.inference.max_output_tokens,
            temperature: desk.config.inference.temperature,
            output: None,
            without: Vec::new(),
            agent: None,
        };
        let mut work = Work {
            desk,
            run,
            key: RunKey { run: run.id.clone(), trigger_message: run.trigger_message.clone() },
            tools,
            persona,
            folder,
            store,
            subject,
            route,
            agent: AgentState::default(),
            cancel,
            first,
            fresh_context: None,
            said: Vec::new(),
            resumed: None,
            known_steps: Vec::new(),
            turn_attempts: HashMap::new(),
            meter: Meter::default(),
            pending: Vec::new(),
            mails_sent: 0,
            replied: false,
            unasked: None,
            began: desk.clock.monotonic(),
        };
        let journal = match run.has_journal {
            true => work.store.journal_so_far(&run.id).await?,
            false => JournalSoFar::default(),
        };
        match &journal.first_request_json {
            Some(json) => work.resume(json, &journal)?,
            None => {
                work.unasked = quota::unasked(&work.gate(), sent);
                if work.unasked.is_none() {
                    work.assemble().await?;
                }
            }
        }
        Ok(work)
    }

    async fn assemble(&mut self) -> Result<(), RunError> {
        let profile = self.desk.config.context.get(&self.run.profile).ok_or_else(|| RunError::Fatal {
            class: ErrorClass::Config,
            message: format!("no context profile `{}` in configs/context.json", self.run.profile),
        })?;
        let refreshed =
            self.desk.knowledge.refresh(&self.store, &self.folder, self.desk.clock.as_ref()).await;
        if let Err(error) = refreshed {
            // Yesterday's index answers better than no run at all.
            tracing::warn!(persona = %self.run.persona, %error, "knowledge files cannot be indexed");
        }
        let sources = Sources {
            persona: self.persona,
            store: &self.store,
            folder: &self.folder,
            workspace: &self.desk.workspace,
            subject: &self.subject,
            now: self.desk.clock.now(),
        };
        let budget = self.budget().context_tokens_max;
        let (context, report) = context::assemble(sources, (&self.run.profile, profile), budget).await?;
        self.first.system = context.system();
        self.first.messages = context.messages();
        self.fresh_context =
            Some(AssembledContext { request_json: to_json(&self.first)?, report_json: to_json(&report)? });
        Ok(())
    }

    /// Takes up an earlier attempt where its last commit left it. Model and tools are those of today: whoever mends
    /// `configs/inference.json` and retries the run wants it to use what was mended.
    fn resume(&mut self, first_json: &str, journal: &JournalSoFar) -> Result<(), RunError> {
        let context: Request = from_json(first_json)?;
        (self.first.system, self.first.messages) = (context.system, context.messages);
        self.known_steps.clone_from(&journal.steps);
        self.turn_attempts = journal.attempts.iter().copied().collect();
        self.mails_sent = journal.mails as usize;
        self.replied = journal.replied;
        self.meter.turns = u32::try_from(journal.answers.len()).unwrap_or(u32::MAX);
        let mut answers = journal.answers.iter().peekable();
        while let Some((_, json)) = answers.next() {
            let response: Response = from_json(json)?;
            self.meter.usage = self.meter.usage.plus(Usage::from(response.usage));
            match answers.peek() {
                // Every earlier answer has all its results, or the next turn would not have started.
                Some(_) => {
                    let results = super::calls::known_blocks(self, &response);
                    self.said.push(Message { role: Role::Assistant, blocks: response.blocks });
                    self.said.push(Message { role: Role::User, blocks: results });
                }
                // A refusal ended the run with its own commit: whoever retries it asks again.
                None if response.stop == Stop::Refused => {}
                None => self.resumed = Some(response),
            }
        }
        Ok(())
    }

    /// What a call of a tool is judged and executed with.
    pub fn gate(&self) -> Gate<'_> {
        Gate {
            desk: self.desk,
            run: self.run,
            persona: self.persona,
            folder: &self.folder,
            store: &self.store,
            subject: &self.subject,
            tools: &self.tools,
            cancel: self.cancel,
            mails_sent: self.mails_sent,
            replied: self.replied,
            pending: &self.pending,
        }
    }

    /// A mail was queued in this run.
    pub fn count_mail(&mut self, mail: &NewOutbound) {
        self.mails_sent += 1;
        self.replied |= mail.place.is_none();
    }

    pub fn budget(&self) -> &'a Budget {
        &self.desk.config.inference.budget
    }

    /// Time this attempt has taken.
    pub fn elapsed(&self) -> Duration {
        self.desk.clock.monotonic().saturating_sub(self.began)
    }

    /// The next request: everything said so far.
    pub fn request(&self, tool_choice: ToolChoice, note: Option<String>) -> Request {
        let mut request = self.first.clone();
        request.model.clone_from(&self.route.model);
        request.agent = self.agent.terms.clone();
        request.tool_choice = tool_choice;
        request.messages.extend(self.said.iter().cloned());
        request.messages.extend(sessions::done_before(&self.known_steps).map(Message::user));
        request.messages.extend(note.map(Message::user));
        request
    }

    /// Commits everything pending together with `entry`.
    pub async fn commit(&mut self, entry: Option<Entry>) -> Result<(), RunError> {
        let mut entries = std::mem::take(&mut self.pending);
        entries.extend(entry);
        if entries.is_empty() {
            return Ok(());
        }
        let has_mail = entries
            .iter()
            .any(|entry| matches!(entry, Entry::Mail(mail) if matches!(mail.fate, Fate::Send { .. })));
        self.store.journal(&self.key, entries).await?;
        if has_mail {
            self.desk.mail_queued.notify_one();
        }
        Ok(())
    }
}

fn spec(tool: &dyn Tool) -> ToolSpec {
    ToolSpec {
        name: tool.name().to_owned(),
        description: tool.description().to_owned(),
        input_schema: tool.input_schema(),
    }
}

fn to_json(value: &impl serde::Serialize) -> Result<String, RunError> {
    let bug =
        |error: serde_json::Error| RunError::Fatal { class: ErrorClass::Config, message: error.to_string() };
    serde_json::to_string(value).map_err(bug)
}

fn from_json<T: serde::de::DeserializeOwned>(json: &str) -> Result<T, RunError> {
    serde_json::from_str(json)
        .map_err(|_| RunError::Store(crate::store::StoreError::Unreadable { what: "journal" }))
}
