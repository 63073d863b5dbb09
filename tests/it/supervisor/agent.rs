//! A command-line agent as the engine sees it, played from a list, and a house whose provider it is.

use crate::app::{TestApp, Workspace, dated_by, proven_note as note};
use crate::mcp::client::{Client, PROGRAM, catch_up, reply};
use attache::config::Tier;
use attache::domain::ErrorClass;
use attache::providers::{
    AgentSession, Block, CallContext, Capabilities, Event, FinishReason, LoopOwner, Phase,
    Provider, ProviderError, Request, RequestEncoder, Response, TokenUsage, ToolArgs,
};
use attache::runs::deps::WorkerDeps;
use attache::runs::worker::Worker;
use futures_util::stream::{self, BoxStream, StreamExt};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// One thing that the agent does.
#[derive(Clone)]
pub enum Act {
    Tells(Box<Event>),
    /// Does something in its folder and tells nobody.
    Does(fn(&Path)),
    /// Calls a tool of ours by the server that it was given.
    Uses(&'static str, Value),
    /// Sends a mail to Bob by the tool server that it was given.
    Mails(String),
    Fails(ErrorClass),
    /// Says nothing more until it is cancelled, and then ends as adapters must.
    Hangs,
    /// Ends as adapters must when it is cancelled, but takes its time, of which it says that it was enough.
    Tidies,
    /// Says nothing more, whatever is asked of it.
    IsDeaf,
}

/// What the test and the provider share.
#[derive(Default)]
pub struct StepPair {
    /// The acts of each call, in order; the last list is played for all later calls.
    calls: Mutex<VecDeque<Vec<Act>>>,
    requests: Mutex<Vec<Request>>,
    /// Calls under way, and the most that ever were.
    running: AtomicUsize,
    pub most_at_once: AtomicUsize,
    /// The agent has come to where it says nothing more.
    pub quiet: Notify,
    /// [`Act::Tidies`] came to its end.
    pub has_tidied: AtomicBool,
}

impl StepPair {
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("no test panicked here").clone()
    }
    /// The session of each call.
    pub fn sessions(&self) -> Vec<AgentSession> {
        self.requests()
            .into_iter()
            .map(|request| request.agent.expect("terms").session)
            .collect()
    }
    pub fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }
}

pub struct Agent(pub Arc<StepPair>);

impl RequestEncoder for Agent {
    fn id(&self) -> &str {
        "scripted"
    }

    fn capabilities(&self, _model: &str) -> Capabilities {
        Capabilities {
            loop_owner: LoopOwner::Agent,
            sessions: true,
            ..Capabilities::MODEL
        }
    }

    fn needs(&self, name: &str, _args: &ToolArgs) -> Tier {
        match name {
            "Read" => Tier::ReadOnly,
            "Write" => Tier::Write,
            _ => Tier::Full,
        }
    }

    fn encode(&self, request: &Request) -> Result<String, ProviderError> {
        Ok(serde_json::to_string(request).expect("a request has a JSON form"))
    }
}

impl Provider for Agent {
    fn stream<'a>(
        &'a self,
        wire: &'a str,
        context: CallContext,
    ) -> BoxStream<'a, Result<Event, ProviderError>> {
        let request: Request = serde_json::from_str(wire).expect("our own wire");
        let terms = request.agent.clone().expect("terms");
        let (server, folder) = (terms.tool_server.expect("a tool server"), terms.folder);
        self.0
            .requests
            .lock()
            .expect("no test panicked here")
            .push(request);
        let mut calls = self.0.calls.lock().expect("no test panicked here");
        let acts = if calls.len() > 1 {
            calls.pop_front()
        } else {
            calls.front().cloned()
        };
        let running = Running::begin(self.0.clone());
        let acts = stream::iter(acts.expect("an act for this call")).then(move |act| {
            let (pair, cancel, server) =
                (running.0.clone(), context.cancel.clone(), server.clone());
            let folder = folder.clone();
            async move {
                match act {
                    Act::Tells(event) => Ok(*event),
                    Act::Does(change) => {
                        change(Path::new(&folder));
                        Ok(Event::Notice("busy".to_owned()))
                    }
                    Act::Uses(tool, args) => {
                        let mut client = Client::start(&server.program, &server.args);
                        client.introduce().await;
                        let (failed, said) = client.call(tool, args).await;
                        assert!(!failed, "{said}");
                        Ok(Event::Notice("done".to_owned()))
                    }
                    Act::Mails(body) => {
                        let mut client = Client::start(&server.program, &server.args);
                        client.introduce().await;
                        let (failed, said) = client.call("send_email", reply(&body)).await;
                        assert!(!failed, "{said}");
                        Ok(Event::Notice("mailed".to_owned()))
                    }
                    Act::Fails(class) => Err(broken(class, "it broke")),
                    Act::Hangs => {
                        pair.quiet.notify_one();
                        cancel.cancelled().await;
                        Err(broken(ErrorClass::Cancelled, "cancelled"))
                    }
                    Act::Tidies => {
                        pair.quiet.notify_one();
                        cancel.cancelled().await;
                        let busy = std::future::pending::<()>();
                        let _done = tokio::time::timeout(Duration::from_millis(1500), busy).await;
                        pair.has_tidied.store(true, Ordering::SeqCst);
                        Err(broken(ErrorClass::Cancelled, "cancelled"))
                    }
                    Act::IsDeaf => {
                        pair.quiet.notify_one();
                        std::future::pending().await
                    }
                }
            }
        });
        acts.boxed()
    }
}

/// Alive as long as the stream of a call: what would be the process group.
struct Running(Arc<StepPair>);

impl Running {
    fn begin(pair: Arc<StepPair>) -> Self {
        let now = pair.running.fetch_add(1, Ordering::SeqCst) + 1;
        pair.most_at_once.fetch_max(now, Ordering::SeqCst);
        Self(pair)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

pub fn tells(event: Event) -> Act {
    Act::Tells(Box::new(event))
}
pub fn starts() -> Act {
    tells(Event::Started {
        provider_request_id: None,
        model: "agent-1".into(),
    })
}
pub fn session(id: &str) -> Act {
    tells(Event::Session(id.into()))
}
pub fn calls(id: &str, name: &str) -> Act {
    let args = ToolArgs::Object(
        json!({ "what": id })
            .as_object()
            .expect("an object")
            .clone(),
    );
    tells(Event::ObservedCall {
        id: id.into(),
        name: name.into(),
        args,
    })
}
pub fn result(id: &str, content: &str) -> Act {
    tells(Event::ObservedResult {
        id: id.into(),
        content: content.into(),
        is_error: false,
    })
}
pub fn fails(id: &str, content: &str) -> Act {
    tells(Event::ObservedResult {
        id: id.into(),
        content: content.into(),
        is_error: true,
    })
}
/// Its model has answered, for so many millionths of a dollar.
pub fn round(cost_micros: i64, goes_on: bool) -> Act {
    let usage = TokenUsage {
        output_tokens: 5,
        cost_micros: Some(cost_micros),
        ..TokenUsage::default()
    };
    tells(Event::Round { usage, goes_on })
}
pub fn says(text: &str) -> Act {
    tells(Event::TextDelta(text.into()))
}
pub fn ends(text: &str) -> Act {
    tells(Event::Finished(Response {
        blocks: vec![Block::text(text)],
        stop: FinishReason::EndTurn,
        usage: TokenUsage {
            output_tokens: 7,
            cost_micros: Some(1_000),
            ..TokenUsage::default()
        },
        model_served: "agent-1".into(),
        provider_request_id: None,
        breakdown: Vec::new(),
        session_usage: None,
    }))
}

/// An engine whose one provider is the agent.
pub struct House {
    pub app: TestApp,
    pub pair: Arc<StepPair>,
}

impl House {
    pub async fn new(tier: &str, calls: Vec<Vec<Act>>) -> Self {
        Self::with(tier, json!({}), calls).await
    }

    pub async fn with(tier: &str, budget: Value, calls: Vec<Vec<Act>>) -> Self {
        let workspace = Workspace::new(&json!({ "turns": [] })).talkative();
        workspace.set(
            "configs/inference.json",
            "/providers",
            json!({ "scripted": { "script": "configs/script.json", "tier": tier } }),
        );
        workspace.set("configs/inference.json", "/budget", budget);
        let pair = Arc::new(StepPair {
            calls: Mutex::new(calls.into()),
            ..StepPair::default()
        });
        let _unset_before = workspace.scripted.set(Arc::new(Agent(pair.clone())));
        Self {
            app: workspace.start().await,
            pair,
        }
    }

    pub fn deps(&self) -> Arc<WorkerDeps> {
        let engine = &self.app.engine;
        let mut config = (*engine.config).clone();
        config.program = PROGRAM.into();
        let deps = WorkerDeps::set_up(engine.store.clone(), Arc::new(config), Arc::default());
        let mut deps = deps.expect("a desk");
        deps.providers
            .insert("scripted".to_owned(), Box::new(Agent(self.pair.clone())));
        Arc::new(deps)
    }

    /// Works off what is due.
    pub async fn work(&self) {
        self.app.workspace.clock.advance(Duration::from_millis(10));
        Worker::new(self.deps()).drain().await.expect("worked off");
        catch_up(&self.app);
        self.app.drain().await;
    }

    /// A letter, worked off; gives its run.
    pub async fn letter(&self, id: &str, more: &str) -> String {
        let letter = note(id, more, "Please look after it.");
        let letter = dated_by(&self.app.workspace.clock, &letter);
        let run = self.app.run_of(&letter).await;
        self.work().await;
        run
    }

    pub async fn restart(self) -> Self {
        Self {
            app: self.app.restart().await,
            pair: self.pair,
        }
    }
}

fn broken(class: ErrorClass, why: &str) -> ProviderError {
    ProviderError::new(class, Phase::MidStream, why)
}
