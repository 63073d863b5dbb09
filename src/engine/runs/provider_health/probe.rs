//! Probes a provider with two tiny real calls, through the adapter that runs use: a text, then a
//! tool call.
//!
//! Both directions can be captured as files of the form of `tests/fixtures/providers/`, so that a
//! fault that a user met becomes a test. Absent on purpose: retries, and anything of a persona; a
//! probe tells what one call does.

use crate::clock::Clock;
use crate::config::Tier;
use crate::providers::scrub;
use crate::providers::{
    AgentOptions, AgentSession, CallContext, Capture, Form, LoopOwner, Message, Provider,
    ProviderError, Request, Response, ToolArgs, ToolChoice, ToolSpec, complete,
};
use secrecy::SecretString;
use serde_json::json;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const CALL_DURATION_MAX: Duration = Duration::from_secs(120);
/// Room for models that think before they answer.
const OUTPUT_TOKENS_MAX: u32 = 2048;
const SYSTEM: &str =
    "An operator is trying out the connection to you. Do exactly what is asked and nothing else.";
/// Tool that does nothing: it is called, never executed.
const TOOL: &str = "echo";
const WORD: &str = "ready";

/// Calls of a probe, each with the name of its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeCall {
    Text,
    Tool,
}

impl ProbeCall {
    /// Returns the name in the fixtures.
    pub fn name(self) -> &'static str {
        match self {
            ProbeCall::Text => "text",
            ProbeCall::Tool => "one_call",
        }
    }
}

/// Outcome of one call.
pub struct Tried {
    pub call: ProbeCall,
    pub outcome: Result<Response, ProviderError>,
    pub took: Duration,
    /// Captured files.
    pub files: Vec<PathBuf>,
}

impl Tried {
    /// Returns the reason why the answer is not the one that was asked for, if it is not.
    pub fn fault(&self) -> Option<String> {
        let response = match &self.outcome {
            Ok(response) => response,
            Err(error) => return Some(format!("{}: {error}", error.class)),
        };
        let echoes = |(_, name, args): (&str, &str, &ToolArgs)| {
            name == TOOL && matches!(args, ToolArgs::Object(_))
        };
        match self.call {
            ProbeCall::Text if response.text().trim().is_empty() => {
                Some("the model answered with no text".to_owned())
            }
            ProbeCall::Tool if !response.calls().any(echoes) => {
                Some(format!("the model did not call the tool `{TOOL}`"))
            }
            _ => None,
        }
    }
}

/// Inputs of a probe.
pub struct Probe<'a> {
    pub provider: &'a dyn Provider,
    pub model: &'a str,
    pub clock: &'a dyn Clock,
    /// Working folder of agents; absolute.
    pub folder: &'a Path,
    /// Folder for captures.
    pub capture: Option<Folder<'a>>,
}

/// A folder for captures, and the secrets that must not stand in them.
#[derive(Clone, Copy)]
pub struct Folder<'a> {
    pub path: &'a Path,
    pub secrets: &'a [SecretString],
}

impl Probe<'_> {
    /// Returns the calls that apply to this provider: an agent has our tools in a run only.
    pub fn calls(&self) -> &'static [ProbeCall] {
        match self.provider.capabilities(self.model).loop_owner {
            LoopOwner::Engine => &[ProbeCall::Text, ProbeCall::Tool],
            LoopOwner::Agent => &[ProbeCall::Text],
        }
    }

    /// Checks that captures can be written, before any money is spent.
    pub fn prepare(&self) -> io::Result<()> {
        self.calls()
            .iter()
            .try_for_each(|call| self.capture.map_or(Ok(()), |folder| folder.prepare(*call)))
    }

    /// Makes one call. Errors: the capture could not be written; the provider's own errors are in
    /// the outcome.
    pub async fn make(&self, call: ProbeCall) -> io::Result<Tried> {
        let capture = self
            .capture
            .map(|folder| (folder, Arc::new(Capture::default())));
        let context = CallContext {
            cancel: CancellationToken::new(),
            deadline: CALL_DURATION_MAX,
            idle: CALL_DURATION_MAX,
            run_id: format!("probe-{}", self.clock.new_id()),
            turn_index: 0,
            model: self.model.to_owned(),
            cache_key: None,
            now: self.clock.now(),
            capture: capture.as_ref().map(|(_, capture)| capture.clone()),
        };
        let began = self.clock.monotonic();
        let outcome = match self.provider.encode_request(&self.request(call)) {
            Ok(encoder) => complete(self.provider, &encoder, context).await,
            Err(error) => Err(error),
        };
        let took = self.clock.monotonic().saturating_sub(began);
        let files = match &capture {
            Some((folder, capture)) => folder.write(call, capture)?,
            None => Vec::new(),
        };
        Ok(Tried {
            call,
            outcome,
            took,
            files,
        })
    }

    fn request(&self, call: ProbeCall) -> Request {
        let (asked, tools) = match call {
            ProbeCall::Text => (format!("Answer with the single word: {WORD}"), Vec::new()),
            ProbeCall::Tool => {
                let asked = format!("Call the tool `{TOOL}` once, with the text `{WORD}`.");
                (asked, vec![echo()])
            }
        };
        let agent =
            (self.provider.capabilities(self.model).loop_owner == LoopOwner::Agent).then(|| {
                AgentOptions {
                    session: AgentSession::New(self.clock.new_id()),
                    tier: Tier::None,
                    folder: self.folder.display().to_string(),
                    workspace: String::new(),
                    turns_max: 1,
                    tool_calls_max: 0,
                    cost_micros_max: None,
                    tool_server: None,
                }
            });
        Request {
            model: self.model.to_owned(),
            system: vec![SYSTEM.to_owned()],
            messages: vec![Message::user(asked)],
            past_messages: 0,
            cache_key: None,
            tools,
            tool_choice: ToolChoice::Auto,
            max_output_tokens: OUTPUT_TOKENS_MAX,
            temperature: None,
            output: None,
            without: Vec::new(),
            agent,
        }
    }
}

/// Returns a provider's text for display, without secrets; empty where a secret came in pieces.
pub fn clean(text: &str, secrets: &[SecretString]) -> String {
    let clean = scrub(text.as_bytes(), secrets).unwrap_or_default();
    String::from_utf8_lossy(&clean).into_owned()
}

fn echo() -> ToolSpec {
    ToolSpec {
        name: TOOL.to_owned(),
        description: "Repeats a text. Changes nothing.".to_owned(),
        input_schema: json!({
            "type": "object", "additionalProperties": false, "required": ["text"],
            "properties": { "text": { "type": "string", "description": "What to repeat." } },
        })
        .into(),
    }
}

impl Folder<'_> {
    /// Makes the folder, for its owner alone. Errors: a file of this call exists already.
    fn prepare(&self, call: ProbeCall) -> io::Result<()> {
        make_folder(self.path)?;
        let prefix = format!("{}.", call.name());
        for entry in std::fs::read_dir(self.path)? {
            let path = entry?.path();
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            if name.starts_with(&prefix) {
                let message = format!(
                    "`{}` is there already, and nothing is overwritten",
                    path.display()
                );
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
            }
        }
        Ok(())
    }

    /// Writes two files, both without secrets: the request, and the answer as it was received.
    fn write(&self, call: ProbeCall, capture: &Capture) -> io::Result<Vec<PathBuf>> {
        let kept = capture.kept();
        let mut files = Vec::new();
        let parts = [
            (!kept.sent.is_empty()).then(|| ("request.json".to_owned(), kept.sent.as_bytes())),
            kept.form
                .map(|form: Form| (form.ending(), kept.received.as_slice())),
        ];
        if kept.is_cut {
            return Err(io::Error::other(
                "the answer is too long to be written down",
            ));
        }
        for (ending, bytes) in parts.into_iter().flatten() {
            let path = self.path.join(format!("{}.{ending}", call.name()));
            let clean = scrub(bytes, self.secrets).map_err(|error| {
                io::Error::other(format!("`{}` is not written: {error}", path.display()))
            })?;
            new_file(&path)?.write_all(&clean)?;
            files.push(path);
        }
        Ok(files)
    }
}

#[cfg(unix)]
fn make_folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

#[cfg(not(unix))]
fn make_folder(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

/// Creates the file; fails when it exists: an earlier capture may be evidence.
fn new_file(path: &Path) -> io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)
}
