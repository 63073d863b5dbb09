//! A letter as an answer to a question: which question, and whether an owner is known to have written it there.

use super::entry_words::read_entries;
use super::words::read_letter;
use crate::clock::Clock;
use crate::config::Config;
use crate::domain::mail::filed::{ANSWER_RULE, STALE_ANSWER_RULE, UNPROVEN_ANSWER_RULE};
use crate::domain::{
    Address, Email, Envelope, Identity, Mailbox, PersonaId, Trust, approval_token,
};
use crate::mutants::is_off;
use crate::store::{EntryVerdict, NewApprovalAnswer};
use serde_json::json;
use std::time::Duration;

/// Longest time between the writing of an answer, by its signed `Date`, and its arrival.
const AGE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Clocks of mail programs go wrong by so much.
const AHEAD_MAX: Duration = Duration::from_secs(24 * 3600);
/// Maximum characters of a token that is looked up; ours have 32.
const TOKEN_CHARS_MAX: usize = 64;

/// A judged letter for one persona.
pub struct AnswerInput<'a> {
    pub config: &'a Config,
    pub persona: &'a PersonaId,
    pub envelope: &'a Envelope,
    pub email: &'a Email,
    pub identity: &'a Identity,
    /// Rule that would file the letter; an automatic letter decides nothing.
    pub held_by: Option<&'a str>,
    pub clock: &'a dyn Clock,
}

/// Returns the answer that a letter is; `None`: it was not sent to the address of a question.
pub fn read_answer(input: AnswerInput<'_>) -> Option<NewApprovalAnswer> {
    let personas = &input.config.personas;
    let is_ours = |address: &&Address| {
        personas
            .by_address(address)
            .is_some_and(|persona| persona.id == *input.persona)
    };
    let mut tokens = input.envelope.rcpt_to.iter().filter(is_ours);
    let token = tokens.find_map(approval_token)?;
    let token: String = token.chars().take(TOKEN_CHARS_MAX).collect();
    let read = read_letter(input.email);
    let owner = proven_owner(&input, &token);
    let is_stale = !is_recent(&input) && !is_off("G15.owner");
    Some(NewApprovalAnswer {
        owner: owner.map(|owner| owner.key()),
        is_stale,
        has_other_readings: !input.identity.coverage.content && !is_off("G15.owner"),
        is_automatic: input.held_by.is_some() || input.email.list_id.is_some(),
        verdict: read.as_ref().map(|read| read.verdict),
        words: read.map(|read| read.words).unwrap_or_default(),
        entries: entries(&input),
        text: input.email.fresh_text.trim().to_owned(),
        evidence_json: json!({
            "basis": input.identity.basis,
            "message_id": input.email.message_id,
            "results": input.identity.results,
        })
        .to_string(),
        step: input.clock.new_id(),
        not_by_mail: input.config.policy.approvals.not_by_mail.clone(),
        token,
    })
}

/// Returns the decisions on entries of a digest that the letter holds.
fn entries(input: &AnswerInput<'_>) -> Option<Vec<EntryVerdict>> {
    let read = read_entries(input.email)?.into_iter();
    let verdicts = read.map(|read| EntryVerdict {
        places: read.places,
        act: read.act,
        new_id: input.clock.new_id(),
    });
    Some(verdicts.collect())
}

/// Returns the owner who is known to have written the letter to this very address: their name is authenticated, their
/// signature covers who it is to and which letter it is. Somebody who hands a genuine letter of theirs over again cannot have
/// it sent to another question.
fn proven_owner(input: &AnswerInput<'_>, token: &str) -> Option<Address> {
    let sender = input.email.sender()?;
    let owners = &input.config.gateway.owners;
    let is_owner = owners.iter().any(|owner| owner.key() == sender.key());
    let coverage = input.identity.coverage;
    let names_it = input
        .email
        .to
        .iter()
        .filter_map(Mailbox::address)
        .any(|address| approval_token(&address).as_deref() == Some(token));
    let is_proven = is_owner
        && input.identity.trust == Trust::Owner
        && coverage.to
        && coverage.threading
        && names_it;
    (is_proven || is_off("G15.owner")).then_some(sender)
}

/// Reports whether a letter says that it was written lately: a genuine one may be handed over again much later.
fn is_recent(input: &AnswerInput<'_>) -> bool {
    let now = input.clock.now();
    input
        .email
        .date
        .is_some_and(|date| date <= now.plus(AHEAD_MAX) && now.minus(AGE_MAX) <= date)
}

/// Returns the rule that files an answer, by whether it can decide anything.
pub fn rule_of(answer: &NewApprovalAnswer) -> &'static str {
    match (&answer.owner, answer.is_stale) {
        (None, _) => UNPROVEN_ANSWER_RULE,
        _ if answer.has_other_readings => UNPROVEN_ANSWER_RULE,
        (Some(_), true) => STALE_ANSWER_RULE,
        (Some(_), false) => ANSWER_RULE,
    }
}
