//! Facts of a call that rules may ask for: their names, kinds and meanings.

use crate::domain::Trust;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Kind of a fact's value, and so of the tests that a rule can make.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FactKind {
    /// One of these words.
    Word(&'static [&'static str]),
    /// A level of trust; `>=contact` and the like compare.
    Level,
    /// A number; `>=3` and `1..9` are ranges.
    Number,
    Flag,
    /// Texts, of which at least one has to match a pattern.
    SomeText,
    /// Texts, all of which have to match a pattern; there must be one.
    EveryText,
}

/// A fact that a rule may ask for.
pub struct KnownFact {
    pub name: &'static str,
    pub kind: FactKind,
    /// `true`: it is known before a call and does not change while a run lasts.
    pub is_of_run: bool,
    pub meaning: &'static str,
}

const fn fact(
    name: &'static str,
    kind: FactKind,
    is_of_run: bool,
    meaning: &'static str,
) -> KnownFact {
    KnownFact {
        name,
        kind,
        is_of_run,
        meaning,
    }
}

/// Every fact, in the order of the documentation.
pub static FACTS: &[KnownFact] = &[
    fact(
        "trigger",
        FactKind::Word(&["email", "schedule", "chat", "manual"]),
        true,
        "why the run exists",
    ),
    fact(
        "sender",
        FactKind::Level,
        true,
        "trust of the sender whom the run answers; `system` for a schedule",
    ),
    fact(
        "hour",
        FactKind::Number,
        true,
        "hour of the day, 0 to 23, in the persona's time zone",
    ),
    fact(
        "weekday",
        FactKind::Word(&["mon", "tue", "wed", "thu", "fri", "sat", "sun"]),
        true,
        "day of the week in the persona's time zone",
    ),
    fact(
        "class",
        FactKind::Word(&["repeatable", "transactional", "verifiable", "once"]),
        true,
        "what recovery may do with an interrupted call of the tool",
    ),
    fact(
        "effect",
        FactKind::SomeText,
        true,
        "effects of the tool: `reads_private`, `sends_out`, `changes_state`, `runs_code`",
    ),
    fact(
        "asks_owner",
        FactKind::Flag,
        true,
        "whether the call puts a question or a plan before the owner",
    ),
    fact(
        "runs_command",
        FactKind::Flag,
        true,
        "whether the call runs a command in the sandbox",
    ),
    fact(
        "is_gated",
        FactKind::Flag,
        true,
        "whether the tool itself keeps words of low trust from having an effect: what it leaves waits for the owner",
    ),
    fact(
        "senders",
        FactKind::Level,
        true,
        "of an own tool or one of an MCP server: lowest trust with which it is called without asking",
    ),
    fact(
        "floor",
        FactKind::Level,
        false,
        "lowest trust of all that the run has read",
    ),
    fact(
        "private",
        FactKind::Flag,
        false,
        "whether the run has read what not everybody may read",
    ),
    fact(
        "calls",
        FactKind::Number,
        false,
        "tool calls of the run before this one",
    ),
    fact(
        "mails",
        FactKind::Number,
        false,
        "mails that the run has queued before",
    ),
    fact(
        "recipients",
        FactKind::Word(&["none", "owners", "in_thread", "allowed", "outside"]),
        false,
        "the farthest recipient: an owner, a participant of the thread, an address of `send_allow`, any other",
    ),
    fact(
        "recipient",
        FactKind::SomeText,
        false,
        "addresses of the mail; one of them matches",
    ),
    fact(
        "every_recipient",
        FactKind::EveryText,
        false,
        "addresses of the mail; all of them match",
    ),
    fact(
        "audience",
        FactKind::Word(&["may_read", "may_not_read"]),
        false,
        "whether every recipient, or anybody who may see a URL, may read all that the run has read",
    ),
    fact(
        "attachments",
        FactKind::Number,
        false,
        "number of attachments of the mail",
    ),
    fact(
        "attachment",
        FactKind::SomeText,
        false,
        "file names of the attachments; one of them matches",
    ),
    fact(
        "bytes",
        FactKind::Number,
        false,
        "bytes of the mail: subject, body and attachments",
    ),
    fact(
        "path",
        FactKind::SomeText,
        false,
        "path that a file tool was given, relative to the persona's folder",
    ),
    fact(
        "host",
        FactKind::SomeText,
        false,
        "host of the URL that `web_fetch` was given, in lower case; `none` for a URL that is never asked",
    ),
    fact(
        "link",
        FactKind::Word(&["of_stranger", "unsubscribe", "of_sender", "of_page"]),
        false,
        "where the URL of `web_fetch` is from: a letter of somebody below `contact` names its domain, `List-Unsubscribe` has it, the \
         sender's own words name its host, or the run has read a page of that host",
    ),
];

impl KnownFact {
    /// Returns the fact of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        FACTS.iter().find(|fact| fact.name == name)
    }
}

/// Facts of one call, as computed and as recorded with it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallFacts(Map<String, Value>);

impl CallFacts {
    /// Adds a fact. Facts of every call are few, so nothing is said of one that has no value.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        debug_assert!(KnownFact::find(name).is_some(), "an unknown fact: {name}");
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// Returns the value of a fact; `every_recipient` reads `recipient`.
    pub fn value(&self, name: &str) -> Option<&Value> {
        let name = match name {
            "every_recipient" => "recipient",
            name => name,
        };
        self.0.get(name)
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.value(name)?.as_str()
    }

    /// Returns a level of trust; one that is not said is the lowest.
    pub fn level(&self, name: &str) -> Trust {
        self.text(name)
            .map_or(Trust::Unauthenticated, Trust::parse_stored)
    }

    /// Reports whether a fact of several texts has this one.
    pub fn has(&self, name: &str, text: &str) -> bool {
        match self.value(name) {
            Some(Value::Array(texts)) => texts.iter().any(|other| other == text),
            Some(Value::String(other)) => other == text,
            _ => false,
        }
    }

    pub fn is_true(&self, name: &str) -> bool {
        self.value(name).and_then(Value::as_bool) == Some(true)
    }

    /// Returns all facts with their values, in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.0.iter()
    }
}
