//! Permissions of a run by the trust of the texts it has read. A text has no label of its own yet,
//! so the run as a whole has one, which only goes down.
//!
//! Absent on purpose: which recipients are permitted at all (`reply::mail_policy`), and how often
//! (`send_limits`).

use crate::config::Tier;
use crate::context::resolvers::Subject;
use crate::context::words_of_result;
use crate::domain::memory::lines::HAVING_READ;
use crate::domain::{Readers, TextLabel, Trigger, Trust};
use crate::mutants::is_off;
use crate::store::{Step, StepKind};
use crate::tools::{MailPolicy, Reader, RegisteredTool, ToolRegistry, USE_SKILL, WriteOrigin};
use serde_json::Value;
use std::collections::BTreeSet;

/// Lowest trust of the texts that a run has read, and who may read all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLabel {
    /// Trust of the sender that triggered the run; `System` for a schedule.
    pub sender: Trust,
    /// Lowest trust of the texts that it has read.
    pub floor: Trust,
    /// Addresses that may read all of them. What the run was written itself, it may act on with everyone.
    pub readers: Readers,
    /// Tools that the skills which the run has used leave it; `None`: all that it was offered.
    pub tools: Option<BTreeSet<String>>,
}

/// Reason why `send_allow` is closed to a run whose sender is no contact.
const NO_CONTACT: &str = "its sender is no known contact";
const UNPROVEN_WORDS: &str = "it has read a letter whose sender has proved nothing";

impl RunLabel {
    /// Returns the label of a run that has read only what it answers.
    pub fn of(subject: &Subject) -> Self {
        let sender = subject.sender_trust();
        let metadata: Value =
            serde_json::from_str(&subject.message.metadata_json).unwrap_or_default();
        let letters = &metadata["letters"];
        let label = Self {
            sender,
            floor: sender,
            readers: Readers::Everyone,
            tools: None,
        };
        match letters["count"].as_u64() {
            Some(count) if count > 0 => {
                let lowest = letters["lowest_trust"].as_str().unwrap_or_default();
                label.having_read(TextLabel::for_letters_of_others(lowest))
            }
            _ => label,
        }
    }

    /// Returns the label after these texts were read.
    #[must_use]
    pub fn having_read(self, text: TextLabel) -> Self {
        if is_off("G13") {
            return self;
        }
        let floor = text
            .lowest
            .map_or(self.floor, |lowest| self.floor.min(lowest));
        Self {
            floor,
            readers: self.readers.and(text.readers),
            ..self
        }
    }

    /// Returns the label after a tool call with this recorded result.
    #[must_use]
    pub fn after(self, tools: &ToolRegistry, tool: &str, payload: &str) -> Self {
        let label = self.having_read(words_of_result(tools, tool, payload));
        match left_by_skill(tool, payload) {
            Some(left) => Self {
                tools: Some(match &label.tools {
                    Some(tools) => tools.intersection(&left).cloned().collect(),
                    None => left,
                }),
                ..label
            },
            None => label,
        }
    }

    /// Returns the reason why a skill that the run has used leaves out a tool; `None`: it does not.
    pub fn narrowed(&self, tool: &str) -> Option<String> {
        let tools = self.tools.as_ref()?;
        let is_left = tool == USE_SKILL || tools.contains(tool);
        (!is_left).then(|| {
            let names: Vec<&str> = tools.iter().map(String::as_str).collect();
            format!(
                "the skill that you use names the tools for it, and this is none of them: {}",
                names.join(", ")
            )
        })
    }

    /// Returns the label after these steps.
    #[must_use]
    pub fn after_all<'s>(
        self,
        tools: &ToolRegistry,
        steps: impl IntoIterator<Item = &'s Step>,
    ) -> Self {
        let results = steps
            .into_iter()
            .filter(|step| step.kind == StepKind::Result);
        results.fold(self, |label, step| {
            label.after(tools, &step.tool_name, &step.payload_json)
        })
    }

    /// Returns the reason why a tool is closed to the run; `None`: it is open.
    pub fn closed(&self, tool: &RegisteredTool) -> Option<&'static str> {
        if is_off("G12") {
            return None;
        }
        let effects = tool.effects();
        let is_page = tool.declaration().capabilities.page && !is_off("G12.page");
        if is_page && self.sender < Trust::Contact {
            return Some("its sender is no known contact, and the page is the owner's");
        }
        if tool.declaration().capabilities.workspace && self.sender < Trust::Owner {
            return Some("only runs of the owner and of schedules change files");
        }
        let is_unproven = self.sender == Trust::Unauthenticated;
        if is_unproven && effects.act() {
            return Some(
                "its sender has proved nothing; what you answer last is mailed to them all the same",
            );
        }
        let is_kept = effects.changes_state || effects.runs_code;
        if is_kept && self.floor == Trust::Unauthenticated {
            return Some(
                "it has read letters whose senders have proved nothing, and nothing of them may be kept",
            );
        }
        None
    }

    /// Reports whether a run with this label may run commands at all: for the owner or a schedule, and with nothing of others
    /// read.
    pub fn runs_commands(&self) -> bool {
        self.sender.min(self.floor) >= Trust::Owner || is_off("G12")
    }

    /// Restricts the recipients by the label.
    pub fn limit(&self, mail: MailPolicy) -> MailPolicy {
        let closed = match self {
            _ if !self.follows_send_allow() => NO_CONTACT,
            Self {
                floor: Trust::Unauthenticated,
                ..
            } => UNPROVEN_WORDS,
            _ => return mail,
        };
        MailPolicy {
            allow: Vec::new(),
            closed: Some(closed),
            ..mail
        }
    }

    /// Reports whether `send_allow` applies to the sender that triggered the run.
    pub fn follows_send_allow(&self) -> bool {
        self.sender >= Trust::Contact
    }

    /// Returns the reader that files are read as.
    pub fn reader(&self) -> Reader {
        match self.sender {
            Trust::Unauthenticated => Reader::Unproven,
            _ if self.floor >= Trust::Owner => Reader::Owner,
            _ => Reader::Correspondent,
        }
    }

    /// Returns the highest tier of an agent in this run: its own tools read and write without
    /// asking us.
    pub fn tier(&self, configured: Tier) -> Tier {
        match (self.sender, self.floor) {
            // Such an agent would read the memory, which is in the persona's folder.
            (Trust::Unauthenticated, _) => Tier::None,
            (_, Trust::Unauthenticated) => configured.min(Tier::ReadOnly),
            _ => configured,
        }
    }

    /// Returns the label of a call that the owner has said yes to: its words are worth what the sender's are.
    #[must_use]
    pub fn approved(self) -> Self {
        Self {
            floor: self.floor.max(self.sender),
            ..self
        }
    }

    /// Returns the origin that is recorded with each memory line of the run.
    pub fn origin(&self, subject: &Subject) -> WriteOrigin {
        let message = &subject.message;
        let metadata: Value = serde_json::from_str(&message.metadata_json).unwrap_or_default();
        let from = match subject.trigger {
            Trigger::Email => metadata["sender"]
                .as_str()
                .unwrap_or(&message.sender)
                .to_owned(),
            trigger => format!("{trigger} {}", message.subject),
        };
        let trust = match self.floor < self.sender {
            true => format!(
                "{}{HAVING_READ}{}",
                self.sender.as_str(),
                self.floor.as_str()
            ),
            false => self.sender.as_str().to_owned(),
        };
        WriteOrigin {
            from,
            trust,
            sender: self.sender,
            lowest: self.floor,
            at: message.received_at,
            readers: self.readers.clone(),
            audience: subject.audience(),
        }
    }
}

/// Returns the tools that a recorded result of `use_skill` leaves; `None`: it leaves all.
fn left_by_skill(tool: &str, payload: &str) -> Option<BTreeSet<String>> {
    if tool != USE_SKILL {
        return None;
    }
    let payload: Value = serde_json::from_str(payload).ok()?;
    let names = payload["result"]["allowed_tools"].as_array()?.iter();
    let names = names.filter_map(Value::as_str);
    Some(names.map(str::to_owned).collect())
}
