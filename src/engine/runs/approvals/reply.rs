//! A final text that the policy decides on, like a call of a tool called `reply`.

use super::canonical::{CallIdentity, CanonicalCall};
use super::kept::{self, KeptDraft};
use super::question::{QuestionSubject, parked, question, refused_before};
use super::view;
use crate::config::REPLY;
use crate::domain::{Address, ApprovalKind, ReplyMode, Trigger, Withheld};
use crate::policy::{PolicyDecision, PolicyEffect};
use crate::runs::error::RunError;
use crate::runs::hooks::of_call;
use crate::runs::hooks::panel::PanelDecision;
use crate::runs::reply::destination;
use crate::runs::reply::mail::mail_policy;
use crate::runs::said::conversation::RunConversation;
use crate::runs::said::letter::NO_LETTER;
use crate::runs::state::LoopState;
use crate::runs::tool_calls::context::ToolCallContext;
use crate::runs::tool_calls::decide::decide;
use crate::runs::tool_calls::facts;
use crate::runs::tool_calls::verdict::JudgedCall;
use crate::store::{
    Executor, JournalEntry, MessageOutcome, NewOutbound, Step, StepKind, StoreError,
};
use crate::tools::MailDraft;
use serde_json::{Value, json};

/// What becomes of a final text.
pub enum ReplyDecision {
    /// It is stored as it is: sent, or withheld by an earlier rule.
    Store(Box<NewOutbound>),
    /// It was sent in the commit of its approval.
    Sent,
    /// It waits as a draft.
    Draft(Box<KeptDraft>),
}

/// Decides on a final text that is about to be mailed. A parked run comes here again with the owner's decision.
pub async fn judge(
    state: &mut LoopState<'_>,
    mail: NewOutbound,
) -> Result<ReplyDecision, RunError> {
    let agent = asking_agent(&state.ctx());
    if agent.is_none() && !matches!(mail.outcome, MessageOutcome::Send { .. }) {
        return Ok(ReplyDecision::Store(Box::new(mail)));
    }
    let draft = draft_to(&mail, agent.as_ref());
    let call_id = format!("r{}", state.spending.counters.turns);
    if let Some(result) = known_result(&state.conversation, &call_id) {
        return Ok(decided(mail, &result));
    }
    match state.input.deps.env.recorded_call(&call_id) {
        // The recorded attempt ended here, to wait for its owner.
        Some(_) => return Err(StoreError::Closed.into()),
        None if state.input.deps.env.is_recorded() => {
            return Ok(ReplyDecision::Store(Box::new(mail)));
        }
        None => {}
    }
    let asks = match of_call::before_send(&state.ctx(), REPLY, &draft).await? {
        PanelDecision::Deny(_) => {
            let mail = withheld(mail, Withheld::HookDenied);
            return Ok(ReplyDecision::Store(Box::new(mail)));
        }
        PanelDecision::Ask(why) => Some(why),
        PanelDecision::Allow => None,
    };
    if asks.is_none() && state.outbox.no_letter.is_none() && is_plain(&state.ctx()) {
        return Ok(ReplyDecision::Store(Box::new(mail)));
    }
    let mut judged = judgement(&state.ctx(), &draft).await?;
    if let Some(fault) = state.outbox.no_letter
        && !matches!(
            judged.decision.effect,
            PolicyEffect::Deny | PolicyEffect::Hide
        )
    {
        judged.decision = PolicyDecision {
            effect: PolicyEffect::Draft,
            rule: None,
            code: NO_LETTER.to_owned(),
            why: format!("the answer {}", fault.why()),
        };
    }
    if let Some(why) = asks {
        of_call::raise(&mut judged.decision, why);
    }
    match judged.decision.effect {
        PolicyEffect::Allow => Ok(ReplyDecision::Store(Box::new(mail))),
        PolicyEffect::Ask if agent.is_none() && state.input.deps.env.asks_owner() => {
            park(state, &call_id, judged, mail).await
        }
        PolicyEffect::Draft if agent.is_none() && state.input.deps.env.asks_owner() => {
            let kept = kept_reply(&state.ctx(), &call_id, &judged, mail).await?;
            Ok(ReplyDecision::Draft(Box::new(kept)))
        }
        PolicyEffect::Ask | PolicyEffect::Draft if agent.is_none() => {
            Ok(ReplyDecision::Store(Box::new(mail)))
        }
        // An agent does not wait for days.
        PolicyEffect::Ask | PolicyEffect::Draft | PolicyEffect::Deny | PolicyEffect::Hide => Ok(
            ReplyDecision::Store(Box::new(withheld(mail, Withheld::NotApproved))),
        ),
    }
}

/// Reports whether no mode, rule or label can hold a reply: nothing is computed for most letters.
fn is_plain(ctx: &ToolCallContext<'_>) -> bool {
    ctx.deps.config.policy.rules.is_empty()
        && ctx.persona.rules.is_empty()
        && ctx.label.readers.is_everyone()
        && ctx.persona.reply_under(ctx.options) != ReplyMode::Draft
}

/// Returns the address of the agent that asked; `None`: it was somebody else.
fn asking_agent(ctx: &ToolCallContext<'_>) -> Option<Address> {
    let is_question = ctx.run.trigger == Trigger::Chat;
    let asked = destination::answered(ctx).filter(|_| is_question);
    asked.and_then(|question| question.sender)
}

async fn judgement(ctx: &ToolCallContext<'_>, draft: &MailDraft) -> Result<JudgedCall, RunError> {
    let policy = ctx.label.limit(mail_policy(ctx).await?);
    let facts = facts::so_far(ctx)
        .with("class", "transactional")
        .with("effect", vec!["sends_out"]);
    let facts = facts::of_mail(facts, &ctx.label, draft, &policy);
    let decision = decide(ctx, REPLY, &facts).await?;
    let decision = match ctx.run.trigger {
        // An answer at the machine is no mail.
        Trigger::Chat => decision,
        _ => kept::applied(ctx, draft, decision),
    };
    Ok(JudgedCall { decision, facts })
}

/// Returns the text as a draft to an agent, or to the recipients of its mail.
fn draft_to(mail: &NewOutbound, agent: Option<&Address>) -> MailDraft {
    match agent {
        Some(agent) => MailDraft {
            to: vec![agent.clone()],
            cc: Vec::new(),
            ..draft_of(mail)
        },
        None => draft_of(mail),
    }
}

/// Returns the mail as a draft, for its facts and its view.
fn draft_of(mail: &NewOutbound) -> MailDraft {
    let recipients: Value = match &mail.outcome {
        MessageOutcome::Send { .. } => serde_json::from_str(&mail.content.recipients_json).ok(),
        MessageOutcome::Withhold(_) => None,
    }
    .unwrap_or_default();
    let people = |field: &str| {
        let listed = recipients[field].as_array().into_iter().flatten();
        let texts = listed.filter_map(Value::as_str);
        texts.filter_map(|text| Address::parse(text).ok()).collect()
    };
    MailDraft {
        to: people("to"),
        cc: people("cc"),
        subject: mail.content.subject.clone(),
        body: mail.content.text_body.clone(),
        is_reply: mail.place.is_none(),
        ..MailDraft::default()
    }
}

/// Returns the final text of a run as a draft.
async fn kept_reply(
    ctx: &ToolCallContext<'_>,
    call_id: &str,
    judged: &JudgedCall,
    mail: NewOutbound,
) -> Result<KeptDraft, RunError> {
    let policy = mail_policy(ctx).await?;
    let draft = draft_of(&mail);
    let subject = QuestionSubject {
        call_id,
        kind: ApprovalKind::Draft,
        tool: REPLY,
        canonical: canonical(ctx, call_id, &draft, &mail),
        view: view::of_draft(&draft, &draft.subject, &mail.footer, &policy),
        result_json: None,
        mail: Some(Box::new(mail)),
        parks: false,
    };
    Ok(kept::kept(ctx, &judged.decision, subject))
}

/// Returns the canonical form of a final text.
fn canonical(
    ctx: &ToolCallContext<'_>,
    call_id: &str,
    draft: &MailDraft,
    mail: &NewOutbound,
) -> CanonicalCall {
    let identity = CallIdentity {
        persona: ctx.persona.id.as_str(),
        run: ctx.run.id.as_str(),
        call: call_id,
        tool: REPLY,
        definition: String::new(),
        args: json!({ "text": draft.body }),
        mail: Some((draft, mail)),
    };
    identity.canonical()
}

async fn park(
    state: &mut LoopState<'_>,
    call_id: &str,
    judged: JudgedCall,
    mail: NewOutbound,
) -> Result<ReplyDecision, RunError> {
    let worked = state.spending.worked(&*state.input.deps.clock);
    let ctx = state.ctx();
    let policy = mail_policy(&ctx).await?;
    let draft = draft_of(&mail);
    let canonical = canonical(&ctx, call_id, &draft, &mail);
    if refused_before(&state.conversation.approvals, &canonical.fold_sha256).is_some() {
        return Ok(ReplyDecision::Store(Box::new(withheld(
            mail,
            Withheld::NotApproved,
        ))));
    }
    let subject = QuestionSubject {
        call_id,
        kind: ApprovalKind::Reply,
        tool: REPLY,
        canonical,
        view: view::of_mail(&draft, &draft.subject, &mail.footer, &policy),
        result_json: None,
        mail: Some(Box::new(mail.clone())),
        parks: true,
    };
    let approval = question(&ctx, &judged.decision, subject, worked);
    let call = JournalEntry::Step(Step {
        kind: StepKind::Call,
        executor: Executor::Engine,
        tool_name: REPLY.to_owned(),
        tool_call_id: call_id.to_owned(),
        payload_json: json!({ "args": {}, "policy": judged }).to_string(),
    });
    let known = state.outbox.pending.len();
    state.outbox.pending.push(call);
    match state
        .outbox
        .commit(Some(JournalEntry::Ask(Box::new(approval))))
        .await
    {
        Ok(()) => parked(),
        // There is no room for a question, and without an answer nothing is sent.
        Err(RunError::Store(StoreError::ApprovalsUsedUp)) => {
            state.outbox.pending.truncate(known);
            Ok(ReplyDecision::Store(Box::new(withheld(
                mail,
                Withheld::NotApproved,
            ))))
        }
        Err(error) => Err(error),
    }
}

fn withheld(mail: NewOutbound, why: Withheld) -> NewOutbound {
    NewOutbound {
        outcome: MessageOutcome::Withhold(why),
        ..mail
    }
}

fn known_result(conversation: &RunConversation, call_id: &str) -> Option<Value> {
    let step = conversation.known_step(StepKind::Result, call_id)?;
    serde_json::from_str(&step.payload_json).ok()
}

/// Returns what a decision makes of the text. One that the owner wants otherwise never comes here (`edit_note`).
fn decided(mail: NewOutbound, result: &Value) -> ReplyDecision {
    let code = result["error"]["code"].as_str().unwrap_or_default();
    match code.starts_with("approval_") {
        true => ReplyDecision::Store(Box::new(withheld(mail, Withheld::NotApproved))),
        // Sent, or withheld by the commit of the decision.
        false => ReplyDecision::Sent,
    }
}

/// Returns what the owner wants changed of the final text after that many answers of the model, if they do.
pub fn edit_note(steps: &[Step], answers: usize) -> Option<String> {
    let id = format!("r{answers}");
    let is_it = |step: &&Step| step.kind == StepKind::Result && step.tool_call_id == id;
    let step = steps.iter().find(is_it)?;
    let result: Value = serde_json::from_str(&step.payload_json).ok()?;
    let error = &result["error"];
    let wants = error["code"] == "approval_edit" && step.tool_name == REPLY;
    wants.then(|| {
        format!(
            "[engine] Your answer was not sent: {}",
            error["message"].as_str().unwrap_or_default()
        )
    })
}
