//! Who may write, who is written to, and whom no machine may answer. Pure.
//!
//! Absent on purpose: SPF, DKIM and DMARC. Until a sender is authenticated, every rule here takes a forged name
//! at its word, so none of them raises trust.

use crate::config::{Access, Decision, Personas};
use crate::domain::{Address, Email, Envelope};
use crate::gateway::door::{RecipientVerdict, SenderVerdict};

/// What an automatic answer must not be given to, in the order in which the rules are asked.
///
/// From RFC 3834 section 2, RFC 5321 section 4.5.5 and the headers that senders use in practice.
static RULES: &[Rule] = &[
    Rule { name: "malformed", forbids: |m| m.email.sender().is_none() },
    Rule { name: "null_sender", forbids: |m| m.envelope.mail_from.is_none() },
    Rule { name: "received_loop", forbids: |m| m.email.automatic.received_count > m.received_headers_max },
    Rule { name: "report", forbids: |m| m.email.automatic.is_report },
    Rule { name: "auto_submitted", forbids: auto_submitted },
    Rule { name: "list", forbids: |m| m.email.automatic.has_list_header || m.email.list_id.is_some() },
    Rule { name: "precedence", forbids: bulk_precedence },
    Rule { name: "auto_response_suppress", forbids: suppresses_replies },
    Rule { name: "autoreply_header", forbids: |m| m.email.automatic.has_autoreply_header },
    Rule { name: "robot_sender", forbids: |m| m.senders().any(|sender| is_robot(sender.local())) },
    Rule { name: "own_persona", forbids: |m| m.senders().any(|sender| (m.own)(&sender)) },
];

struct Rule {
    name: &'static str,
    forbids: fn(&Matter<'_>) -> bool,
}

/// A letter before the judge.
struct Matter<'a> {
    envelope: &'a Envelope,
    email: &'a Email,
    own: &'a dyn Fn(&Address) -> bool,
    received_headers_max: usize,
}

impl Matter<'_> {
    /// The envelope's sender and the header's, as far as there are any.
    fn senders(&self) -> impl Iterator<Item = Address> {
        self.envelope.mail_from.clone().into_iter().chain(self.email.sender())
    }
}

/// The rule that forbids an automatic answer to a letter; `None` when it may be answered.
///
/// `own` tells whether an address belongs to a persona of this engine.
pub fn automatic_mail_rule(
    envelope: &Envelope,
    email: &Email,
    own: impl Fn(&Address) -> bool,
    received_headers_max: usize,
) -> Option<&'static str> {
    let matter = Matter { envelope, email, own: &own, received_headers_max };
    RULES.iter().find(|rule| (rule.forbids)(&matter)).map(|rule| rule.name)
}

fn auto_submitted(matter: &Matter<'_>) -> bool {
    let token = matter.email.automatic.auto_submitted.as_deref();
    token.is_some_and(|token| !token.trim().eq_ignore_ascii_case("no"))
}

fn bulk_precedence(matter: &Matter<'_>) -> bool {
    let precedence = matter.email.automatic.precedence.as_deref().unwrap_or_default().trim();
    ["list", "bulk", "junk"].iter().any(|word| precedence.eq_ignore_ascii_case(word))
}

/// `DR`, `NDR`, `RN` and `NRN` speak of other kinds of answers (MS-OXCMAIL section 2.1.3.2.20).
fn suppresses_replies(matter: &Matter<'_>) -> bool {
    let words = matter.email.automatic.auto_response_suppress.as_deref().unwrap_or_default();
    let ours = |word: &str| ["all", "autoreply", "oof"].iter().any(|w| word.trim().eq_ignore_ascii_case(w));
    words.split([',', ';']).any(ours)
}

/// Whether a local part is one behind which nobody reads answers.
fn is_robot(local: &str) -> bool {
    const NAMES: &[&str] = &[
        "mailer-daemon",
        "postmaster",
        "daemon",
        "noreply",
        "no-reply",
        "no_reply",
        "no.reply",
        "donotreply",
        "do-not-reply",
        "do_not_reply",
        "do.not.reply",
        "bounce",
        "bounces",
    ];
    let local = local.to_ascii_lowercase();
    // `bounces+token`, `no-reply-7f3a`, `noreply.news`: the name stands at the start, cut off by a separator or digit.
    let ends_word = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphabetic());
    let starts_with_name = |name: &str| local.strip_prefix(name).is_some_and(ends_word);
    NAMES.iter().any(|name| starts_with_name(name))
        || local.ends_with("-noreply")
        || local.ends_with("-no-reply")
        || local.ends_with("-request")
        || local.ends_with("-owner")
        || local.starts_with("owner-")
        || local.contains("-bounces")
}

/// Judges the sender of a letter whose header is known: `deny` wins over `allow` wins over the default.
///
/// Either address can be denied. Only the header's `From` can be allowed, because it is what the persona answers to;
/// a letter without one strict `From` is welcome only where everybody is.
pub fn access(access: &Access, from: Option<&Address>, envelope_from: Option<&Address>) -> SenderVerdict {
    let denied = [from, envelope_from].into_iter().flatten().any(|address| access.denies(address));
    let allowed = access.default_decision == Decision::Allow || from.is_some_and(|from| access.allows(from));
    if allowed && !denied { SenderVerdict::Welcome } else { SenderVerdict::Denied }
}

/// Judges an envelope sender before the header is known. Only `deny` speaks here: an allowed correspondent may come
/// through a forwarder or a list that rewrites the envelope, and null senders must be listened to.
pub fn envelope_access(access: &Access, envelope_from: Option<&Address>) -> SenderVerdict {
    match envelope_from {
        Some(address) if access.denies(address) => SenderVerdict::Denied,
        _ => SenderVerdict::Welcome,
    }
}

/// Finds the persona behind an address, or says whether the domain is ours at all.
///
/// `postmaster` reaches whoever lists it as an alias; nobody does so by default.
pub fn recipient(personas: &Personas, address: &Address) -> RecipientVerdict {
    match personas.by_address(address) {
        Some(persona) => RecipientVerdict::Persona(persona.id.clone()),
        None if personas.has_domain(address.domain()) => RecipientVerdict::Unknown,
        None => RecipientVerdict::NotOurs,
    }
}
