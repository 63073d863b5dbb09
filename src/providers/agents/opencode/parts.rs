//! OpenCode's events and messages, in any order and repetition. Pure, except for the targets of
//! links (`paths.rs`).
//!
//! Every part comes as a snapshot, by an event or in the list of messages; a part counts once for
//! each state that it reaches, so a list read after a lost event stream repeats nothing. Source:
//! the generated types of OpenCode's SDK (`packages/sdk/js/src/v2/gen/types.gen.ts`).

use crate::config::Tier;
use crate::domain::ErrorClass;
use crate::providers::agents::agent::{args_at, micros, text_at};
use crate::providers::agents::failure::class_of_status;
use crate::providers::agents::paths;
use crate::providers::contract::accumulate::token_count;
use crate::providers::contract::traits::{
    AgentOptions, Event, FinishReason, Phase, ProviderError, TOOL_SERVER_NAME, TokenUsage,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

/// Tools that only read, or change nothing outside the agent's session.
const READS: &[&str] = &[
    "read",
    "grep",
    "glob",
    "list",
    "todoread",
    "todowrite",
    "skill",
    "invalid",
];
const WRITES: &[&str] = &["edit", "write", "patch", "apply_patch", "multiedit"];

/// Permission to leave the working folder, by any tool.
const OUTSIDE: &str = "external_directory";

/// Returns the tier that this tool, or a permission of this name, needs.
pub fn needs(name: &str) -> Tier {
    if READS.contains(&name) {
        Tier::ReadOnly
    } else if WRITES.contains(&name) {
        Tier::Write
    } else {
        Tier::Full
    }
}

/// Returns the tools of a tier; the last rule that matches a name decides.
pub fn tools(tier: Tier) -> Vec<(String, bool)> {
    let mut rules = vec![("*".to_owned(), tier == Tier::Full)];
    if tier < Tier::Full {
        let allowed = READS
            .iter()
            .chain(WRITES)
            .filter(|name| needs(name) <= tier);
        rules.extend(allowed.map(|name| ((*name).to_owned(), true)));
    }
    // No person is there to answer.
    rules.push(("question".to_owned(), false));
    rules.push((format!("{TOOL_SERVER_NAME}_*"), true));
    rules
}

/// Removes the prefix: OpenCode calls the tools of a server `SERVER_TOOL`.
fn our_name(name: &str) -> String {
    match name
        .strip_prefix(TOOL_SERVER_NAME)
        .and_then(|rest| rest.strip_prefix('_'))
    {
        Some(tool) => format!("mcp__{TOOL_SERVER_NAME}__{tool}"),
        None => name.to_owned(),
    }
}

/// Reply to a permission request of the server.
#[derive(Debug, Clone, PartialEq)]
pub struct Permission {
    pub id: String,
    pub is_granted: bool,
}

/// View of a session for one call.
pub struct Parts {
    session: String,
    options: AgentOptions,
    /// Reason why a call that was made was not permitted.
    trespass: Option<String>,
    /// Ids of the session and of those that it started.
    family: HashSet<String>,
    /// Ids of messages from before this call.
    old: HashSet<String>,
    assistant: BTreeMap<String, Value>,
    called: HashSet<String>,
    ended: HashSet<String>,
    asked: BTreeSet<String>,
    /// Text so far by part; `true`: it is reasoning.
    texts: HashMap<String, (bool, String)>,
}

impl Parts {
    pub fn new(session: &str, options: &AgentOptions) -> Self {
        Self {
            session: session.to_owned(),
            options: options.clone(),
            trespass: None,
            family: HashSet::from([session.to_owned()]),
            old: HashSet::new(),
            assistant: BTreeMap::new(),
            called: HashSet::new(),
            ended: HashSet::new(),
            asked: BTreeSet::new(),
            texts: HashMap::new(),
        }
    }

    /// Returns the reason why a call that was made was not permitted, if one was not.
    pub fn trespass(&self) -> Option<&str> {
        self.trespass.as_deref()
    }

    /// Marks messages from before this call.
    pub fn knows(&mut self, messages: &Value) {
        let ids = messages
            .as_array()
            .into_iter()
            .flatten()
            .map(|message| text_at(&message["info"], "id"));
        self.old.extend(ids.map(str::to_owned));
    }

    /// Handles all messages of the session, read after events may have been missed.
    pub fn catch_up(&mut self, messages: &Value) -> Vec<Event> {
        let mut events = Vec::new();
        for message in messages.as_array().into_iter().flatten() {
            self.info(&message["info"]);
            for part in message["parts"].as_array().into_iter().flatten() {
                events.extend(self.part(part));
            }
        }
        events
    }

    /// Reports whether a frame belongs to this session or one that it started.
    pub fn concerns(&self, frame: &Value) -> bool {
        let properties = &frame["properties"];
        let (info, part) = (&properties["info"], &properties["part"]);
        let named = [
            text_at(properties, "sessionID"),
            text_at(part, "sessionID"),
            text_at(info, "sessionID"),
            text_at(info, "id"),
            text_at(info, "parentID"),
        ];
        named
            .into_iter()
            .any(|session| self.family.contains(session))
    }

    /// Handles one frame of the event stream; returns its events, and a permission to answer.
    pub fn frame(&mut self, frame: &Value) -> (Vec<Event>, Option<Permission>) {
        let properties = &frame["properties"];
        let of = |session: &str| self.family.contains(session);
        match frame["type"].as_str().unwrap_or_default() {
            "message.updated" => self.info(&properties["info"]),
            "message.part.updated" => return (self.part(&properties["part"]), None),
            "message.part.delta" if text_at(properties, "sessionID") == self.session => {
                return (self.delta(properties), None);
            }
            "session.created" | "session.updated"
                if of(text_at(&properties["info"], "parentID")) =>
            {
                self.family
                    .insert(text_at(&properties["info"], "id").to_owned());
            }
            "session.status"
                if of(text_at(properties, "sessionID"))
                    && properties["status"]["type"] == "retry" =>
            {
                let why = text_at(&properties["status"], "message")
                    .chars()
                    .take(200)
                    .collect::<String>();
                return (
                    vec![Event::Notice(format!("opencode tries again: {why}"))],
                    None,
                );
            }
            "permission.asked" if of(text_at(properties, "sessionID")) => {
                return self.permission(properties);
            }
            // `session.idle` too: the answer to our own request ends the call.
            _ => {}
        }
        (Vec::new(), None)
    }

    fn info(&mut self, info: &Value) {
        let (id, session) = (text_at(info, "id"), text_at(info, "sessionID"));
        if info["role"] == "assistant" && self.family.contains(session) && !self.old.contains(id) {
            self.assistant.insert(id.to_owned(), info.clone());
        }
    }

    fn part(&mut self, part: &Value) -> Vec<Event> {
        let session = text_at(part, "sessionID");
        if !self.family.contains(session) || self.old.contains(text_at(part, "messageID")) {
            return Vec::new();
        }
        match part["type"].as_str().unwrap_or_default() {
            "tool" => self.tool(part),
            "text" | "reasoning" if session == self.session => self.text(part),
            "step-finish" => self.round(part),
            "compaction" => vec![Event::Notice(
                "opencode shortened its conversation".to_owned(),
            )],
            _ => Vec::new(),
        }
    }

    /// Handles a tool part. `pending` has no arguments yet; the state has everything but the name
    /// and the id.
    fn tool(&mut self, part: &Value) -> Vec<Event> {
        let (id, state) = (text_at(part, "callID"), &part["state"]);
        let id = format!("{}/{id}", text_at(part, "messageID"));
        let status = state["status"].as_str().unwrap_or_default();
        let mut events = Vec::new();
        if matches!(status, "running" | "completed" | "error") && self.called.insert(id.clone()) {
            let (name, args) = (our_name(text_at(part, "tool")), args_at(state, "input"));
            if status != "error" && needs(&name) < Tier::Full {
                // A call that needs a permission is answered first, and then ends with an error.
                let is_asked = needs(&name) == Tier::Write && status == "running";
                let reason = paths::refusal(&name, needs(&name), &args, &self.options, &[])
                    .filter(|_| !is_asked);
                self.trespass = self.trespass.take().or(reason);
            }
            events.push(Event::ObservedCall {
                id: id.clone(),
                name,
                args,
            });
        }
        if matches!(status, "completed" | "error") && self.ended.insert(id.clone()) {
            let is_error = status == "error";
            let content = text_at(state, if is_error { "error" } else { "output" }).to_owned();
            events.push(Event::ObservedResult {
                id,
                content,
                is_error,
            });
        }
        events
    }

    fn round(&mut self, part: &Value) -> Vec<Event> {
        if !self.ended.insert(text_at(part, "id").to_owned()) {
            return Vec::new();
        }
        // However a sub-agent ends, its parent goes on.
        let goes_on =
            text_at(part, "reason") == "tool-calls" || text_at(part, "sessionID") != self.session;
        vec![Event::Round {
            usage: used(part),
            goes_on,
        }]
    }

    fn text(&mut self, part: &Value) -> Vec<Event> {
        // The server reports the parts of the prompt, too; and parts that it adds itself are not
        // the model's.
        if !self.assistant.contains_key(text_at(part, "messageID")) || part["synthetic"] == true {
            return Vec::new();
        }
        let (is_thinking, now) = (part["type"] == "reasoning", text_at(part, "text"));
        let begun = self.texts.entry(text_at(part, "id").to_owned());
        let (_, known) = begun.or_insert_with(|| (is_thinking, String::new()));
        let Some(more) = now.strip_prefix(known.as_str()).map(str::to_owned) else {
            return Vec::new();
        };
        now.clone_into(known);
        said(is_thinking, more)
    }

    fn delta(&mut self, properties: &Value) -> Vec<Event> {
        if properties["field"] != "text"
            || !self
                .assistant
                .contains_key(text_at(properties, "messageID"))
        {
            return Vec::new();
        }
        // Only the part itself tells whether this is text or reasoning.
        let Some((is_thinking, known)) = self.texts.get_mut(text_at(properties, "partID")) else {
            return Vec::new();
        };
        known.push_str(text_at(properties, "delta"));
        said(*is_thinking, text_at(properties, "delta").to_owned())
    }

    fn permission(&mut self, asked: &Value) -> (Vec<Event>, Option<Permission>) {
        let (id, name) = (
            text_at(asked, "id").to_owned(),
            our_name(text_at(asked, "permission")),
        );
        if id.is_empty() || !self.asked.insert(id.clone()) {
            return (Vec::new(), None);
        }
        let is_ours = name.starts_with(&format!("mcp__{TOOL_SERVER_NAME}__"));
        let args = args_at(asked, "metadata");
        let needed = match name.as_str() {
            // Asked before each tool that goes there, with the path that it is asked for; what
            // writes there is asked for once more. A shell names no path.
            OUTSIDE if asked["metadata"]["filepath"].is_string() => Tier::ReadOnly,
            name => needs(name),
        };
        let outside = match needed {
            Tier::Full => None,
            needed => paths::refusal(&name, needed, &args, &self.options, &[]),
        };
        let is_granted = is_ours || (needed <= self.options.tier && outside.is_none());
        let by_tier = || {
            format!(
                "the tier `{}` does not allow it",
                self.options.tier.as_str()
            )
        };
        let denied = Event::Denied {
            name,
            args,
            reason: outside.unwrap_or_else(by_tier),
        };
        let events = if is_granted { Vec::new() } else { vec![denied] };
        (events, Some(Permission { id, is_granted }))
    }

    /// Handles permissions that were requested while the event stream was down.
    pub fn pending(&mut self, permissions: &Value) -> (Vec<Event>, Vec<Permission>) {
        let (mut events, mut answers) = (Vec::new(), Vec::new());
        for asked in permissions.as_array().into_iter().flatten() {
            if self.family.contains(text_at(asked, "sessionID")) {
                let (emitted, answer) = self.permission(asked);
                events.extend(emitted);
                answers.extend(answer);
            }
        }
        (events, answers)
    }

    /// Returns the sum of the last usage of every message.
    pub fn usage(&self) -> TokenUsage {
        self.assistant
            .values()
            .map(used)
            .fold(TokenUsage::default(), TokenUsage::plus)
    }
}

/// Reads the usage of a message, or of one round of it.
fn used(of: &Value) -> TokenUsage {
    let tokens = &of["tokens"];
    let count = |value: &Value| token_count(Some(value)).unwrap_or(0);
    TokenUsage {
        input_tokens: count(&tokens["input"]),
        output_tokens: count(&tokens["output"]),
        reasoning_tokens: count(&tokens["reasoning"]),
        cache_read_tokens: count(&tokens["cache"]["read"]),
        cache_write_tokens: count(&tokens["cache"]["write"]),
        cost_micros: micros(&of["cost"]),
        ..TokenUsage::default()
    }
}

fn said(is_thinking: bool, text: String) -> Vec<Event> {
    match text.is_empty() {
        true => Vec::new(),
        false if is_thinking => vec![Event::ThinkingDelta(text)],
        false => vec![Event::TextDelta(text)],
    }
}

/// Returns the text of the reply.
pub fn answer(reply: &Value) -> String {
    let parts = reply["parts"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let texts = parts
        .iter()
        .filter(|part| part["type"] == "text" && part["synthetic"] != true);
    texts
        .map(|part| text_at(part, "text"))
        .collect::<Vec<_>>()
        .join("")
}

/// Maps the end of the message. Errors: the error that OpenCode reports in it, by its name.
pub fn stop(info: &Value) -> Result<FinishReason, ProviderError> {
    let error = &info["error"];
    if error.is_object() {
        return match text_at(error, "name") {
            "MessageOutputLengthError" => Ok(FinishReason::MaxTokens),
            "ContentFilterError" => Ok(FinishReason::Refused),
            name => Err(failure(name, &error["data"])),
        };
    }
    Ok(match info["finish"].as_str().unwrap_or("stop") {
        "stop" | "end_turn" | "tool-calls" => FinishReason::EndTurn,
        "length" => FinishReason::MaxTokens,
        "content-filter" => FinishReason::Refused,
        other => FinishReason::Other(other.to_owned()),
    })
}

fn failure(name: &str, data: &Value) -> ProviderError {
    let status = data["statusCode"]
        .as_u64()
        .and_then(|status| u16::try_from(status).ok());
    let class = match name {
        "ProviderAuthError" => ErrorClass::Auth,
        "ContextOverflowError" => ErrorClass::ContextOverflow,
        "StructuredOutputError" => ErrorClass::OutputInvalid,
        "APIError" => match status.and_then(class_of_status) {
            Some(class) => class,
            None if data["isRetryable"] == true => ErrorClass::Transient,
            None => ErrorClass::BadRequest,
        },
        // Aborted from outside: by another client of the server, or by its end.
        "MessageAbortedError" => ErrorClass::Transient,
        _ => ErrorClass::Protocol,
    };
    let said = text_at(data, "message");
    let message = if said.is_empty() {
        format!("opencode reports `{name}`")
    } else {
        said.to_owned()
    };
    let seconds = text_at(&data["responseHeaders"], "retry-after")
        .parse()
        .ok();
    ProviderError {
        http_status: status,
        provider_code: Some(name.to_owned()),
        retry_after: seconds.map(Duration::from_secs),
        ..ProviderError::new(
            class,
            Phase::MidStream,
            crate::text::redact::key_shapes(&message),
        )
    }
}
