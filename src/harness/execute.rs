//! Runs one run: assemble the context, loop model and tools within the budget, commit the outcome.
//!
//! Absent on purpose: SQL, SMTP, vendors' dialects. A run is told everything by values and tells the store what
//! happened in entries of its journal.

use super::calls;
use super::desk::{Bench, RunError};
use super::ledger::Moment;
use super::meter;
use super::providers::{Block, Message, Response, Role, Stop, ToolChoice};
use super::structured;
use super::work::Work;
use super::{purse, reply, supervisor, turn};
use crate::domain::{ErrorClass, RunState, StopReason, Withheld};
use crate::store::{ClaimedRun, Entry, Fate, Finished};
use tokio_util::sync::CancellationToken;

/// What the model is told when its answer was cut off.
const CONTINUE: &str = "[engine] Your answer was cut off at its length limit. Go on exactly where it stopped, without \
    repeating anything, and come to an end soon.";
/// What the reader is told when that did not end it.
const CUT_OFF: &str = "\n\n[This answer was cut off at its length limit.]";

/// Works on a claimed run until its end is committed. On an error nothing is left pending; the caller decides
/// between another try and failure.
pub async fn execute(
    desk: &Bench,
    run: &ClaimedRun,
    cancel: &CancellationToken,
) -> Result<StopReason, RunError> {
    crate::crash::crash_point!("R1");
    let mut work = Work::begin(desk, run, cancel).await?;
    crate::crash::crash_point!("R2", work.fresh_context.is_some());
    if let Some(rule) = work.unasked {
        desk.ledger.file_unasked(run, rule).await?;
        return Ok(StopReason::RateLimited);
    }
    let said = converse(&mut work).await?;
    let (text, stop) = structured::hold(&mut work, said).await?;
    finish(&mut work, &text, stop).await
}

/// The loop: ask, execute the calls, ask again; gives the final text and why it is final.
async fn converse(work: &mut Work<'_>) -> Result<(String, StopReason), RunError> {
    loop {
        let response = match work.resumed.take() {
            Some(response) => response,
            None => {
                work.look_at_clock(Moment::Asking);
                match work.meter.reached(work.budget(), work.elapsed()) {
                    Some(limit) => return last_words(work, limit).await,
                    None => match turn::ask(work, ToolChoice::Auto, None).await {
                        Err(RunError::Purse(empty)) if purse::ends(work, &empty).await? => {
                            return last_words(work, StopReason::LimitCost).await;
                        }
                        asked => asked?,
                    },
                }
            }
        };
        if response.stop == Stop::Refused {
            return Ok((response.text(), StopReason::Refused));
        }
        if let Some(limit) = supervisor::limit_reached(&response.stop) {
            return Ok((supervisor::honest(&response.text(), limit), limit));
        }
        if response.calls().next().is_some() {
            let results = calls::call_all(work, &response).await?;
            work.hear(response, results);
        } else if matches!(response.stop, Stop::Paused | Stop::MalformedCall) {
            work.hear(response, Vec::new());
        } else {
            if let Some(form) = &mut work.form {
                form.is_cut = response.stop == Stop::MaxTokens;
                return Ok(answered(response.text()));
            }
            let text = match response.stop == Stop::MaxTokens {
                true => complete(work, response).await?,
                false => response.text(),
            };
            return Ok(answered(or_words_before(work, text)));
        }
    }
}

/// An answer that was cut off at its length is continued once; if that does not end it either, the reader is told.
async fn complete(work: &mut Work<'_>, response: Response) -> Result<String, RunError> {
    let beginning = response.text();
    let has_room = work.meter.reached(work.budget(), work.elapsed()).is_none();
    work.said.push(Message { role: Role::Assistant, blocks: response.blocks });
    let (rest, is_cut) = match has_room {
        true => match turn::ask(work, ToolChoice::None, Some(CONTINUE.to_owned())).await {
            Err(RunError::Purse(empty)) if purse::ends(work, &empty).await? => (String::new(), true),
            // It only thought on: the beginning is not lost for that.
            Err(RunError::Provider { source, .. }) if source.class == ErrorClass::OutputLimit => {
                (String::new(), true)
            }
            rest => rest.map(|rest| (rest.text(), rest.stop == Stop::MaxTokens))?,
        },
        false => (String::new(), true),
    };
    Ok(format!("{beginning}{rest}{}", if is_cut { CUT_OFF } else { "" }))
}

/// What was said beside the last call that had words, when the end has none: models write their answer, call a tool to
/// note something down, and take the turn for over. Nothing more is said to a sender who has an answer already.
fn or_words_before(work: &Work<'_>, text: String) -> String {
    if !text.trim().is_empty() || work.replied {
        return text;
    }
    let words = |message: &Message| {
        let texts = message.blocks.iter().filter_map(|block| match block {
            Block::Text { text } if message.role == Role::Assistant => Some(text.as_str()),
            _ => None,
        });
        Some(texts.collect::<String>()).filter(|text| !text.trim().is_empty())
    };
    work.said.iter().rev().find_map(words).unwrap_or(text)
}

fn answered(text: String) -> (String, StopReason) {
    let stop = if text.trim().is_empty() { StopReason::NoReply } else { StopReason::Answered };
    (text, stop)
}

/// At a bound the model gets one call without tools, so that the sender still receives an honest partial answer.
async fn last_words(work: &mut Work<'_>, limit: StopReason) -> Result<(String, StopReason), RunError> {
    match turn::ask(work, ToolChoice::None, Some(meter::farewell(limit))).await {
        Err(RunError::Purse(empty)) if purse::ends(work, &empty).await? => {
            Ok((purse::NOTHING_LEFT.to_owned(), limit))
        }
        asked => {
            let text = match asked {
                Err(RunError::Provider { source, .. }) if source.class == ErrorClass::OutputLimit => {
                    String::new()
                }
                asked => asked?.text(),
            };
            if !text.trim().is_empty() || work.replied {
                return Ok((text, limit));
            }
            Ok((supervisor::honest(&or_words_before(work, text), limit), limit))
        }
    }
}

/// One commit: the last answer, the reply with its delivery, the end of the run. Gives why it ended: an answer that
/// nobody gets has answered nothing.
async fn finish(work: &mut Work<'_>, text: &str, mut stop: StopReason) -> Result<StopReason, RunError> {
    let (state, error) = match stop {
        StopReason::Refused => {
            let message = "the model refused to answer".to_owned();
            (RunState::Failed, Some((ErrorClass::ContentFilter, message)))
        }
        StopReason::Failed => (RunState::Failed, structured::failure(work)),
        _ => {
            let mail = match reply::final_reply(work, text).await {
                Ok(mail) => mail,
                Err(error) => {
                    // What was paid is kept, whatever becomes of the mail.
                    work.commit(None).await?;
                    return Err(error);
                }
            };
            let undeliverable = mail.as_ref().and_then(|mail| undeliverable(&mail.fate));
            if mail.as_ref().is_some_and(|mail| matches!(mail.fate, Fate::Withhold(Withheld::NoRecipient))) {
                stop = StopReason::Failed;
            }
            work.pending.extend(mail.map(|mail| Entry::Mail(Box::new(mail))));
            match undeliverable {
                Some((class, message)) => (RunState::Failed, Some((class, message.to_owned()))),
                None => (RunState::Succeeded, None),
            }
        }
    };
    work.commit(Some(Entry::Finished(Finished { state, stop_reason: stop, error }))).await?;
    Ok(stop)
}

/// Why an answer that was wanted cannot reach anybody before an operator acts.
fn undeliverable(fate: &Fate) -> Option<(ErrorClass, &'static str)> {
    match fate {
        Fate::Withhold(Withheld::OutboundNotConfigured) => {
            let message = "an answer is stored, but no outbound transport is configured";
            Some((ErrorClass::OutboundNotConfigured, message))
        }
        Fate::Withhold(Withheld::NoRecipient) => {
            let message = "an answer is stored, but there is nobody to send it to: no owner is configured, or its letter or thread \
                           names nobody else";
            Some((ErrorClass::Config, message))
        }
        Fate::Withhold(Withheld::NotAllowed) => {
            let message = "an answer is stored, but `deliver_to` names somebody who is neither an owner nor in `send_allow`";
            Some((ErrorClass::Config, message))
        }
        _ => None,
    }
}
