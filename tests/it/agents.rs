//! Command-line agents: what they are started with, what is made of their lines, and that nothing of them is left.
//!
//! The agents are shell scripts that speak the documented lines; `tests/peers/agents.sh` drives the real programs.

mod claude;
mod command;
mod death;
mod lines;
mod misbehaving;
mod places;
mod process;

use attache::config::{AgentSettings, ProviderSettings, Tier};
use attache::domain::Timestamp;
use attache::providers::{
    AgentOptions, AgentSession, CallContext, Event, Message, Provider, ProviderError, Request,
    Response, ToolChoice, build,
};
use futures_util::StreamExt;
use secrecy::SecretString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const NOW: i64 = 1_900_000_000_000;
const SESSION: &str = "01939a5c-7b1e-7c3a-9f00-0123456789ab";

/// A folder with a script in it, and the agent that runs it.
struct Fake {
    dir: tempfile::TempDir,
    /// Time between SIGTERM and SIGKILL.
    grace: Duration,
}

impl Fake {
    fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir_all(dir.path().join("work/workspace")).expect("a folder to work in");
        // Whatever the test does to it, its group is known.
        let script =
            format!("printf '%s' \"${{ATTACHE_AGENT_GROUP##*:}}\" > \"$OUT/group\"\n{script}\n");
        std::fs::write(dir.path().join("script"), script).expect("the script");
        Self {
            dir,
            grace: Duration::from_millis(300),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect(name)
    }

    fn settings(&self) -> ProviderSettings {
        let text = |path: &Path| path.display().to_string();
        let environment = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("FAKE", text(&self.path("script"))),
            ("OUT", text(self.dir.path())),
        ];
        let fake = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/agents/fake");
        let agent = AgentSettings {
            binary: Some(text(&fake)),
            found: None,
            tier: Tier::ReadOnly,
            tier_for_others: Tier::ReadOnly,
            accept_unsandboxed: false,
            environment: environment
                .map(|(name, value)| (name.to_owned(), SecretString::from(value)))
                .into(),
            stop_grace: Some(self.grace),
            workspace: None,
        };
        ProviderSettings {
            agent,
            ..Default::default()
        }
    }

    fn agent(&self, id: &str) -> Box<dyn Provider> {
        build(id, &self.settings()).expect("the fake is a program")
    }

    fn request(&self, text: &str) -> Request {
        Request {
            model: "model-x".into(),
            system: vec!["You are Ada.".into(), "Today is Friday.".into()],
            messages: vec![Message::user(text)],
            past_messages: 0,
            cache_key: None,
            tools: vec![],
            tool_choice: ToolChoice::Auto,
            max_output_tokens: 1024,
            temperature: None,
            output: None,
            without: vec![],
            agent: Some(AgentOptions {
                session: AgentSession::New(SESSION.into()),
                tier: Tier::ReadOnly,
                folder: self.path("work").display().to_string(),
                workspace: "workspace".into(),
                turns_max: 7,
                tool_calls_max: 9,
                cost_micros_max: Some(1_500_000),
                tool_server: None,
            }),
        }
    }

    /// One call from beginning to end: all events, or the error.
    async fn ask(&self, id: &str, context: CallContext) -> Result<Response, ProviderError> {
        let (_, response) = self.events(id, &self.request("Hello?"), context).await;
        response
    }

    async fn events(
        &self,
        id: &str,
        request: &Request,
        context: CallContext,
    ) -> (Vec<Event>, Result<Response, ProviderError>) {
        let agent = self.agent(id);
        let wire = agent.encode_request(request).expect("a sound request");
        let mut stream = agent.stream(&wire, context);
        let mut events = Vec::new();
        while let Some(event) = stream.next().await {
            match event {
                Ok(Event::Finished(response)) => {
                    assert!(stream.next().await.is_none(), "nothing follows the end");
                    assert!(
                        matches!(events.first(), Some(Event::Started { .. })),
                        "{events:?}"
                    );
                    return (events, Ok(response));
                }
                Ok(event) => events.push(event),
                Err(error) => {
                    assert!(stream.next().await.is_none(), "nothing follows an error");
                    return (events, Err(error));
                }
            }
        }
        panic!("the stream ended without a terminal event after {events:?}");
    }

    /// Nothing of the agent's group is left, and nothing that inherited its environment. Waits for what is dying.
    async fn assert_gone(&self) {
        let group = self.text("group");
        let mark = format!("FAKE={}", self.path("script").display());
        let begun = Instant::now();
        loop {
            let left = processes(&group, &mark);
            if left.is_empty() {
                return;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(10),
                "still there: {left:?}"
            );
            crate::app::glance().await;
        }
    }
}

/// Pids of the processes of a group, zombies too, and of those whose environment has this entry.
fn processes(group: &str, mark: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").expect("this system has /proc");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let is_ours = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Behind the name in parentheses: state, parent, group.
        let of_group = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(2))
            == Some(group);
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        of_group
            || environment
                .split(|byte| *byte == 0)
                .any(|entry| entry == mark.as_bytes())
    };
    pids.filter(is_ours).collect()
}

fn context() -> CallContext {
    CallContext {
        cancel: CancellationToken::new(),
        deadline: Duration::from_secs(60),
        idle: Duration::from_secs(30),
        run_id: "run-1".into(),
        turn_index: 0,
        model: "model-x".into(),
        cache_key: None,
        now: Timestamp::from_millis(NOW),
        capture: None,
    }
}

/// Claude Code's side up to its first line about the conversation.
const CLAUDE_BEGINS: &str = r#"
read -r initialize
echo '{"type":"control_response","response":{"subtype":"success","request_id":"init_1","response":{"commands":[]}}}'
IFS= read -r user
echo '{"type":"system","subtype":"init","session_id":"s-1","model":"claude-x","tools":["Glob","Grep","Read"],"mcp_servers":[]}'
"#;
const CLAUDE_ANSWERS: &str = r#"
echo '{"type":"result","subtype":"success","is_error":false,"result":"Good morning.","stop_reason":"end_turn","session_id":"s-1","total_cost_usd":0.0123,"usage":{"input_tokens":5,"output_tokens":7}}'
"#;
