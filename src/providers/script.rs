//! Script of `scripted.rs` in types, the choice of an answer for a request, and the values of its
//! placeholders. Pure.

use crate::domain::ErrorClass;
use crate::providers::contract::traits::{
    Block, FinishReason, Parameter, Phase, ProviderError, Request, Role, TokenUsage, ToolChoice,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::time::Duration;

/// A whole script, checked.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    #[serde(skip)]
    pub name: String,
    /// Ignored; lets an editor find a schema.
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    /// Model that the responses name; the requested one if left out.
    pub model: Option<String>,
    /// Window that the provider reports, in tokens of input and output together.
    pub window_tokens: Option<u64>,
    pub turns: Vec<ScriptedAnswer>,
    pub rules: Vec<ScriptedAnswer>,
}

/// One answer; in a rule, with its condition.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScriptedAnswer {
    pub when: Option<When>,
    pub say: Option<String>,
    pub call: Vec<ScriptedCall>,
    pub stop: Option<FinishReason>,
    pub usage: Option<ScriptedUsage>,
    pub delay_ms: u64,
    pub hang: bool,
    pub error: Option<ScriptedFault>,
}

/// Condition of a rule; all given parts must hold.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct When {
    pub turn: Option<u32>,
    pub contains: Option<String>,
    pub system_contains: Option<String>,
    pub after_tool: Option<String>,
    pub after_error: Option<bool>,
    pub tools: Option<bool>,
    pub model: Option<String>,
    pub without: Option<Parameter>,
    pub longer_than: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScriptedCall {
    pub tool: String,
    pub id: Option<String>,
    pub args: Map<String, Value>,
    /// Argument text as a model would write it, instead of `args`.
    pub raw: Option<String>,
}

/// Usage in tokens; what is left out is 0.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScriptedUsage {
    input_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
    output_tokens: u64,
    reasoning_tokens: u64,
    cost_micros: Option<i64>,
}

impl From<ScriptedUsage> for TokenUsage {
    fn from(u: ScriptedUsage) -> Self {
        TokenUsage {
            input_tokens: u.input_tokens,
            cache_read_tokens: u.cache_read_tokens,
            cache_write_tokens: u.cache_write_tokens,
            output_tokens: u.output_tokens,
            reasoning_tokens: u.reasoning_tokens,
            cost_micros: u.cost_micros,
            estimated: false,
        }
    }
}

/// An intended failure.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScriptedFault {
    /// Name of an [`ErrorClass`].
    pub class: String,
    pub message: Option<String>,
    pub status: Option<u16>,
    pub retry_after_ms: Option<u64>,
    pub refused: Option<Parameter>,
    pub window_tokens: Option<u64>,
    pub acted: bool,
    pub mid_stream: bool,
    /// Number of failures per run and place; `None`: always.
    pub times: Option<u32>,
}

impl ScriptedFault {
    pub fn error(&self) -> ProviderError {
        // `Script::parse` has refused every other name.
        let class = ErrorClass::parse(&self.class).unwrap_or(ErrorClass::Config);
        let phase = if self.mid_stream {
            Phase::MidStream
        } else {
            Phase::BeforeFirstByte
        };
        let message = self
            .message
            .clone()
            .unwrap_or_else(|| format!("scripted failure: {class}"));
        ProviderError {
            http_status: self.status,
            retry_after: self.retry_after_ms.map(Duration::from_millis),
            refused: self.refused,
            window_tokens: self.window_tokens,
            acted: self.acted,
            ..ProviderError::new(class, phase, message)
        }
    }
}

impl Script {
    /// Parses a script. Errors: class `Config`, phase `Config`, with file and place.
    pub fn parse(name: &str, text: &str) -> Result<Self, ProviderError> {
        let wrong = |message: String| {
            ProviderError::new(
                ErrorClass::Config,
                Phase::Config,
                format!("script `{name}`: {message}"),
            )
        };
        let mut reader = serde_json::Deserializer::from_str(text);
        let mut script: Script = serde_path_to_error::deserialize(&mut reader)
            .map_err(|e| wrong(format!("at `{}`: {}", e.path(), e.inner())))?;
        reader.end().map_err(|e| wrong(e.to_string()))?;
        for (list, answers) in [("turns", &script.turns), ("rules", &script.rules)] {
            for (at, answer) in answers.iter().enumerate() {
                check(list, answer)
                    .map_err(|message| wrong(format!("at `{list}[{at}]`: {message}")))?;
            }
        }
        script.name = name.to_owned();
        Ok(script)
    }

    /// Returns the first rule that applies, otherwise the answer of this turn; with its index in
    /// the script.
    pub fn answer_for(&self, situation: &Situation<'_>) -> Option<(usize, &ScriptedAnswer)> {
        let applies = |answer: &ScriptedAnswer| {
            answer
                .when
                .as_ref()
                .is_none_or(|when| situation.meets(when))
        };
        let rule = self
            .rules
            .iter()
            .enumerate()
            .find(|(_, answer)| applies(answer));
        rule.or_else(|| {
            let turn = usize::try_from(situation.turn).ok()?;
            self.turns
                .get(turn)
                .map(|answer| (self.rules.len() + turn, answer))
        })
    }
}

fn check(list: &str, answer: &ScriptedAnswer) -> Result<(), String> {
    if list == "turns" && answer.when.is_some() {
        return Err("a turn has no `when`: make it a rule".to_owned());
    }
    let silent = answer.say.is_none() && answer.call.is_empty() && !answer.hang;
    let only_stops = answer.stop.is_some();
    let always_fails = answer
        .error
        .as_ref()
        .is_some_and(|fault| fault.times.is_none());
    if silent && !only_stops && !always_fails {
        return Err("give it `say`, `call`, `stop`, `hang` or a permanent `error`".to_owned());
    }
    if let Some(fault) = &answer.error
        && ErrorClass::parse(&fault.class).is_none()
    {
        let known: Vec<_> = ErrorClass::ALL.iter().map(|class| class.as_str()).collect();
        return Err(format!(
            "no error class `{}`; there are: {}",
            fault.class,
            known.join(", ")
        ));
    }
    for call in &answer.call {
        if call.tool.is_empty() || (call.raw.is_some() && !call.args.is_empty()) {
            return Err("a call has a `tool`, and either `args` or `raw`".to_owned());
        }
        check_templates(&Value::Object(call.args.clone()))?;
        check_template(call.raw.as_deref().unwrap_or_default())?;
    }
    check_template(answer.say.as_deref().unwrap_or_default())
}

fn check_templates(value: &Value) -> Result<(), String> {
    match value {
        Value::String(text) => check_template(text),
        Value::Array(items) => items.iter().try_for_each(check_templates),
        Value::Object(map) => map.values().try_for_each(check_templates),
        _ => Ok(()),
    }
}

fn check_template(text: &str) -> Result<(), String> {
    let mut unknown = None;
    expand(text, |name| {
        let known = PLAIN_PLACEHOLDERS.contains(&name)
            || name
                .strip_prefix("header:")
                .is_some_and(|header| !header.is_empty())
            || name
                .strip_prefix("result:")
                .is_some_and(|pointer| pointer.starts_with('/'));
        if !known {
            unknown = Some(name.to_owned());
        }
        String::new()
    });
    match unknown {
        Some(name) => Err(format!(
            "no placeholder `{name}`; there are: {}, header:NAME, result:/pointer",
            PLAIN_PLACEHOLDERS.join(", ")
        )),
        None => Ok(()),
    }
}

const PLAIN_PLACEHOLDERS: &[&str] = &[
    "text",
    "body",
    "first_line",
    "subject",
    "from",
    "sender",
    "result",
];

/// Replaces every `{{name}}` in one pass; an opening without its end stays as it is.
fn expand(text: &str, mut fill: impl FnMut(&str) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, tail)) = after.split_once("}}") else {
            break;
        };
        out.push_str(before);
        out.push_str(&fill(name.trim()));
        rest = tail;
    }
    out.push_str(rest);
    out
}

/// View of a request for the conditions of a rule.
pub struct Situation<'a> {
    pub request: &'a Request,
    pub turn: u32,
}

impl<'a> Situation<'a> {
    pub fn from_request(request: &'a Request, turn: u32) -> Self {
        Self { request, turn }
    }

    fn meets(&self, when: &When) -> bool {
        let contains = |text: &str, part: &str| text.to_lowercase().contains(&part.to_lowercase());
        let results = newest_results(self.request);
        let failed = results.iter().any(|(_, _, is_error)| *is_error);
        let offered =
            self.request.tool_choice == ToolChoice::Auto && !self.request.tools.is_empty();
        when.turn.is_none_or(|turn| turn == self.turn)
            && when
                .contains
                .as_ref()
                .is_none_or(|part| contains(&last_user_text(self.request), part))
            && when
                .system_contains
                .as_ref()
                .is_none_or(|part| contains(&self.request.system.join("\n"), part))
            && when
                .after_tool
                .as_ref()
                .is_none_or(|tool| results.iter().any(|(name, ..)| name == tool))
            && when
                .after_error
                .is_none_or(|expected| !results.is_empty() && failed == expected)
            && when.tools.is_none_or(|expected| offered == expected)
            && when
                .model
                .as_ref()
                .is_none_or(|model| *model == self.request.model)
            && when
                .without
                .is_none_or(|parameter| self.request.without.contains(&parameter))
            && when
                .longer_than
                .is_none_or(|chars| length(self.request) > chars)
    }
}

/// Counts the characters that the model reads: texts, arguments, results.
fn length(request: &Request) -> usize {
    let of = |block: &Block| match block {
        Block::Text { text } | Block::Thinking { text, .. } => text.chars().count(),
        Block::ToolCall { args, .. } => {
            serde_json::to_string(args).map_or(0, |json| json.chars().count())
        }
        Block::ToolResult { content, .. } => content.chars().count(),
        // The provider declares text alone.
        Block::Image(_) | Block::Pdf(_) | Block::FileReference(_) => 0,
    };
    let system: usize = request.system.iter().map(|text| text.chars().count()).sum();
    system
        + request
            .messages
            .iter()
            .flat_map(|message| &message.blocks)
            .map(of)
            .sum::<usize>()
}

/// Returns name, content and error flag of the tool results in the last message; empty if it has
/// none.
fn newest_results(request: &Request) -> Vec<(&str, &str, bool)> {
    let blocks = request
        .messages
        .last()
        .map(|message| message.blocks.as_slice())
        .unwrap_or_default();
    blocks.iter().filter_map(result_of).collect()
}

fn result_of(block: &Block) -> Option<(&str, &str, bool)> {
    match block {
        Block::ToolResult {
            name,
            content,
            is_error,
            ..
        } => Some((name, content, *is_error)),
        _ => None,
    }
}

/// Returns all text of the last user message that has any.
fn last_user_text(request: &Request) -> String {
    let mut users = request
        .messages
        .iter()
        .rev()
        .filter(|message| message.role == Role::User);
    let texts = users.find_map(|message| {
        let texts: Vec<&str> = message.blocks.iter().filter_map(text_of).collect();
        (!texts.is_empty()).then_some(texts)
    });
    texts.unwrap_or_default().join("\n\n")
}

fn text_of(block: &Block) -> Option<&str> {
    match block {
        Block::Text { text } => Some(text),
        _ => None,
    }
}

/// Values of the placeholders for one request.
pub struct Placeholders {
    text: String,
    result: String,
}

impl Placeholders {
    pub fn from_request(request: &Request) -> Self {
        let result = newest_results(request)
            .last()
            .map(|(_, content, _)| (*content).to_owned());
        Self {
            text: last_user_text(request),
            result: result.unwrap_or_default(),
        }
    }

    pub fn fill(&self, text: &str) -> String {
        expand(text, |name| self.value(name))
    }

    pub fn fill_map(&self, map: &Map<String, Value>) -> Map<String, Value> {
        map.iter()
            .map(|(key, value)| (key.clone(), self.fill_value(value)))
            .collect()
    }

    fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill(text)),
            Value::Array(items) => items.iter().map(|item| self.fill_value(item)).collect(),
            Value::Object(map) => Value::Object(self.fill_map(map)),
            other => other.clone(),
        }
    }

    fn value(&self, name: &str) -> String {
        match name {
            "text" => self.text.clone(),
            "body" => self.body().to_owned(),
            "first_line" => self
                .body()
                .lines()
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned(),
            "subject" => self.header("Subject"),
            "from" => self.header("From"),
            "sender" => bare_address(&self.header("From")),
            "result" => self.result.clone(),
            _ => match name.split_once(':') {
                Some(("header", header)) => self.header(header),
                Some(("result", pointer)) => self.result_at(pointer),
                _ => String::new(),
            },
        }
    }

    fn body(&self) -> &str {
        self.text
            .split_once("\n\n")
            .map_or(self.text.as_str(), |(_, body)| body)
            .trim()
    }

    fn header(&self, name: &str) -> String {
        let value = |line: &str| {
            let (key, value) = line.split_once(':')?;
            key.trim()
                .eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        };
        self.text.lines().find_map(value).unwrap_or_default()
    }

    fn result_at(&self, pointer: &str) -> String {
        // The text of a file or a letter stands below its result.
        let (head, text) = match self.result.split_once('\n') {
            Some((head, text)) if head.starts_with('{') && head.ends_with('}') => {
                (head, Some(text))
            }
            _ => (self.result.as_str(), None),
        };
        let mut parsed: Value = serde_json::from_str(head).unwrap_or_default();
        if let (Some(text), true) = (text, parsed["result"].is_object()) {
            parsed["result"]["content"] = text.into();
        }
        match parsed.pointer(pointer) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        }
    }
}

fn bare_address(value: &str) -> String {
    match value
        .rsplit_once('<')
        .and_then(|(_, tail)| tail.split_once('>'))
    {
        Some((address, _)) => address.trim().to_owned(),
        None => value.trim().to_owned(),
    }
}
