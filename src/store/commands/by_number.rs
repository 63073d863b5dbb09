//! `/approve NUMBER` and `/reject NUMBER`: the only place where a command by mail meets the questions to the owner.

use super::record::CommandOutcome;
use crate::clock::Clock;
use crate::domain::PersonaId;
use crate::store::Result;
use crate::store::approvals::decide;
use crate::store::approvals::record::{ApprovalVerdict, DecisionOutcome, NewDecision};
use crate::store::db::Connection;
use crate::text::glob_matches;
use serde_json::json;

/// Fewest characters of a number: the end of the id of a question.
const NUMBER_CHARS_MIN: usize = 6;

/// Questions of the persona whose id ends like this; a second one makes the number ambiguous.
const APPROVALS_OF_NUMBER: &str = "
    SELECT id, tool FROM approvals WHERE state = 'open' AND persona_id = $1 AND substr(id, length(id) - length($2) + 1) = $2 LIMIT 2";

/// A decision that names a question by its number.
pub struct NumberedDecision<'a> {
    pub persona: &'a PersonaId,
    pub owner: &'a str,
    /// Id of the message that brought it.
    pub letter: &'a str,
    pub is_yes: bool,
    /// `NUMBER`, or `NUMBER WORDS`.
    pub argument: &'a str,
    /// Tools whose questions no mail decides, as patterns.
    pub not_by_mail: &'a [String],
}

/// Decides on the open question of the persona with that number.
pub async fn decide_by_number(
    conn: &mut Connection,
    given: &NumberedDecision<'_>,
    clock: &dyn Clock,
) -> Result<CommandOutcome> {
    let argument = given.argument;
    let (number, words) = argument
        .split_once(char::is_whitespace)
        .unwrap_or((argument, ""));
    let number = number.trim_start_matches('#').to_ascii_lowercase();
    if number.len() < NUMBER_CHARS_MIN {
        return Ok(CommandOutcome::NoApproval);
    }
    let found = conn
        .rows(APPROVALS_OF_NUMBER, (&given.persona, &number))
        .await?;
    let [question] = found.as_slice() else {
        return Ok(CommandOutcome::NoApproval);
    };
    let (id, tool): (&str, &str) = (question.try_get("id")?, question.try_get("tool")?);
    if given
        .not_by_mail
        .iter()
        .any(|tools| glob_matches(tools, tool))
    {
        return Ok(CommandOutcome::NotByMail);
    }
    let decision = NewDecision {
        verdict: match given.is_yes {
            true => ApprovalVerdict::Approve,
            false => ApprovalVerdict::Reject,
        },
        by: given.owner.to_owned(),
        via: "command",
        words: words.trim().to_owned(),
        evidence_json: json!({ "message": given.letter }).to_string(),
        sha256: None,
    };
    let step = clock.new_id();
    let decided = decide::decide(conn, id, &decision, (clock.now(), &step)).await?;
    Ok(match decided {
        DecisionOutcome::Decided(state) => CommandOutcome::Decided { state },
        DecisionOutcome::Already { state, .. } => CommandOutcome::DecidedBefore { state },
        DecisionOutcome::OtherBytes => CommandOutcome::NoApproval,
        DecisionOutcome::NotFitting => CommandOutcome::NotFitting,
    })
}
