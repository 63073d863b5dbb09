//! Tool policy: the only way to a tool, for calls of our own loop and of an agent through
//! `attache mcp serve`: schema, mail policy, limits, and the form of a result.
//!
//! Absent on purpose: writing. The caller records the call before and commits the result with its
//! effect.

use super::context::ToolCallContext;
use super::decide::decide;
use super::draft;
use super::execution::CallOrder;
use super::facts;
use super::links;
use super::memory;
use super::redirects::{NoRedirect, RedirectsOfCall};
use super::verdict::{JudgedCall, ToolVerdict, call_payload};
use crate::policy::{NEW_RECIPIENT, PolicyDecision, PolicyEffect};
use crate::providers::ToolArgs;
use crate::providers::contract::thoughts;
use crate::runs::approvals::{kept, plan};
use crate::runs::env::RecordedPayload;
use crate::runs::error::RunError;
use crate::runs::hooks::of_call;
use crate::runs::hooks::panel::PanelDecision;
use crate::runs::label::RunLabel;
use crate::runs::said::frames;
use crate::runs::said::letter::{self, LastText, NO_LETTER, NoLetter};
use crate::store::files::workspace::WorkspaceQuota;
use crate::store::{Executor, JournalEntry, Step, StepKind, StoreError};
use crate::tools::{
    self, KeptWorkspace, MailDraft, MailPolicy, RegisteredTool, ToolClass, ToolError, ToolLimits,
    ToolOutcome, WriteOrigin,
};
use serde_json::{Map, Value};

/// Returns the verdict on a mail when another process of this run has sent the last permitted one.
pub fn no_more_mails(max: u32) -> ToolVerdict {
    ToolVerdict::Failed {
        code: tools::MAIL_LIMIT_REACHED,
        message: tools::no_more_mails(max as usize),
    }
}

/// One call as the model requested it.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub id: &'a str,
    pub name: &'a str,
    pub args: &'a ToolArgs,
    /// Expected effects, when an earlier attempt began it.
    pub begun: Option<&'a Value>,
    /// `true`: the owner has said yes to it.
    pub is_approved: bool,
}

impl<'a> Asked<'a> {
    pub fn new(id: &'a str, name: &'a str, args: &'a ToolArgs) -> Self {
        Self {
            id,
            name,
            args,
            begun: None,
            is_approved: false,
        }
    }

    /// Returns a row of the call.
    pub fn step(self, kind: StepKind, payload_json: String) -> JournalEntry {
        JournalEntry::Step(Step {
            kind,
            executor: Executor::Engine,
            tool_name: self.name.to_owned(),
            tool_call_id: self.id.to_owned(),
            payload_json,
        })
    }

    /// Returns the row with which the call begins, unless an earlier attempt has recorded it.
    pub fn entry(
        self,
        judged: Option<&JudgedCall>,
        expected: Option<&Value>,
    ) -> Option<JournalEntry> {
        let payload = || call_payload(self.args, expected, judged);
        self.begun
            .is_none()
            .then(|| self.step(StepKind::Call, payload()))
    }
}

/// What becomes of a call, before it is recorded; with the decision on it, unless no rule could decide.
pub enum PreparedCall {
    /// It is executed, with expected effects, so that its outcome can be verified after a crash; `None` for tools that may
    /// simply be run again.
    Call(Option<JudgedCall>, Option<Value>),
    /// It has ended: refused, or the draft of a mail that may be queued.
    Ended(ToolVerdict, Option<JudgedCall>),
    /// The owner is asked first; `Some`: for a mail, as drafted.
    Ask(Option<Box<ToolOutcome>>, JudgedCall),
    /// Its mail waits as a draft.
    Draft(Box<ToolOutcome>, JudgedCall),
}

impl PreparedCall {
    fn failed(code: &'static str, message: String) -> Self {
        Self::Ended(ToolVerdict::Failed { code, message }, None)
    }

    /// Returns the payload of the row with which the call begins.
    pub fn payload(&self, args: &ToolArgs) -> String {
        let (judged, expected) = match self {
            Self::Call(judged, expected) => (judged.as_ref(), expected.as_ref()),
            Self::Ended(_, judged) => (judged.as_ref(), None),
            Self::Ask(_, judged) | Self::Draft(_, judged) => (Some(judged), None),
        };
        call_payload(args, expected, judged)
    }
}

/// Decides on a call: schema, label, rules and table. It changes nothing: a draft is a value.
pub async fn prepare(
    ctx: &ToolCallContext<'_>,
    asked: Asked<'_>,
    mail: &MailPolicy,
) -> Result<PreparedCall, RunError> {
    let Some(tool) = ctx.tools.iter().find(|tool| tool.name() == asked.name) else {
        return Ok(PreparedCall::Ended(not_offered(ctx, asked.name), None));
    };
    if let Some(why) = ctx.label.closed(tool) {
        return Ok(PreparedCall::Ended(closed(asked.name, why), None));
    }
    if let Some(message) = ctx.label.narrowed(asked.name) {
        return Ok(PreparedCall::failed(SKILL_NARROWS, message));
    }
    let args = match checked_args(tool, asked.args) {
        Ok(args) => args,
        Err((code, message)) => return Ok(PreparedCall::failed(code, message)),
    };
    let mail = mail_for_call(ctx, mail);
    let order = order(ctx, asked.id, tool, args, &mail);
    if let Some(recorded) = ctx.deps.env.recorded_call(asked.id) {
        return recorded_decision(recorded, asked);
    }
    if ctx.deps.env.is_recorded() {
        // Beyond the end of the record, which says so when the call is to be recorded.
        return Ok(PreparedCall::Call(None, None));
    }
    judge(ctx, asked, tool, args, &order, &mail).await
}

/// Decides on a call that can be made: hooks, rules, table and plan.
async fn judge(
    ctx: &ToolCallContext<'_>,
    asked: Asked<'_>,
    tool: &RegisteredTool,
    args: &Map<String, Value>,
    order: &CallOrder<'_>,
    mail: &MailPolicy,
) -> Result<PreparedCall, RunError> {
    let ended = |code, message| Ok(PreparedCall::failed(code, message));
    let before = match of_call::before(ctx, asked.name, args).await? {
        PanelDecision::Deny(refusal) => return ended(refusal.code, refusal.message),
        PanelDecision::Ask(why) => Some(why),
        PanelDecision::Allow => None,
    };
    let drafted = match draft::of_call(ctx, tool, order).await? {
        Ok(drafted) => drafted,
        Err(verdict) => return Ok(PreparedCall::Ended(verdict, None)),
    };
    if let Some(message) = no_letter(drafted.outcome.as_deref()) {
        return ended(NO_LETTER, message);
    }
    // A draft may hold what the run has not read before, such as a forwarded mail.
    let with_draft = ToolCallContext {
        label: match &drafted.outcome {
            Some(outcome) => ctx.label.clone().having_read(outcome.label.clone()),
            None => ctx.label.clone(),
        },
        ..ctx.clone()
    };
    let ctx = &with_draft;
    let draft = drafted.mail.as_ref();
    let facts = facts::of_call(ctx, tool, args);
    let mut facts = links::with_link(ctx, tool, args, facts).await?;
    if let Some(draft) = draft {
        facts = facts::of_mail(facts, &ctx.label, draft, mail);
    }
    let decision = decide(ctx, asked.name, &facts).await?;
    let planned = match plan::is_first(ctx.persona, ctx.options) {
        true => plan::applied(ctx.approvals, tool, draft, decision),
        false => Ok(decision),
    };
    let mut decision = match planned {
        Ok(decision) => decision,
        Err(why) => return ended(PLAN_FIRST, why.to_owned()),
    };
    decision = match draft {
        Some(draft) => kept::applied(ctx, draft, decision),
        None => decision,
    };
    if let Some(draft) = draft.filter(|_| decision.effect.may_happen()) {
        match of_call::before_send(ctx, asked.name, draft).await? {
            PanelDecision::Deny(refusal) => return ended(refusal.code, refusal.message),
            PanelDecision::Ask(why) => of_call::raise(&mut decision, why),
            PanelDecision::Allow => {}
        }
    }
    if let Some(why) = before {
        of_call::raise(&mut decision, why);
    }
    let judged = JudgedCall { decision, facts };
    let asks = ctx.deps.env.asks_owner();
    Ok(match (judged.decision.effect, drafted.outcome) {
        (PolicyEffect::Deny | PolicyEffect::Hide, _) => {
            let verdict = denied(&judged.decision, draft, mail, &ctx.label);
            PreparedCall::Ended(verdict, Some(judged))
        }
        (PolicyEffect::Draft, Some(outcome)) if asks && outcome.mail.is_some() => {
            PreparedCall::Draft(outcome, judged)
        }
        (PolicyEffect::Ask | PolicyEffect::Draft, outcome) if asks => {
            PreparedCall::Ask(outcome, judged)
        }
        (_, Some(outcome)) => PreparedCall::Ended(ToolVerdict::Done(*outcome), Some(judged)),
        (_, None) => {
            let expected = ctx.deps.env.expected_effects(order).await;
            PreparedCall::Call(Some(judged), expected)
        }
    })
}

/// Returns what is wrong with the text of a mail that is none: the model can write it again. What it repeats or sends as JSON it
/// may have been asked for.
fn no_letter(outcome: Option<&ToolOutcome>) -> Option<String> {
    let draft = outcome?.mail.as_deref()?;
    if thoughts::has_reasoning(&draft.body) {
        return Some(
            "the text holds your reasoning, and it is mailed as it stands: write the letter alone"
                .to_owned(),
        );
    }
    if frames::has_headers(&draft.body) {
        return Some("the text begins with header fields, and it is mailed as it stands: write the letter alone, and its subject into `subject`".to_owned());
    }
    match letter::read(&draft.body, "") {
        LastText::NoLetter(
            fault @ (NoLetter::Call | NoLetter::Repeated | NoLetter::Placeholder),
        ) => Some(format!(
            "the text {}, and it is mailed as it stands: write it again",
            fault.why()
        )),
        _ => None,
    }
}

/// Returns the arguments of a call, if they are some. Errors: a code, and what is wrong with them.
fn checked_args<'a>(
    tool: &RegisteredTool,
    args: &'a ToolArgs,
) -> Result<&'a Map<String, Value>, (&'static str, String)> {
    match args {
        ToolArgs::Object(args) => match tool.check_args(args) {
            Ok(()) => Ok(args),
            Err(message) => Err(("invalid_arguments", message)),
        },
        ToolArgs::Malformed { error, .. } => {
            let message = format!("the arguments are not a JSON object: {error}");
            Err(("malformed_arguments", message))
        }
    }
}

/// Returns the recorded decision on a call: a recorded run is not decided on again.
fn recorded_decision(
    recorded: RecordedPayload,
    asked: Asked<'_>,
) -> Result<PreparedCall, RunError> {
    let was_asked = recorded
        .judged
        .as_ref()
        .is_some_and(|judged| judged.decision.effect == PolicyEffect::Ask);
    // A draft parks nothing: its result is in the record.
    if was_asked && asked.begun.is_none() {
        // The recorded attempt ended here, to wait for its owner.
        return Err(StoreError::Closed.into());
    }
    Ok(PreparedCall::Call(recorded.judged, recorded.expected))
}

/// Returns the verdict on a call that the policy refuses. Where the table refuses a recipient, the model learns whom it may
/// write to.
fn denied(
    decision: &PolicyDecision,
    draft: Option<&MailDraft>,
    mail: &MailPolicy,
    label: &RunLabel,
) -> ToolVerdict {
    if let (None, Some(draft)) = (&decision.rule, draft) {
        let refused = match decision.code == NEW_RECIPIENT {
            true => facts::outsider(draft, mail)
                .map(|address| tools::recipient_not_allowed(address, mail)),
            false => facts::no_reader(draft, mail, label)
                .map(|address| tools::recipient_no_reader(address, mail)),
        };
        if let Some(ToolError::Mendable { code, message }) = refused {
            return ToolVerdict::Failed { code, message };
        }
    }
    let message = format!(
        "not allowed: {}; another try in this run will not help, so finish without it",
        decision.why
    );
    ToolVerdict::Failed {
        code: DENIED,
        message,
    }
}

/// Returns the recipients by the label, and the mails of the run so far.
fn mail_for_call(ctx: &ToolCallContext<'_>, mail: &MailPolicy) -> MailPolicy {
    ctx.label.limit(MailPolicy {
        mails_sent: ctx.mails_sent,
        ..mail.clone()
    })
}

fn order<'a>(
    ctx: &ToolCallContext<'a>,
    id: &'a str,
    tool: &'a RegisteredTool,
    args: &'a Map<String, Value>,
    mail: &'a MailPolicy,
) -> CallOrder<'a> {
    let limits = &ctx.deps.config.limits;
    let timeouts = &ctx.deps.config.inference.tool_timeouts;
    CallOrder {
        run: ctx.run,
        id,
        tool,
        args,
        mail,
        limits: ToolLimits {
            result_bytes_max: limits.tool_result_bytes_max,
            file_bytes_max: limits.file_bytes_max,
            memory_bytes_max: limits.memory_bytes_max,
            attachments_bytes_max: limits.attachments_bytes_max,
            duration_max: timeouts.timeout_for(tool.name(), tool.timeout()),
        },
        origin: ctx.label.origin(ctx.subject),
        reader: ctx.label.reader(),
        redirects: &NoRedirect,
        begun: None,
        cancel: ctx.cancel,
        workspace: KeptWorkspace {
            folder: &ctx.persona.folder,
            quota: WorkspaceQuota::from(limits),
        },
        zone: ctx.persona.timezone,
        skills: &ctx.persona.skills,
        memory: memory::place(ctx.subject),
    }
}

/// Returns the expected effects of a call that was approved and begins.
pub async fn expected(
    ctx: &ToolCallContext<'_>,
    asked: Asked<'_>,
    mail: &MailPolicy,
) -> Option<Value> {
    let tool = ctx.tools.iter().find(|tool| tool.name() == asked.name)?;
    let ToolArgs::Object(args) = asked.args else {
        return None;
    };
    let order = CallOrder {
        origin: origin(ctx, asked),
        ..order(ctx, asked.id, tool, args, mail)
    };
    ctx.deps.env.expected_effects(&order).await
}

/// Returns the origin of what a call writes.
fn origin(ctx: &ToolCallContext<'_>, asked: Asked<'_>) -> WriteOrigin {
    match asked.is_approved {
        true => ctx.label.clone().approved().origin(ctx.subject),
        false => ctx.label.origin(ctx.subject),
    }
}

/// Executes a call that is recorded and that [`prepare`] permitted.
pub async fn execute(
    ctx: &ToolCallContext<'_>,
    asked: Asked<'_>,
    mail: &MailPolicy,
) -> Result<ToolVerdict, RunError> {
    let tool = ctx.tools.iter().find(|tool| tool.name() == asked.name);
    let (Some(tool), ToolArgs::Object(args)) = (tool, asked.args) else {
        return Ok(not_offered(ctx, asked.name));
    };
    let mail = mail_for_call(ctx, mail);
    let redirects = RedirectsOfCall { ctx, tool };
    let order = CallOrder {
        origin: origin(ctx, asked),
        redirects: &redirects,
        begun: asked.begun,
        ..order(ctx, asked.id, tool, args, &mail)
    };
    ctx.deps.env.call(&order).await
}

/// Returns the verdict on a call of a tool that the run was not offered: it lists the offered ones.
/// It counts as a failure and as an unusable call, so that a model which goes on inventing tools is
/// stopped.
fn not_offered(ctx: &ToolCallContext<'_>, name: &str) -> ToolVerdict {
    let is_closed = ctx.deps.tools.iter().find(|tool| tool.name() == name);
    let is_closed = is_closed.and_then(|tool| ctx.label.closed(tool));
    if let Some(why) = is_closed {
        return closed(name, why);
    }
    let offered: Vec<&str> = ctx.tools.iter().map(|tool| tool.name()).collect();
    if offered.is_empty() {
        let message = "this run has no tools; answer in words".to_owned();
        return ToolVerdict::Failed {
            code: UNKNOWN_TOOL,
            message,
        };
    }
    let shown: String = name
        .chars()
        .filter(|c| !c.is_control())
        .take(SHOWN_NAME_CHARS)
        .collect();
    let nearness = |offered: &str| strsim::jaro_winkler(offered, &shown.to_lowercase());
    let mut near: Vec<&str> = offered
        .iter()
        .copied()
        .filter(|offered| nearness(offered) > NEAR)
        .collect();
    near.sort_by(|a, b| nearness(b).total_cmp(&nearness(a)));
    let near = match near.is_empty() {
        true => String::new(),
        false => format!(
            "did you mean `{}`; ",
            near[..near.len().min(NEAREST)].join("` or `")
        ),
    };
    let message = format!("no tool `{shown}`; {near}there are: {}", offered.join(", "));
    ToolVerdict::Failed {
        code: UNKNOWN_TOOL,
        message,
    }
}

fn closed(name: &str, why: &str) -> ToolVerdict {
    let message = format!("`{name}` is closed to this run: {why}");
    ToolVerdict::Failed {
        code: "tool_closed",
        message,
    }
}

/// Error code of a call before an owner has approved a plan.
const PLAN_FIRST: &str = "plan_first";
/// Error code of a call that the policy refuses.
pub const DENIED: &str = "policy_denied";
/// Error code of a call of a tool that a used skill leaves out.
const SKILL_NARROWS: &str = "skill_narrows";
/// Error code of a call to an unknown tool.
pub const UNKNOWN_TOOL: &str = "unknown_tool";
const SHOWN_NAME_CHARS: usize = 64;
/// Lowest similarity of a name that is suggested instead, from 0 to 1.
const NEAR: f64 = 0.8;
const NEAREST: usize = 3;

/// Returns the verdict on a call that is not even decided on: one too many, or one that repeats a call with an unknown outcome,
/// of a tool that must not be run twice. `steps`: those of the run so far.
pub fn refused_unseen(
    ctx: &ToolCallContext<'_>,
    asked: Asked<'_>,
    calls_max: u32,
    steps: &[Step],
) -> Option<ToolVerdict> {
    if ctx.calls >= calls_max {
        let message = "this run has used up the number of tool calls it may make";
        return Some(ToolVerdict::Failed {
            code: "limit",
            message: message.to_owned(),
        });
    }
    let tool = ctx.tools.iter().find(|tool| tool.name() == asked.name)?;
    asks_again(tool, steps, asked.name, asked.args).then(|| {
        let message = "the same call was cut off before and may have taken effect, so it is not made a second time in this \
            run; finish without it and say so";
        ToolVerdict::Failed {
            code: "not_again",
            message: message.to_owned(),
        }
    })
}

/// Reports whether a call repeats one with an unknown outcome, of a tool that must not be run
/// twice.
fn asks_again(tool: &RegisteredTool, steps: &[Step], name: &str, args: &ToolArgs) -> bool {
    let read = |step: &Step| serde_json::from_str::<Value>(&step.payload_json).unwrap_or_default();
    let ToolArgs::Object(args) = args else {
        return false;
    };
    let is_same = |id: &str| {
        let call = |step: &&Step| step.kind == StepKind::Call && step.tool_call_id == id;
        steps.iter().find(call).is_some_and(|step| {
            step.tool_name == name
                && read(step)["args"]
                    .as_object()
                    .is_some_and(|before| before == args)
        })
    };
    tool.class() == ToolClass::Once
        && steps
            .iter()
            .any(|step| step.is_in_doubt() && is_same(&step.tool_call_id))
}
