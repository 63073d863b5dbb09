//! Tools of one run over MCP. A call is recorded before it is executed, its result with its effect.

use crate::config::Persona;
use crate::context::resolvers::Subject;
use crate::domain::TextLabel;
use crate::domain::{ErrorClass, RunOptions};
use crate::providers::ToolArgs;
use crate::runs::approvals::{ask, kept};
use crate::runs::checkpoint::words_of_context;
use crate::runs::deps::WorkerDeps;
use crate::runs::error::RunError;
use crate::runs::hooks::of_call;
use crate::runs::label::RunLabel;
use crate::runs::offered::{self, ToolsOrder};
use crate::runs::reply::mail;
use crate::runs::tool_calls::context::ToolCallContext;
use crate::runs::tool_calls::policy::{self, Asked, PreparedCall};
use crate::runs::tool_calls::verdict::{JudgedCall, ToolVerdict, finish, is_failure};
use crate::store::{
    ClaimedRun, Executor, JournalEntry, NewCall, PersonaStore, RunKey, Step, StepKind, StoreError,
};
use crate::tools::{MailPolicy, NO_ANSWER, RegisteredTool, ToolClass, ToolOutcome};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerConfig, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// Tools and permissions of one run.
pub struct Toolbox {
    deps: WorkerDeps,
    run: ClaimedRun,
    key: RunKey,
    store: PersonaStore,
    persona: Persona,
    subject: Subject,
    /// Label of the run when its agent was asked.
    label: RunLabel,
    tools: Vec<Arc<RegisteredTool>>,
    /// Maximum tool calls of the run.
    tool_calls_max: u32,
    options: RunOptions,
    cancel: CancellationToken,
    /// Agents call tools concurrently; here one call follows the other, as in the engine's own
    /// loop.
    turn: Mutex<()>,
}

impl Toolbox {
    /// Loads the subject of the run.
    pub async fn open(deps: WorkerDeps, run: ClaimedRun) -> Result<Self, RunError> {
        let store = deps.store.persona(&run.persona);
        let about = store
            .trigger_message(&run.trigger_message, &deps.config.gateway.owners)
            .await?;
        let subject = Subject::of(run.trigger, about);
        let persona = deps.persona(&run.persona)?;
        let run_options = deps.options_of(&run).await?;
        let first_request = store.journal_so_far(&run.id).await?.first_request_json;
        let words =
            first_request.map_or(Ok(TextLabel::default()), |json| words_of_context(&json))?;
        let label = RunLabel::of(&subject);
        let whose = (persona, &run_options.run_options);
        // A provider's block has no bound on tool calls.
        let settings = deps
            .config
            .inference
            .settings_in_force(whose, run.trigger, "");
        deps.env.try_commands(persona).await;
        let order = ToolsOrder {
            run: &run,
            persona,
            options: &run_options.run_options,
            subject: &subject,
            label: &label,
            first_request: None,
        };
        let mut tools = offered::offered(&deps, order).await?;
        // An agent cannot wait for its owner, and ends by itself.
        tools.retain(|tool| !tool.declaration().capabilities.owner && tool.name() != NO_ANSWER);
        let persona = persona.clone();
        let key = RunKey {
            run: run.id.clone(),
            trigger_message: run.trigger_message.clone(),
        };
        let cancel = CancellationToken::new();
        let label = label.having_read(words);
        Ok(Self {
            deps,
            run,
            key,
            store,
            persona,
            subject,
            label,
            tools,
            tool_calls_max: settings.tool_calls_max.value,
            options: run_options.run_options,
            cancel,
            turn: Mutex::new(()),
        })
    }

    /// Executes one call through the tool policy; returns its recorded result.
    async fn call(&self, name: &str, args: JsonObject) -> Result<String, RunError> {
        let _alone = self.turn.lock().await;
        let args = ToolArgs::from_object(args);
        let (mails, replied) = self.store.mails_so_far(&self.run.id).await?;
        let steps = self.store.steps_of_run(&self.run.id).await?;
        let label = self.label.clone().after_all(&self.deps.tools, &steps);
        let calls = self.store.calls_so_far(&self.run.id).await?;
        let ctx = self.ctx(label, calls, mails as usize, replied);
        let mail = mail::mail_policy(&ctx).await?;
        // A call that is cut off here is not resumed, because the agent's loop is not ours; but its
        // expected effects are recorded, so that its owner is notified and its file is known.
        let asked = Asked::new("", name, &args);
        let refused = policy::refused_unseen(&ctx, asked, self.tool_calls_max, &steps);
        let prepared = match refused {
            Some(verdict) => PreparedCall::Ended(verdict, None),
            None => policy::prepare(&ctx, asked, &mail).await?,
        };
        let call = NewCall {
            executor: Executor::Engine,
            tool_name: name.to_owned(),
            payload_json: prepared.payload(&args),
        };
        let id = self.store.record_call(&self.key, call).await?;
        let asked = Asked { id: &id, ..asked };
        let verdict = match prepared {
            PreparedCall::Ended(verdict, _) => verdict,
            PreparedCall::Ask(outcome, judged) => {
                let outcome = outcome.map(|outcome| *outcome);
                self.ask(&ctx, asked, &judged, outcome, &mail).await?
            }
            PreparedCall::Draft(outcome, judged) => {
                self.keep_draft(&ctx, asked, &judged, *outcome, &mail)
                    .await?
            }
            PreparedCall::Call(..) => policy::execute(&ctx, asked, &mail).await?,
        };
        let verdict = of_call::after(&ctx, name, verdict).await?;
        match self.conclude(&ctx, name, &id, verdict).await {
            // Another server of this run has sent the last permitted mail meanwhile.
            Err(RunError::Store(StoreError::MailsUsedUp { max })) => {
                self.conclude(&ctx, name, &id, policy::no_more_mails(max))
                    .await
            }
            concluded => concluded,
        }
    }

    /// Asks the owner about a mail. The agent goes on meanwhile: its process cannot wait for days. An approval sends the
    /// mail as it is.
    async fn ask(
        &self,
        ctx: &ToolCallContext<'_>,
        asked: Asked<'_>,
        judged: &JudgedCall,
        outcome: Option<ToolOutcome>,
        mail: &MailPolicy,
    ) -> Result<ToolVerdict, RunError> {
        if outcome
            .as_ref()
            .is_none_or(|outcome| outcome.mail.is_none())
        {
            let message = "this needs your owner's approval, for which an agent cannot wait; finish without it and say so";
            return Ok(ToolVerdict::Failed {
                code: "needs_approval",
                message: message.to_owned(),
            });
        }
        let approval = ask::of_call(ctx, asked, judged, outcome, mail, false, Duration::ZERO)?;
        let entry = JournalEntry::Ask(Box::new(approval));
        match self.store.journal(&self.key, vec![entry]).await {
            Ok(()) => Ok(ToolVerdict::Done(ToolOutcome {
                result: json!({
                    "queued": false,
                    "waits_for_owner": true,
                    "note": "your owner is asked; if they approve, the mail is sent as it is, so do not send it again",
                }),
                ..ToolOutcome::default()
            })),
            Err(StoreError::ApprovalsUsedUp) => Ok(ask::used_up()),
            Err(error) => Err(error.into()),
        }
    }

    /// Keeps the mail of a call as a draft.
    async fn keep_draft(
        &self,
        ctx: &ToolCallContext<'_>,
        asked: Asked<'_>,
        judged: &JudgedCall,
        outcome: ToolOutcome,
        mail: &MailPolicy,
    ) -> Result<ToolVerdict, RunError> {
        let shown = ask::draft_of_call(ctx, asked, judged, &outcome, mail)?;
        let entries = Vec::from(shown.kept.entries());
        match self.store.journal(&self.key, entries).await {
            Ok(()) => Ok(kept::done(outcome)),
            Err(StoreError::ApprovalsUsedUp) => Ok(kept::no_room()),
            Err(error) => Err(error.into()),
        }
    }

    /// Commits a call's result with its effect, all or nothing.
    async fn conclude(
        &self,
        ctx: &ToolCallContext<'_>,
        name: &str,
        id: &str,
        verdict: ToolVerdict,
    ) -> Result<String, RunError> {
        let (payload, outcome, _ends_the_run) = finish(verdict, name);
        let mut entries = vec![JournalEntry::Step(Step {
            kind: StepKind::Result,
            executor: Executor::Engine,
            tool_name: name.to_owned(),
            tool_call_id: id.to_owned(),
            payload_json: payload.clone(),
        })];
        let (draft, write) = outcome.map_or((None, None), |outcome| (outcome.mail, outcome.memory));
        entries.extend(write.map(JournalEntry::Memory));
        if let Some(draft) = draft {
            entries.push(JournalEntry::Mail(Box::new(mail::outbound(ctx, *draft)?)));
        }
        self.store.journal(&self.key, entries).await?;
        Ok(payload)
    }

    fn ctx(
        &self,
        label: RunLabel,
        calls: u32,
        mails_sent: usize,
        replied: bool,
    ) -> ToolCallContext<'_> {
        ToolCallContext {
            deps: &self.deps,
            run: &self.run,
            persona: &self.persona,
            subject: &self.subject,
            tools: &self.tools,
            label,
            // An agent cannot wait for an approved plan.
            options: &self.options,
            approvals: &[],
            cancel: &self.cancel,
            calls,
            mails_sent,
            replied,
            pending: &[],
        }
    }
}

impl ServerHandler for Toolbox {
    fn get_info(&self) -> ServerConfig {
        super::server_config()
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(
            self.tools.iter().map(|tool| described(tool)).collect(),
        ))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let called = self
            .call(&request.name, request.arguments.unwrap_or_default())
            .await;
        let payload = called.unwrap_or_else(|error| {
            tracing::warn!(run = %self.run.id, tool = %request.name, %error, "a call came to nothing");
            not_done(&request.name, &error)
        });
        let content = vec![ContentBlock::text(payload.clone())];
        let result = match is_failure(&payload) {
            true => CallToolResult::error(content),
            false => CallToolResult::success(content),
        };
        Ok(result.into())
    }
}

fn described(tool: &RegisteredTool) -> rmcp::model::Tool {
    let schema = match &**tool.input_schema() {
        Value::Object(schema) => schema.clone(),
        _ => JsonObject::new(),
    };
    let hints = ToolAnnotations::new().read_only(tool.class() == ToolClass::Repeatable);
    rmcp::model::Tool::new(
        tool.name().to_owned(),
        tool.description().to_owned(),
        schema,
    )
    .with_annotations(hints)
}

/// Formats the reason for the agent why nothing was done. A failure of our database goes to our log
/// only.
fn not_done(name: &str, error: &RunError) -> String {
    let message = match error.class() {
        ErrorClass::Store => {
            "nothing was done: the engine does not work on this run any more, or cannot store it"
        }
        _ => "nothing was done: the call cannot be executed here",
    };
    let verdict = ToolVerdict::Failed {
        code: "not_done",
        message: message.to_owned(),
    };
    let (payload, ..) = finish(verdict, name);
    payload
}
