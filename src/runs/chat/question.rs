//! A question that somebody at this machine puts to a persona: a message and a queued run (trigger `chat`). The answer is stored
//! in the thread and mailed to nobody.

use crate::clock::Clock;
use crate::config::Persona;
use crate::domain::{ConversationId, MessageId, RunId, ThreadId, Trigger, Trust};
use crate::store::{Content, NewRun, NewSynthetic, Place};
use crate::text::shortened;

const SUBJECT_CHARS_MAX: usize = 80;

/// Builds the message of a question, with its run. `thread`: one of earlier questions, to go on with; `None`: a new one.
///
/// Whoever may write into the database may change all of it, so the text has the trust of the engine's own prompts.
pub fn question(
    persona: &Persona,
    clock: &dyn Clock,
    text: &str,
    thread: Option<ThreadId>,
) -> NewSynthetic {
    let address = persona.address.to_string();
    let first = text.lines().map(str::trim).find(|line| !line.is_empty());
    let content = Content {
        rfc_message_id: format!("{}@{}", clock.new_id(), persona.address.domain()),
        recipients_json: serde_json::json!({ "to": [&address] }).to_string(),
        sender: address,
        subject: shortened(first.unwrap_or_default(), SUBJECT_CHARS_MAX),
        text_body: text.to_owned(),
        trust: Trust::System,
        metadata_json: serde_json::json!({ "asked_at": "terminal" }).to_string(),
        ..Content::default()
    };
    let place = Place {
        mentioned: Vec::new(),
        joins_as: None,
        joins_only: None,
        authenticated: true,
        replaces: None,
        participants: Vec::new(),
        new_conversation: ConversationId::new(clock.new_id()),
        new_thread: ThreadId::new(clock.new_id()),
    };
    NewSynthetic {
        persona: persona.id.clone(),
        id: MessageId::new(clock.new_id()),
        thread,
        place,
        content,
        run: NewRun {
            id: RunId::new(clock.new_id()),
            trigger: Trigger::Chat,
            profile: "thread".to_owned(),
            budget_micros: None,
            // Somebody waits for it.
            attempts_max: None,
        },
    }
}
