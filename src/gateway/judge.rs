//! Rules for senders, for recipients, and for letters that no automatic mail may answer. Pure.
//!
//! Absent on purpose: SPF, DKIM and DMARC, whose outcome is an argument, and the count of mails to
//! one address, which only the transaction that stores a letter or queues a mail can know
//! (`store/threads/correspondence.rs`).

use crate::config::{Access, Decision, Limits, Persona, Personas};
use crate::domain::mail::robots::{self, SubjectMark};
use crate::domain::{
    Address, AutomaticSigns, Email, Envelope, Identity, LoopToken, Mailbox, OwnMail,
};
use crate::gateway::intake_contract::{RecipientVerdict, SenderVerdict};
use crate::mutants::is_off;

/// Letters that no automatic mail may answer, in the order in which the rules are checked.
///
/// From RFC 3834 section 2, RFC 5321 section 4.5.5 and the headers that senders use in practice. A
/// letter with more `Received` than the limit is not here: it is refused earlier (RFC 5321 section
/// 6.3).
static RULES: &[Rule] = &[
    Rule {
        name: "malformed",
        forbids: |m| m.email.sender().is_none(),
    },
    Rule {
        name: "null_sender",
        forbids: |m| m.envelope.mail_from.is_none(),
    },
    Rule {
        name: "own_persona",
        forbids: |m| m.origin == Origin::Forged,
    },
    Rule {
        name: "own_mail",
        forbids: |m| m.origin == Origin::Returned,
    },
    Rule {
        name: "hop_limit",
        forbids: |m| m.origin.hops() as usize >= m.limits.persona_hops_max,
    },
    Rule {
        name: "delivered_twice",
        forbids: |m| m.email.automatic.delivered_twice,
    },
    Rule {
        name: "report",
        forbids: |m| m.email.automatic.is_report,
    },
    Rule {
        name: "reaction",
        forbids: |m| m.email.automatic.is_reaction,
    },
    Rule {
        name: "calendar_answer",
        forbids: |m| m.is_calendar_answer,
    },
    Rule {
        name: "auto_submitted",
        forbids: auto_submitted,
    },
    Rule {
        name: "list",
        forbids: |m| m.email.automatic.has_list_header || m.email.list_id.is_some(),
    },
    Rule {
        name: "precedence",
        forbids: bulk_precedence,
    },
    Rule {
        name: "auto_response_suppress",
        forbids: suppresses_replies,
    },
    Rule {
        name: "autoreply_header",
        forbids: |m| m.email.automatic.has_autoreply_header,
    },
    Rule {
        name: "robot_sender",
        forbids: is_from_robot,
    },
    Rule {
        name: "autoreply_subject",
        forbids: says_so_in_subject,
    },
    Rule {
        name: "not_addressed",
        forbids: |m| !is_addressed(m),
    },
    Rule {
        name: "unverifiable",
        forbids: |m| m.identity.is_temporary,
    },
    Rule {
        name: "stale",
        forbids: |m| m.identity.lowered_by == Some("stale") && unauthenticated(m),
    },
    Rule {
        name: "unauthenticated",
        forbids: unauthenticated,
    },
];

/// The names of the rules, in the order in which they are checked.
pub fn rule_names() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.name)
}

struct Rule {
    name: &'static str,
    forbids: fn(&PolicyInput<'_>) -> bool,
}

/// Input of the policy: a letter and one of the personas that it is for.
pub struct PolicyInput<'a> {
    pub envelope: &'a Envelope,
    pub email: &'a Email,
    pub identity: &'a Identity,
    /// `true`: the mail of a program that the owner trusts to name whom it writes for.
    pub is_form: bool,
    pub persona: &'a Persona,
    pub origin: Origin,
    pub conversation: MentionedMail,
    /// `true`: a calendar program answers an invitation for its user, who said nothing more.
    pub is_calendar_answer: bool,
    pub personas: &'a Personas,
    pub access: &'a Access,
    pub limits: &'a Limits,
}

impl PolicyInput<'_> {
    /// The addresses of the envelope's sender and the header's, as far as they exist.
    fn senders(&self) -> impl Iterator<Item = Address> {
        self.envelope
            .mail_from
            .clone()
            .into_iter()
            .chain(self.email.sender())
    }
}

/// Author of a letter, as far as our records and our loop token can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// No persona.
    Elsewhere,
    /// A persona of this engine wrote it, to this persona; `hops` counts the consecutive mails by
    /// personas.
    Persona { hops: u32 },
    /// A persona of an engine that shares our key wrote it.
    Sealed { hops: u32 },
    /// It has a persona's address, but no persona sent it.
    Forged,
    /// A mail of ours that was sent back.
    Returned,
}

impl Origin {
    /// Number of consecutive mails by personas, including this one.
    pub fn hops(self) -> u32 {
        match self {
            Origin::Persona { hops } | Origin::Sealed { hops } => hops,
            Origin::Elsewhere | Origin::Forged | Origin::Returned => 0,
        }
    }
    fn is_a_personas(self) -> bool {
        matches!(self, Origin::Persona { .. } | Origin::Sealed { .. })
    }
}

/// What our records know of the letters that a letter mentions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MentionedMail {
    /// `true`: one of them is a mail of ours.
    pub has_our_mail: bool,
    /// `true`: their thread has a letter that was answered, so that somebody has written in it.
    pub has_words: bool,
}

/// Our records of a letter.
#[derive(Debug, Clone, Default)]
pub struct Records {
    /// Our mail with the letter's Message-ID.
    pub by_id: Option<OwnMail>,
    /// Content of the letter's loop token, if we (or an engine with our key) signed it.
    pub token: Option<LoopToken>,
    /// Our mail that the token names.
    pub by_token: Option<OwnMail>,
    pub conversation: MentionedMail,
}

/// Finds the author of a letter to `persona`.
///
/// A Message-ID alone proves little, since every recipient of the mail knows it: the mail must have
/// been sent to this exact persona. Even then only a count is taken from the records, and no
/// content of the letter is trusted.
pub fn origin(
    envelope: &Envelope,
    email: &Email,
    persona: &Persona,
    personas: &Personas,
    records: &Records,
) -> Origin {
    let reaches = |text: &String| Address::parse(text).is_ok_and(|to| is(persona, personas, &to));
    if let Some(writer) = email
        .sender()
        .as_ref()
        .and_then(|from| personas.by_address(from))
    {
        return match &records.by_id {
            None => Origin::Forged,
            Some(mail) if mail.persona != writer.id || writer.id == persona.id => Origin::Returned,
            Some(mail) if !mail.recipients.iter().any(reaches) => Origin::Returned,
            Some(mail) => Origin::Persona { hops: mail.hops },
        };
    }
    if envelope
        .mail_from
        .as_ref()
        .is_some_and(|from| personas.by_address(from).is_some())
    {
        return Origin::Forged;
    }
    match (&records.token, &records.by_token) {
        (None, _) => Origin::Elsewhere,
        (Some(token), None) if email.message_id.as_ref() == Some(&token.message_id) => {
            Origin::Sealed { hops: token.hops }
        }
        (Some(_), _) => Origin::Returned,
    }
}

/// Reports whether an address belongs to this persona.
fn is(persona: &Persona, personas: &Personas, address: &Address) -> bool {
    personas
        .by_address(address)
        .is_some_and(|found| found.id == persona.id)
}

/// The rule that forbids an automatic answer to a letter; `None` when it may be answered.
pub fn automatic_mail_rule(input: &PolicyInput<'_>) -> Option<&'static str> {
    RULES
        .iter()
        .find(|rule| (rule.forbids)(input) && !is_off("G5"))
        .map(|rule| rule.name)
}

/// Mails of personas are marked too. Between personas the count of hops replaces the mark, which
/// would end every exchange after the first mail.
fn auto_submitted(input: &PolicyInput<'_>) -> bool {
    let token = input.email.automatic.auto_submitted.as_deref();
    let is_expected = |token: &str| input.is_form && token == "auto-generated";
    token.is_some_and(|token| token != "no" && !is_expected(token)) && !input.origin.is_a_personas()
}

fn bulk_precedence(input: &PolicyInput<'_>) -> bool {
    input
        .email
        .automatic
        .precedence
        .as_deref()
        .is_some_and(AutomaticSigns::is_bulk)
}

/// A personal responder answers only letters that name it: blind copies, forwarded and redirected
/// mail were meant for others (RFC 3834 section 2). `ingest --to` names the persona explicitly.
fn is_addressed(input: &PolicyInput<'_>) -> bool {
    let PolicyInput {
        envelope,
        email,
        persona,
        personas,
        ..
    } = input;
    if envelope.arrival.names_recipients {
        return true;
    }
    let named = email
        .to
        .iter()
        .chain(&email.cc)
        .chain(&email.resent)
        .filter_map(Mailbox::address);
    named
        .into_iter()
        .any(|address| is(persona, personas, &address))
}

/// An answer to a forged sender reaches a person who never wrote. Senders in `access.allow` are
/// answered all the same, by the operator's decision.
fn unauthenticated(input: &PolicyInput<'_>) -> bool {
    let is_allowed = input
        .email
        .sender()
        .is_some_and(|sender| input.access.allows(&sender));
    !input.identity.is_believable(is_allowed) && !matches!(input.origin, Origin::Persona { .. })
}

/// `DR`, `NDR`, `RN` and `NRN` concern other kinds of answers (MS-OXCMAIL section 2.1.3.2.20).
fn suppresses_replies(input: &PolicyInput<'_>) -> bool {
    if input.origin.is_a_personas() {
        return false;
    }
    let words = input
        .email
        .automatic
        .auto_response_suppress
        .as_deref()
        .unwrap_or_default();
    let ours = |word: &str| {
        ["all", "autoreply", "oof"]
            .iter()
            .any(|w| word.trim().eq_ignore_ascii_case(w))
    };
    words.split([',', ';']).any(ours)
}

fn is_from_robot(input: &PolicyInput<'_>) -> bool {
    // Forms write as `noreply`.
    if input.is_form {
        return false;
    }
    // Mailman's `LIST-admin` is an envelope; in From it is a person's, such as `it-admin`.
    let bounces_to_list = input.envelope.mail_from.as_ref().is_some_and(|from| {
        from.local().to_ascii_lowercase().ends_with("-admin")
            && Some(from) != input.email.sender().as_ref()
    });
    bounces_to_list
        || input
            .senders()
            .any(|sender| robots::is_robot(sender.local()))
}

/// A subject is a sign only where nobody has written yet: a person who answers has the words of the machine in the subject.
/// Words that a person may begin with, too, count as the answer to a mail of ours alone.
fn says_so_in_subject(input: &PolicyInput<'_>) -> bool {
    let MentionedMail {
        has_our_mail,
        has_words,
    } = input.conversation;
    if has_words || input.origin.is_a_personas() {
        return false;
    }
    match robots::subject(&input.email.subject) {
        Some(SubjectMark::Answer) => has_our_mail || !asks(&input.email.subject),
        Some(SubjectMark::Notice) => has_our_mail,
        None => false,
    }
}

/// Reports whether a subject is a question, as of a person who writes about automatic answers.
fn asks(subject: &str) -> bool {
    subject.trim_end().ends_with(['?', '？'])
}

/// Judges the sender of a letter whose header is known: `deny` wins over `allow` wins over the
/// default.
///
/// Either address can be denied. Only the header's `From` can be allowed, because the persona
/// answers it; a letter without one strict `From` is welcome only where the default admits every
/// sender.
pub fn access(
    access: &Access,
    from: Option<&Address>,
    envelope_from: Option<&Address>,
) -> SenderVerdict {
    let denied = [from, envelope_from]
        .into_iter()
        .flatten()
        .any(|address| access.denies(address));
    let allowed =
        access.default_decision == Decision::Allow || from.is_some_and(|from| access.allows(from));
    if allowed && !denied {
        SenderVerdict::Welcome
    } else {
        SenderVerdict::Denied
    }
}

/// Judges an envelope sender before the header is known. Only `deny` applies here: an allowed
/// correspondent may use a forwarder or a list that rewrites the envelope, and null senders must be
/// accepted.
pub fn envelope_access(access: &Access, envelope_from: Option<&Address>) -> SenderVerdict {
    match envelope_from {
        Some(address) if access.denies(address) => SenderVerdict::Denied,
        _ => SenderVerdict::Welcome,
    }
}

/// Finds the persona of an address, or reports whether the domain is ours.
///
/// `postmaster` reaches a persona that lists it as an alias; none does so by default.
pub fn recipient(personas: &Personas, address: &Address) -> RecipientVerdict {
    match personas.by_address(address) {
        Some(persona) => RecipientVerdict::Persona(persona.id.clone()),
        None if personas.may_be_out_of_service(address) => RecipientVerdict::OutOfService,
        None if personas.has_domain(address.domain()) => RecipientVerdict::Unknown,
        None => RecipientVerdict::NotOurs,
    }
}
