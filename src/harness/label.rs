//! What a run may do, by whose words it has read. A text has no label of its own yet, so the run as a whole has one, which
//! only goes down.
//!
//! Absent on purpose: who may be written to at all (`reply::mail_policy`), and how often (`quota`).

use super::resolvers::Subject;
use super::resolvers::words::WordsRead;
use crate::config::Tier;
use crate::domain::{Trigger, Trust};
use crate::store::{Step, StepKind};
use crate::tools::{self, Effects, MailPolicy, Origin, Reader};
use serde_json::Value;

/// How far those are proven whose words a run has read, and whether they are meant for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunLabel {
    /// Of whoever set the run off; `System` for a duty.
    pub sender: Trust,
    /// Of the least proven whose words it has read.
    pub floor: Trust,
    /// It has read mail that its sender may not have seen.
    pub read_others_mail: bool,
}

/// Why `send_allow` is closed to a run of somebody who is no contact.
const NO_CONTACT: &str = "its sender is no known contact";
const UNPROVEN_WORDS: &str = "it has read a letter whose sender has proved nothing";
const OTHERS_MAIL: &str = "it has read mail of others, so it may write to its owner and to this thread only";

impl RunLabel {
    /// Of a run that has read what it answers, and nothing else.
    pub fn of(subject: &Subject) -> Self {
        let sender = subject.sender_trust();
        let metadata: Value = serde_json::from_str(&subject.message.metadata_json).unwrap_or_default();
        let letters = &metadata["letters"];
        let label = Self { sender, floor: sender, read_others_mail: false };
        match letters["count"].as_u64() {
            Some(count) if count > 0 => {
                let lowest = letters["lowest_trust"].as_str().unwrap_or_default();
                label.having_read(WordsRead::of_others_letters(lowest))
            }
            _ => label,
        }
    }

    /// After it has read these.
    #[must_use]
    pub fn having_read(self, words: WordsRead) -> Self {
        let floor = words.lowest.map_or(self.floor, |lowest| self.floor.min(lowest));
        Self { floor, read_others_mail: self.read_others_mail || words.of_others, ..self }
    }

    /// After a call of a tool with this recorded result.
    #[must_use]
    pub fn after(self, tool: &str, payload: &str) -> Self {
        self.having_read(words_of_result(tool, payload))
    }

    /// After these steps.
    #[must_use]
    pub fn after_all<'s>(self, steps: impl IntoIterator<Item = &'s Step>) -> Self {
        let results = steps.into_iter().filter(|step| step.kind == StepKind::Result);
        results.fold(self, |label, step| label.after(&step.tool_name, &step.payload_json))
    }

    /// Why a tool with these effects is closed to the run; `None`: it is open.
    pub fn closed(self, effects: Effects) -> Option<&'static str> {
        let is_unproven = self.sender == Trust::Unauthenticated;
        if is_unproven && (effects.sends_out || effects.changes_state) {
            return Some(
                "its sender has proved nothing; what you answer last is mailed to them all the same",
            );
        }
        if effects.changes_state && self.floor == Trust::Unauthenticated {
            return Some(
                "it has read letters whose senders have proved nothing, and nothing of them may be kept",
            );
        }
        None
    }

    /// The recipients that are left to the run.
    pub fn limit(self, mail: MailPolicy) -> MailPolicy {
        let closed = match self {
            _ if !self.follows_send_allow() => NO_CONTACT,
            Self { read_others_mail: true, .. } => OTHERS_MAIL,
            Self { floor: Trust::Unauthenticated, .. } => UNPROVEN_WORDS,
            _ => return mail,
        };
        MailPolicy { allow: Vec::new(), closed: Some(closed), ..mail }
    }

    /// Whether `send_allow` speaks for whoever set the run off.
    pub fn follows_send_allow(self) -> bool {
        self.sender >= Trust::Contact
    }

    /// Whose eyes files are read with.
    pub fn reader(self) -> Reader {
        match self.sender {
            Trust::Unauthenticated => Reader::Unproven,
            _ if self.floor >= Trust::Owner => Reader::Owner,
            _ => Reader::Correspondent,
        }
    }

    /// What an agent may do by itself, at most: its own tools read and write without asking us.
    pub fn tier(self, configured: Tier) -> Tier {
        match (self.sender, self.floor) {
            // It would read the memory, which stands in the persona's folder.
            (Trust::Unauthenticated, _) => Tier::None,
            (_, Trust::Unauthenticated) => configured.min(Tier::ReadOnly),
            _ => configured,
        }
    }

    /// What is written beside each line that the run leaves in the memory.
    pub fn origin(self, subject: &Subject) -> Origin {
        let message = &subject.message;
        let metadata: Value = serde_json::from_str(&message.metadata_json).unwrap_or_default();
        let from = match subject.trigger {
            Trigger::Email => metadata["sender"].as_str().unwrap_or(&message.sender).to_owned(),
            trigger => format!("{trigger} {}", message.subject),
        };
        let trust = match self.floor < self.sender {
            true => format!("{}, having read {}", self.sender.as_str(), self.floor.as_str()),
            false => self.sender.as_str().to_owned(),
        };
        Origin { from, trust, at: message.received_at }
    }
}

/// Whose words a tool's recorded result holds.
pub fn words_of_result(tool: &str, payload: &str) -> WordsRead {
    if !tools::find(tool).is_some_and(|tool| tool.effects().reads_mail) {
        return WordsRead::default();
    }
    let Ok(payload) = serde_json::from_str::<Value>(payload) else { return WordsRead::UNKNOWN };
    let (result, found) = (&payload["result"], payload["result"]["messages"].as_array());
    let is_of_others = result["scope"] != tools::SCOPE_OF_THREAD;
    let found = found.map(Vec::as_slice).unwrap_or_default();
    let letters = found.iter().filter(|message| message["direction"] == "inbound");
    let lowest = letters.map(|letter| Trust::of_stored(letter["trust"].as_str().unwrap_or_default())).min();
    WordsRead { lowest, of_others: is_of_others && !found.is_empty() }
}
