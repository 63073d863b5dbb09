//! The rules by which a letter is stored without a run, in words: the reason, and the owner's
//! remedy. Pure.
//!
//! One table for every place that shows them: the log, notices, `ingest`, `threads show`, `replay`.

use crate::domain::Address;

/// A rule, the reason why it files a letter, and the remedy.
struct FiledRule {
    name: &'static str,
    /// Sentence that continues "filed: ".
    why: &'static str,
    remedy: Remedy,
}

/// Action by which the owner gets a filed letter answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Remedy {
    /// The sender is not authenticated: have the letter answered once, or allow the sender.
    Allow,
    /// The letter is addressed to another name: have it answered once, or make that address an
    /// alias.
    Alias,
    /// A limit is reached: wait, or raise the limit of this name.
    Limit(&'static str),
    /// A person decides whether the letter wants an answer; mostly it does not.
    Answer,
    /// An answer decided nothing: decide otherwise.
    Decide,
    /// No action: the letter is a record of something else.
    Nothing,
}

/// Rule of letters whose first line is a command of an owner.
pub const COMMAND_RULE: &str = "command";
/// Rules of letters to the address of a question.
pub const ANSWER_RULE: &str = "approval_answer";
pub const UNPROVEN_ANSWER_RULE: &str = "unproven_answer";
pub const STALE_ANSWER_RULE: &str = "stale_answer";

static RULES: &[FiledRule] = &[
    FiledRule {
        name: "unauthenticated",
        why: "nothing proves who sent it",
        remedy: Remedy::Allow,
    },
    FiledRule {
        name: "stale",
        why: "it is signed, and its date is more than seven days from its arrival, as of an old letter that is sent again or of a \
             clock that is wrong",
        remedy: Remedy::Allow,
    },
    FiledRule {
        name: "unverifiable",
        why: "no name server said within five days who sent it",
        remedy: Remedy::Answer,
    },
    FiledRule {
        name: "not_addressed",
        why: "it does not name the persona in To or Cc",
        remedy: Remedy::Alias,
    },
    FiledRule {
        name: "rate_limited",
        why: "its sender has had as many answers as a correspondent may have in an hour or a day",
        remedy: Remedy::Limit("replies_per_hour_max` and `replies_per_day_max"),
    },
    FiledRule {
        name: "alternations",
        why: "its thread has had as many answers as it may have in a day",
        remedy: Remedy::Limit("alternations_max"),
    },
    FiledRule {
        name: "domain_limited",
        why: "its sender's domain has had as many answers as one domain may have in a day",
        remedy: Remedy::Limit("domain_runs_per_day_max"),
    },
    FiledRule {
        name: "day_mails",
        why: "the persona has sent as many mails as it may in a day",
        remedy: Remedy::Answer,
    },
    FiledRule {
        name: "hop_limit",
        why: "it has gone from persona to persona as often as a mail may",
        remedy: Remedy::Limit("persona_hops_max"),
    },
    FiledRule {
        name: "malformed",
        why: "it has no one sender in From",
        remedy: Remedy::Answer,
    },
    FiledRule {
        name: "unreadable",
        why: "it is no email that can be read",
        remedy: Remedy::Nothing,
    },
    FiledRule {
        name: "own_persona",
        why: "it bears a persona's address, and that persona did not send it",
        remedy: Remedy::Nothing,
    },
    FiledRule {
        name: "own_mail",
        why: "it is a mail of this engine that came back",
        remedy: Remedy::Nothing,
    },
    FiledRule {
        name: "bounce",
        why: "it reports on a mail of this engine",
        remedy: Remedy::Nothing,
    },
    FiledRule {
        name: "bounce_address",
        why: "it came to the return address of a mail",
        remedy: Remedy::Answer,
    },
    FiledRule {
        name: "bounce_unknown",
        why: "it came to a return address that no mail had",
        remedy: Remedy::Nothing,
    },
    FiledRule {
        name: ANSWER_RULE,
        why: "it answers a question to the owner",
        remedy: Remedy::Nothing,
    },
    FiledRule {
        name: UNPROVEN_ANSWER_RULE,
        why: "it came to the address of a question, and nothing proves that an owner wrote it there, so it decided nothing",
        remedy: Remedy::Decide,
    },
    FiledRule {
        name: STALE_ANSWER_RULE,
        why: "it answers a question to the owner with no Date, or one of more than a week ago or more than a day ahead, so it decided \
             nothing",
        remedy: Remedy::Decide,
    },
    FiledRule {
        name: "null_sender",
        why: "its envelope names no sender, as mail servers send reports",
        remedy: Remedy::Answer,
    },
    FiledRule {
        name: "robot_sender",
        why: "its From or its envelope has the address of a program",
        remedy: Remedy::Answer,
    },
    FiledRule {
        name: "reaction",
        why: "it is a reaction, such as a thumb",
        remedy: Remedy::Answer,
    },
    FiledRule {
        name: "calendar_answer",
        why: "it answers an invitation and says nothing more; the event has the answer",
        remedy: Remedy::Answer,
    },
    FiledRule {
        name: "autoreply_subject",
        why: "its subject is that of an automatic answer, and nobody has written in its thread yet",
        remedy: Remedy::Answer,
    },
    FiledRule {
        name: COMMAND_RULE,
        why: "its first line is a command of an owner, which the engine carries out",
        remedy: Remedy::Nothing,
    },
    FiledRule {
        name: "import",
        why: "it was imported as history",
        remedy: Remedy::Answer,
    },
];

/// Text of the rules of RFC 3834 and its kin, which all mean that a program wrote the letter.
const AUTOMATIC: FiledRule = FiledRule {
    name: "",
    why: "its header says that a program sent it",
    remedy: Remedy::Answer,
};

fn rule(name: &str) -> &'static FiledRule {
    RULES
        .iter()
        .find(|rule| rule.name == name)
        .unwrap_or(&AUTOMATIC)
}

/// Returns the rule of a disposition such as `filed:unauthenticated`.
pub fn rule_of(disposition: &str) -> Option<&str> {
    disposition.strip_prefix("filed:")
}

/// Returns the reason of the rule; the sentence continues "filed: ".
pub fn why(name: &str) -> &'static str {
    rule(name).why
}

/// Returns the remedy that the owner of the engine has for the letter `id`; `sender` is `None` when
/// it is not an address.
pub fn remedy(name: &str, id: &str, sender: Option<&Address>) -> String {
    let answer = format!("`attache runs answer {id}` has it answered");
    match (rule(name).remedy, sender) {
        (Remedy::Allow, Some(sender)) => format!(
            "{answer}; `\"allow\": [\"{sender}\"]` under `access` in `configs/security.json` has {sender} answered \
             from then on"
        ),
        (Remedy::Allow, None) | (Remedy::Answer, _) => answer,
        (Remedy::Alias, _) => {
            format!(
                "{answer}; an address of the persona that it does name belongs to `aliases` in its `persona.json`"
            )
        }
        (Remedy::Limit(limit), _) => format!(
            "wait, or raise `{limit}` under `limits` in `configs/gateway.json`; then {answer}"
        ),
        (Remedy::Decide, _) => format!(
            "if it is yours, decide with `attache approvals`, which lists what is open; `attache threads raw {id}` prints it"
        ),
        (Remedy::Nothing, _) => {
            format!("nothing has to be done; `attache threads raw {id}` prints it")
        }
    }
}

/// Rules of letters that are no question to a persona: what the engine did, and records of something else.
pub fn not_to_answer() -> impl Iterator<Item = &'static str> {
    let others = [Remedy::Nothing, Remedy::Decide];
    let rules = RULES.iter();
    rules
        .filter(move |rule| others.contains(&rule.remedy))
        .map(|rule| rule.name)
}

/// Reports whether the engine did what a letter of this rule says, so that nobody has to read it.
pub fn is_dealt_with(name: &str) -> bool {
    matches!(name, COMMAND_RULE | ANSWER_RULE)
}

/// Rules that may file a letter of a person who waits for an answer. Mail of programs is filed as
/// it should be; a reached limit has a notice of its own.
pub const MISSED: &[&str] = &[
    "unauthenticated",
    "stale",
    "unverifiable",
    "not_addressed",
    "hop_limit",
    "malformed",
    "unreadable",
    "bounce_address",
];

/// Returns the address of a From field in its display form, `Bob <bob@guest.example>`.
pub fn address_in(from: &str) -> Option<Address> {
    let (_, inner) = from.rsplit_once('<').unwrap_or(("", from));
    Address::parse(inner.trim_end_matches('>').trim()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_field_is_what_stands_in_its_last_brackets() {
        let found = |from| address_in(from).map(|address| address.to_string());
        assert_eq!(
            found("Bob <bob@guest.example>").as_deref(),
            Some("bob@guest.example")
        );
        assert_eq!(
            found("bob@guest.example").as_deref(),
            Some("bob@guest.example")
        );
        assert_eq!(
            found("<ada@x.test> <bob@guest.example>").as_deref(),
            Some("bob@guest.example")
        );
        assert_eq!(found("(nobody)"), None);
    }

    #[test]
    fn no_command_decision_or_bounce_is_to_be_answered() {
        let others: Vec<&str> = not_to_answer().collect();
        let none = [
            "command",
            "approval_answer",
            "unproven_answer",
            "stale_answer",
            "bounce",
            "bounce_unknown",
            "own_mail",
            "own_persona",
            "unreadable",
        ];
        assert!(none.iter().all(|rule| others.contains(rule)), "{others:?}");
        for rule in [
            "unauthenticated",
            "not_addressed",
            "null_sender",
            "alternations",
            "bounce_address",
        ] {
            assert!(!others.contains(&rule), "{rule}");
        }
        let handled = RULES.iter().filter(|rule| is_dealt_with(rule.name));
        assert_eq!(handled.count(), 2);
    }

    #[test]
    fn a_remedy_names_the_sender_only_where_that_is_an_address() {
        let bob = Address::parse("bob@guest.example").ok();
        let said = remedy("unauthenticated", "0199", bob.as_ref());
        assert!(
            said.contains("`attache runs answer 0199`") && said.contains("[\"bob@guest.example\"]"),
            "{said}"
        );
        assert_eq!(
            remedy("unauthenticated", "0199", None),
            "`attache runs answer 0199` has it answered"
        );
        assert!(remedy("alternations", "0199", None).contains("`alternations_max`"));
    }
}
