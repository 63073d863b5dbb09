//! A question to a persona by a person at this machine, by a program with a key or by another agent: a message and a queued run (trigger `chat`). The
//! answer is stored in the thread and mailed to nobody.

use crate::clock::Clock;
use crate::config::Persona;
use crate::domain::{MessageId, RunId, ThreadId, Trigger, Trust};
use crate::store::{Content, NewRun, NewSynthetic, Place};
use crate::text::shortened;
use std::borrow::Cow;

const SUBJECT_CHARS_MAX: usize = 80;
/// Sender of the questions of other agents. RFC 2606 reserves `.invalid`: no mail reaches it, and no letter comes from it.
pub const AGENT_ADDRESS: &str = "agent@mcp.invalid";

/// Place where a question is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedAt<'a> {
    /// Whoever may write into the database may change all of it, so the text has the trust of the engine's own prompts.
    Terminal,
    /// A program speaks for the owner who made its key, of this id.
    Program(&'a str),
    /// Another agent passes on words of whomever it reads, so its text has the trust that the configuration gives it.
    Agent {
        trust: Trust,
        /// Id of its key; `None`: the agents of the configuration have none.
        key: Option<&'a str>,
    },
}

impl AskedAt<'_> {
    /// Returns the word that is stored with the message. The threads of one key are no other's.
    pub fn word(self) -> Cow<'static, str> {
        match self {
            Self::Terminal => "terminal".into(),
            Self::Program(key) => format!("key:{key}").into(),
            Self::Agent { key: None, .. } => "mcp".into(),
            Self::Agent { key: Some(key), .. } => format!("mcp:{key}").into(),
        }
    }
}

/// Builds the message of a question, with its run. `thread`: one of earlier questions, to go on with; `None`: a new one.
pub fn question(
    persona: &Persona,
    asked_at: AskedAt<'_>,
    clock: &dyn Clock,
    text: &str,
    thread: Option<ThreadId>,
) -> NewSynthetic {
    let address = persona.address.to_string();
    let mut metadata = serde_json::json!({ "asked_at": asked_at.word() });
    let (sender, trust) = match asked_at {
        AskedAt::Terminal => (address.clone(), Trust::System),
        AskedAt::Program(_) => (address.clone(), Trust::Owner),
        AskedAt::Agent { trust, .. } => {
            // By it every tool and resolver sees what that address may see, as of a correspondent.
            metadata["sender"] = AGENT_ADDRESS.into();
            (AGENT_ADDRESS.to_owned(), trust)
        }
    };
    let content = Content {
        rfc_message_id: format!("{}@{}", clock.new_id(), persona.address.domain()),
        recipients_json: serde_json::json!({ "to": [&address] }).to_string(),
        sender,
        subject: subject_of(text),
        text_body: text.to_owned(),
        trust,
        metadata_json: metadata.to_string(),
        ..Content::default()
    };
    let place = Place::alone(clock);
    NewSynthetic {
        persona: persona.id.clone(),
        id: MessageId::new(clock.new_id()),
        thread,
        place,
        content,
        attachments: Vec::new(),
        run: NewRun {
            id: RunId::new(clock.new_id()),
            trigger: Trigger::Chat,
            profile: "thread".to_owned(),
            budget_micros: None,
            // Somebody waits for it.
            attempts_max: None,
            options: None,
        },
    }
}

/// Returns the subject of a question: its first line that says anything.
pub fn subject_of(text: &str) -> String {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty());
    shortened(first.unwrap_or_default(), SUBJECT_CHARS_MAX)
}
