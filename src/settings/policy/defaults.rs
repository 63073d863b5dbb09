//! The table that decides without a rule: trust by capability. `docs/guide/policy.md` prints it.
//!
//! Absent on purpose: what no rule may change and no recipient has to do with, such as tools that an unauthenticated sender
//! gets none of (`runs::label`): such calls never come here.

use super::decision::{PolicyDecision, PolicyEffect};
use super::facts::CallFacts;
use crate::domain::Trust;
use crate::mutants::is_off;

/// Decision of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct TableDecision {
    pub decision: PolicyDecision,
    /// `true`: a rule may decide more generously.
    pub is_widenable: bool,
}

fn says(effect: PolicyEffect, is_widenable: bool, code: &str, why: &str) -> TableDecision {
    TableDecision {
        decision: PolicyDecision {
            effect,
            rule: None,
            code: code.to_owned(),
            why: why.to_owned(),
        },
        is_widenable,
    }
}

/// Code of a mail to somebody whom the run may not write to.
pub const NEW_RECIPIENT: &str = "new_recipient";
/// Code of a question or a plan of the model's own.
const ASKS_OWNER: &str = "asks_owner";
/// Code of a mail to somebody who may not read what the run has read.
const NOT_A_READER: &str = "not_a_reader";

/// Code of a command.
const RUNS_COMMAND: &str = "runs_command";
/// Code of a page to which a letter of a stranger leads, or at which one unsubscribes.
const LINK_OF_LETTER: &str = "link_of_letter";
/// Code of a call that sends out, other than a mail, with words of low trust read.
pub const TAINTED_OUT: &str = "tainted_out";
/// Code of a call that changes something, with words of low trust read.
pub const TAINTED_CHANGE: &str = "tainted_change";
/// Code of a page that a stranger wants fetched.
const WEB_FOR_STRANGER: &str = "web_for_stranger";

/// Returns the decision of the table on a call with these facts.
pub fn by_table(facts: &CallFacts) -> TableDecision {
    let (sender, floor) = (facts.level("sender"), facts.level("floor"));
    let lowest = sender.min(floor);
    if facts.is_true("asks_owner") {
        let why = "the persona puts it before its owner";
        return match lowest {
            Trust::Unauthenticated => says(PolicyEffect::Deny, false, ASKS_OWNER, why),
            _ => says(PolicyEffect::Ask, false, ASKS_OWNER, why),
        };
    }
    if facts.is_true("runs_command") {
        if lowest >= Trust::Owner || is_off("G12") {
            return says(PolicyEffect::Ask, true, RUNS_COMMAND, "it runs a command");
        }
        let why = "commands are run for the owner alone, in runs that have read nothing of others";
        return says(PolicyEffect::Deny, false, RUNS_COMMAND, why);
    }
    if facts.text("host").is_some() && sender < Trust::Contact {
        let why = "the web is not asked for strangers";
        return says(
            PolicyEffect::Deny,
            sender == Trust::Unknown,
            WEB_FOR_STRANGER,
            why,
        );
    }
    let is_outside = facts.text("recipients") == Some("outside");
    if facts.text("audience") == Some("may_not_read") && !is_off("G9") {
        let why = "a recipient may not read all that the run has read";
        return match lowest {
            Trust::Unauthenticated => says(PolicyEffect::Deny, false, NOT_A_READER, why),
            Trust::Unknown => says(PolicyEffect::Deny, true, NOT_A_READER, why),
            Trust::Contact | Trust::Owner | Trust::System => {
                says(PolicyEffect::Ask, true, NOT_A_READER, why)
            }
        };
    }
    if matches!(facts.text("link"), Some("of_stranger" | "unsubscribe")) && !is_off("G10.links") {
        let why = "a letter leads to that page: asking for it tells its sender that the letter is read, and may unsubscribe or confirm";
        return says(PolicyEffect::Ask, true, LINK_OF_LETTER, why);
    }
    if let Some(decision) = by_effects(facts, sender, floor) {
        return decision;
    }
    if is_outside && !is_off("G8") {
        let why = "a recipient is neither an owner, nor in the thread, nor in `send_allow`";
        return match lowest {
            Trust::Unauthenticated => says(PolicyEffect::Deny, false, NEW_RECIPIENT, why),
            Trust::Unknown => says(PolicyEffect::Deny, true, NEW_RECIPIENT, why),
            Trust::Contact | Trust::Owner | Trust::System => {
                says(PolicyEffect::Ask, true, NEW_RECIPIENT, why)
            }
        };
    }
    says(PolicyEffect::Allow, true, "", "")
}

/// Returns the decision on a call with effects that is no mail, where words of low trust could have chosen it. What a tool declares
/// decides, so no tool is forgotten.
fn by_effects(facts: &CallFacts, sender: Trust, floor: Trust) -> Option<TableDecision> {
    let is_mail = facts.text("recipients").is_some();
    if is_mail || facts.is_true("is_gated") || is_off("G10.effects") {
        return None;
    }
    let has = |effect| facts.has("effect", effect);
    let least = facts.text("senders").map(Trust::parse_stored);
    let least_said = least.unwrap_or(Trust::Contact);
    let acts = has("sends_out") || has("changes_state") || has("runs_code");
    let is_low = acts && sender.min(floor) < least_said;
    // A program of the owner's is given what its caller writes.
    let tells = least.is_some() && has("reads_private") && sender < least_said;
    let is_named = matches!(facts.text("link"), Some("of_sender" | "of_page"));
    if !(is_low || tells) || (is_named && sender >= Trust::Contact) {
        return None;
    }
    let code = match has("sends_out") {
        true => TAINTED_OUT,
        false => TAINTED_CHANGE,
    };
    let what = match has("sends_out") {
        true => "what leaves",
        false => "what it does",
    };
    let why = format!(
        "the run answers, or has read words of, somebody below `{}`, who could have chosen {what}",
        least_said.as_str()
    );
    Some(match sender {
        // Whoever proves nothing puts no question before an owner.
        Trust::Unauthenticated => says(PolicyEffect::Deny, false, code, &why),
        _ => says(PolicyEffect::Ask, true, code, &why),
    })
}
