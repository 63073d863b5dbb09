//! The tools of one run as MCP has them. A call is recorded before it is executed, its result with its effect.

use crate::config::Persona;
use crate::domain::ErrorClass;
use crate::harness::desk::{Desk, RunError};
use crate::harness::gate::{self, Asked, Gate, Verdict};
use crate::harness::label::RunLabel;
use crate::harness::providers::ToolArgs;
use crate::harness::reply;
use crate::harness::resolvers::Subject;
use crate::harness::resolvers::words::WordsRead;
use crate::harness::work::words_of_context;
use crate::store::{ClaimedRun, Entry, Executor, NewCall, PersonaStore, RunKey, Step, StepKind, StoreError};
use crate::tools::{Tool, ToolClass};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// What one run may do.
pub struct Toolbox {
    desk: Desk,
    run: ClaimedRun,
    key: RunKey,
    store: PersonaStore,
    persona: Persona,
    subject: Subject,
    /// Of the run as its agent was asked.
    label: RunLabel,
    tools: Vec<&'static dyn Tool>,
    cancel: CancellationToken,
    /// Agents call tools side by side; here one follows the other, as in the engine's own loop.
    turn: Mutex<()>,
}

impl Toolbox {
    /// Loads what the run is about.
    pub async fn open(desk: Desk, run: ClaimedRun) -> Result<Self, RunError> {
        let store = desk.store.persona(&run.persona);
        let about = store.trigger_message(&run.trigger_message, &desk.config.gateway.owners).await?;
        let subject = Subject::of(run.trigger, about);
        let persona = desk.persona(&run.persona)?;
        let held_to = desk.terms_of(&run).await?;
        let first_request = store.journal_so_far(&run.id).await?.first_request_json;
        let words = first_request.map_or(Ok(WordsRead::default()), |json| words_of_context(&json))?;
        let label = RunLabel::of(&subject);
        let (persona, tools) = (persona.clone(), desk.tools(persona, &held_to.run_terms, label));
        let key = RunKey { run: run.id.clone(), trigger_message: run.trigger_message.clone() };
        let cancel = CancellationToken::new();
        let label = label.having_read(words);
        Ok(Self { desk, run, key, store, persona, subject, label, tools, cancel, turn: Mutex::new(()) })
    }

    /// Executes one call through the gate; gives its recorded result.
    async fn call(&self, name: &str, args: JsonObject) -> Result<String, RunError> {
        let _alone = self.turn.lock().await;
        let args = ToolArgs::of(args);
        let (mails, replied) = self.store.mails_so_far(&self.run.id).await?;
        let label = self.label.after_all(&self.store.steps_of_run(&self.run.id).await?);
        let gate = self.gate(label, mails as usize, replied);
        let policy = reply::mail_policy(&gate).await?;
        // A call that is cut off here is not taken up again, because the agent's loop is not ours; but what it would have left
        // is written down, so that its owner is told and its file is known.
        let asked = Asked { id: "", name, args: &args, begun: None };
        let call = NewCall {
            executor: Executor::Engine,
            tool_name: name.to_owned(),
            payload_json: gate::call_payload(&args, gate::begin(&gate, asked, &policy).await),
        };
        let id = self.store.record_call(&self.key, call).await?;
        let verdict = match self.store.calls_so_far(&self.run.id).await? {
            calls if calls > self.desk.config.inference.budget.tool_calls_max => gate::used_up(),
            _ => {
                let asked = Asked { id: &id, ..asked };
                match self.tools.iter().find(|tool| tool.name() == name) {
                    Some(tool) if self.asks_again(*tool, asked).await? => gate::not_again(),
                    _ => gate::execute(&gate, asked, &policy).await?,
                }
            }
        };
        match self.conclude(&gate, name, &id, verdict).await {
            // Another server of this run has sent the last one meanwhile.
            Err(RunError::Store(StoreError::MailsUsedUp { max })) => {
                self.conclude(&gate, name, &id, gate::no_more_mails(max)).await
            }
            concluded => concluded,
        }
    }

    /// Whether this asks for what may have happened already, of a tool that must not be run twice.
    async fn asks_again(&self, tool: &dyn Tool, asked: Asked<'_>) -> Result<bool, RunError> {
        if tool.class() != ToolClass::Once {
            return Ok(false);
        }
        let steps = self.store.steps_of_run(&self.run.id).await?;
        Ok(gate::asks_again(tool, &steps, asked.name, asked.args))
    }

    /// Commits a call's result with its effect, all or nothing.
    async fn conclude(
        &self,
        gate: &Gate<'_>,
        name: &str,
        id: &str,
        verdict: Verdict,
    ) -> Result<String, RunError> {
        let (payload, outcome, _ends_the_run) = gate::settle(verdict, name);
        let mut entries = vec![Entry::Step(Step {
            kind: StepKind::Result,
            executor: Executor::Engine,
            tool_name: name.to_owned(),
            tool_call_id: id.to_owned(),
            payload_json: payload.clone(),
        })];
        if let Some(draft) = outcome.and_then(|outcome| outcome.mail) {
            entries.push(Entry::Mail(Box::new(reply::outbound(gate, draft)?)));
        }
        self.store.journal(&self.key, entries).await?;
        Ok(payload)
    }

    fn gate(&self, label: RunLabel, mails_sent: usize, replied: bool) -> Gate<'_> {
        Gate {
            desk: &self.desk,
            run: &self.run,
            persona: &self.persona,
            subject: &self.subject,
            tools: &self.tools,
            label,
            cancel: &self.cancel,
            mails_sent,
            replied,
            pending: &[],
        }
    }
}

impl ServerHandler for Toolbox {
    fn get_info(&self) -> ServerConfig {
        let server = Implementation::new("attache", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build()).with_server_info(server)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.iter().map(|tool| described(*tool)).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let called = self.call(&request.name, request.arguments.unwrap_or_default()).await;
        let payload = called.unwrap_or_else(|error| {
            tracing::warn!(run = %self.run.id, tool = %request.name, %error, "a call came to nothing");
            not_done(&request.name, &error)
        });
        let content = vec![ContentBlock::text(payload.clone())];
        let result = match gate::is_failure(&payload) {
            true => CallToolResult::error(content),
            false => CallToolResult::success(content),
        };
        Ok(result.into())
    }
}

fn described(tool: &dyn Tool) -> rmcp::model::Tool {
    let schema = match tool.input_schema() {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    };
    let hints = ToolAnnotations::new().read_only(tool.class() == ToolClass::Repeatable);
    rmcp::model::Tool::new(tool.name(), tool.description(), schema).with_annotations(hints)
}

/// For the agent: why nothing was done. What is wrong with our database is for our log only.
fn not_done(name: &str, error: &RunError) -> String {
    let message = match error.class() {
        ErrorClass::Store => {
            "nothing was done: the engine does not work on this run any more, or cannot store it"
        }
        _ => "nothing was done: the call cannot be executed here",
    };
    let verdict = Verdict::Failed { code: "not_done", message: message.to_owned() };
    let (payload, ..) = gate::settle(verdict, name);
    payload
}
