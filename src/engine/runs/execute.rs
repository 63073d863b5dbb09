//! Runs one run: assemble the context, loop model and tools within the budget, commit the outcome.
//!
//! Absent on purpose: SQL, SMTP, vendors' dialects. A run gets its input as values and reports to
//! the store in entries of its journal.

use super::reply::mail::final_reply;
use super::start;
use super::state::LoopState;
use crate::domain::{ErrorClass, RunState, StopReason, Withheld};
use crate::providers::{Block, FinishReason, Message, Response, Role, ToolChoice};
use crate::runs::agents::partial;
use crate::runs::approvals::kept;
use crate::runs::approvals::reply::{self, ReplyDecision};
use crate::runs::budget::{counters, exhausted};
use crate::runs::deps::RunDeps;
use crate::runs::error::RunError;
use crate::runs::model_call::{structured, turn};
use crate::runs::provider_health::Moment;
use crate::runs::reply::last_text::{answered, at_limit, correction, kept_back, or_words_before};
use crate::runs::reply::summary;
use crate::runs::said::letter;
use crate::runs::tool_calls::dispatch;
use crate::store::{
    ClaimedRun, JournalEntry, MessageOutcome, NewOutbound, RunFinished, StoreError,
};
use crate::tools::NO_ANSWER;
use tokio_util::sync::CancellationToken;

/// Note to the model when its answer was cut off.
const CONTINUE: &str = "[engine] Your answer was cut off at its length limit. Go on exactly where it stopped, without \
    repeating anything, and come to an end soon.";
/// Note to the reader when the continuation was cut off, too.
const CUT_OFF: &str = "\n\n[This answer was cut off at its length limit.]";

/// Executes a claimed run until its end is committed. On an error nothing is left pending; the
/// caller decides between a retry and failure.
pub async fn execute(
    deps: &RunDeps,
    run: &ClaimedRun,
    cancel: &CancellationToken,
) -> Result<StopReason, RunError> {
    crate::crash::crash_point!("R1");
    let mut state = start::begin(deps, run, cancel).await?;
    crate::crash::crash_point!("R2", state.outbox.fresh_context.is_some());
    if let Some(rule) = state.outbox.unasked {
        deps.env.file_unasked(run, rule).await?;
        return Ok(StopReason::RateLimited);
    }
    if summary::is_summary(run) && state.conversation.to_summarise.is_none() {
        return finish(&mut state, "", StopReason::NoReply).await;
    }
    let (text, stop) = serve(&mut state).await?;
    let (text, stop) = structured::hold(&mut state, text, stop).await?;
    finish(&mut state, &text, stop).await
}

/// Loops: ask the model, execute the calls, ask again; returns the final text and why it is final.
async fn serve(state: &mut LoopState<'_>) -> Result<(String, StopReason), RunError> {
    let mut choice = ToolChoice::Auto;
    loop {
        let response = match state.conversation.resumed.take() {
            Some(response) => response,
            None => {
                state
                    .spending
                    .look_at_clock(&*state.input.deps.provider_health, Moment::Asking);
                match state.spending.reached() {
                    Some(limit) => return final_turn(state, limit).await,
                    None => match turn::ask(state, choice, None).await {
                        Err(RunError::BudgetExhausted(empty))
                            if exhausted::ends(&state.input, &empty).await? =>
                        {
                            return final_turn(state, StopReason::LimitCost).await;
                        }
                        asked => asked?,
                    },
                }
            }
        };
        if response.stop == FinishReason::Refused {
            return Ok((response.text(), StopReason::Refused));
        }
        if let Some(limit) = partial::limit_reached(&response.stop) {
            return Ok(at_limit(state, response.text(), limit));
        }
        if response.calls().next().is_some() {
            let results = dispatch::call_all(state, &response).await?;
            let is_silent = results.iter().any(|result| {
                matches!(result, Block::ToolResult { name, is_error: false, .. } if name == NO_ANSWER)
            });
            state.append(response, results);
            if is_silent {
                return Ok((String::new(), StopReason::NoAnswer));
            }
        } else if matches!(
            response.stop,
            FinishReason::Paused | FinishReason::MalformedCall
        ) {
            state.append(response, Vec::new());
        } else {
            let is_cut = response.stop == FinishReason::MaxTokens;
            if let Some(form) = &mut state.input.form {
                form.is_cut = is_cut;
                return Ok(answered(response.text()));
            }
            if is_cut && state.input.is_bounded_by_program() {
                return Ok((response.text(), StopReason::LimitOutput));
            }
            if is_cut {
                let (text, is_cut) = complete(state, response).await?;
                let (text, stop) = kept_back(state, text);
                // The note alone is no letter.
                return Ok(match (is_cut, text.is_empty()) {
                    (true, true) => (text, StopReason::LimitOutput),
                    (true, false) => (text + CUT_OFF, stop),
                    (false, _) => (text, stop),
                });
            }
            let Some((note, next)) = correction(state, &response) else {
                let text =
                    or_words_before(&state.conversation, state.outbox.replied, response.text());
                return Ok(kept_back(state, text));
            };
            choice = next;
            state.append(response, Vec::new());
            state.conversation.said.push(Message::user(note));
        }
    }
}

/// Continues an answer once that was cut off at its length. Returns it, and whether that did not end it either.
async fn complete(
    state: &mut LoopState<'_>,
    response: Response,
) -> Result<(String, bool), RunError> {
    let beginning = response.text();
    let has_room = state.spending.reached().is_none();
    state.conversation.said.push(Message {
        role: Role::Assistant,
        blocks: response.blocks,
    });
    let (rest, is_cut) = match has_room {
        true => match turn::ask(state, ToolChoice::None, Some(CONTINUE.to_owned())).await {
            Err(RunError::BudgetExhausted(empty))
                if exhausted::ends(&state.input, &empty).await? =>
            {
                (String::new(), true)
            }
            // The continuation was thinking only: the beginning is still kept.
            Err(RunError::Provider { source, .. }) if source.class == ErrorClass::OutputLimit => {
                (String::new(), true)
            }
            rest => rest.map(|rest| (rest.text(), rest.stop == FinishReason::MaxTokens))?,
        },
        false => (String::new(), true),
    };
    Ok((letter::joined(&beginning, &rest), is_cut))
}

/// Makes one call without tools at a bound, so that the sender still receives an honest partial
/// answer.
async fn final_turn(
    state: &mut LoopState<'_>,
    limit: StopReason,
) -> Result<(String, StopReason), RunError> {
    match turn::ask(state, ToolChoice::None, Some(counters::final_turn(limit))).await {
        Err(RunError::BudgetExhausted(empty)) if exhausted::ends(&state.input, &empty).await? => {
            Ok((exhausted::nothing_left(&state.input), limit))
        }
        asked => {
            let text = match asked {
                Err(RunError::Provider { source, .. })
                    if source.class == ErrorClass::OutputLimit =>
                {
                    String::new()
                }
                asked => asked?.text(),
            };
            if state.input.writes_letter() {
                let text = or_words_before(&state.conversation, state.outbox.replied, text);
                return Ok((kept_back(state, text).0, limit));
            }
            if !text.trim().is_empty() || state.outbox.replied {
                return Ok((text, limit));
            }
            Ok((
                partial::honest(
                    &or_words_before(&state.conversation, state.outbox.replied, text),
                    limit,
                ),
                limit,
            ))
        }
    }
}

/// Commits in one transaction the last answer, the reply with its delivery, and the end of the run.
/// Returns why it ended: an answer without a recipient has answered nothing.
async fn finish(
    state: &mut LoopState<'_>,
    text: &str,
    mut stop: StopReason,
) -> Result<StopReason, RunError> {
    let is_on_purpose = matches!(stop, StopReason::NoReply | StopReason::NoAnswer);
    let (end, error) = match stop {
        StopReason::Refused => {
            let message = "the model refused to answer".to_owned();
            (RunState::Failed, Some((ErrorClass::ContentFilter, message)))
        }
        StopReason::Failed if let Some(form) = &mut state.input.form => {
            (RunState::Failed, structured::failure(form))
        }
        // No mail says that there is none: the sender's note does, and a notice to the owner.
        _ if text.is_empty() && !is_on_purpose && state.owes_letter() => {
            let message = match stop {
                StopReason::Failed => {
                    "the model ended without a word, and again when it was asked for one".to_owned()
                }
                limit => format!("`{limit}` ended the run before the model wrote an answer"),
            };
            (RunState::Failed, Some((ErrorClass::NoAnswer, message)))
        }
        _ => {
            let (mail, question) = match summary::is_summary(state.input.run) {
                true => {
                    stop = summary::conclude(state, text, stop).await?;
                    (None, None)
                }
                false => mailed(state, text).await?,
            };
            if let Some(mail) = &mail
                && matches!(mail.outcome, MessageOutcome::Send { .. })
            {
                state.outbox.count_mail(mail);
            }
            let undeliverable = mail.as_ref().and_then(|mail| undeliverable(&mail.outcome));
            if mail.as_ref().is_some_and(|mail| {
                matches!(
                    mail.outcome,
                    MessageOutcome::Withhold(Withheld::NoRecipient)
                )
            }) {
                stop = StopReason::Failed;
            }
            state
                .outbox
                .pending
                .extend(mail.map(|mail| JournalEntry::Mail(Box::new(mail))));
            state.outbox.pending.extend(question);
            match undeliverable {
                Some((class, message)) => (RunState::Failed, Some((class, message.to_owned()))),
                None => (RunState::Succeeded, None),
            }
        }
    };
    summary::queue(&state.input, &state.route.present, &mut state.outbox, end);
    let end = JournalEntry::Finished(RunFinished {
        state: end,
        stop_reason: stop,
        error,
    });
    match state.outbox.commit(Some(end)).await {
        // There is no room for a draft; everything else is pending again.
        Err(RunError::Store(StoreError::ApprovalsUsedUp)) => {
            kept::withhold(&mut state.outbox.pending);
            state.outbox.commit(None).await?;
        }
        committed => committed?,
    }
    Ok(stop)
}

/// Makes the final text a mail, and decides on it; `Some` beside it: the question about a draft.
async fn mailed(
    state: &mut LoopState<'_>,
    text: &str,
) -> Result<(Option<NewOutbound>, Option<JournalEntry>), RunError> {
    let deliver_to = &state.input.options().deliver_to;
    let mail = match final_reply(&state.ctx(), deliver_to, text).await {
        Ok(mail) => mail,
        Err(error) => {
            // The cost is committed, whatever becomes of the mail.
            state.outbox.commit(None).await?;
            return Err(error);
        }
    };
    let Some(mail) = mail else {
        return Ok((None, None));
    };
    Ok(match reply::judge(state, mail).await? {
        ReplyDecision::Store(mail) => (Some(*mail), None),
        ReplyDecision::Sent => (None, None),
        ReplyDecision::Draft(kept) => {
            let question = JournalEntry::Ask(Box::new(kept.approval));
            (Some(kept.message), Some(question))
        }
    })
}

/// Returns the error of a wanted answer that cannot be delivered before an operator acts.
fn undeliverable(outcome: &MessageOutcome) -> Option<(ErrorClass, &'static str)> {
    match outcome {
        MessageOutcome::Withhold(Withheld::OutboundNotConfigured) => {
            let message = "an answer is stored, but no outbound transport is configured";
            Some((ErrorClass::OutboundNotConfigured, message))
        }
        MessageOutcome::Withhold(Withheld::NoRecipient) => {
            let message = "an answer is stored, but there is nobody to send it to: no owner is configured, or its letter or thread \
                           names nobody else";
            Some((ErrorClass::Config, message))
        }
        MessageOutcome::Withhold(Withheld::NotAllowed) => {
            let message = "an answer is stored, but `deliver_to` names somebody who is neither an owner nor in `send_allow`";
            Some((ErrorClass::Config, message))
        }
        _ => None,
    }
}
