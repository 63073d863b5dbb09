//! The rows that one commit stores of a judged letter: one copy for each addressed persona.

use super::admission::AdmissionDecision;
use super::returns::ReturnedLetter;
use super::{Intake, Understood, trace};
use crate::clock::Clock;
use crate::config::{LetterRule, Persona};
use crate::domain::mail::filed::COMMAND_RULE;
use crate::domain::{
    Address, Attachment, AttachmentId, Coverage, Email, Envelope, Identity, Mailbox, MessageId,
    NoticeId, RawLetterId, RunId, Timestamp, Trigger, Trust, Via, sha256_hex,
};
use crate::gateway::approvals::answer::{AnswerInput, read_answer, rule_of};
use crate::gateway::judge::{self, Records};
use crate::mime::{Header, decoded_range, from_first_field};
use crate::mutants::is_off;
use crate::store::packing::PackedLetter;
use crate::store::{
    Account, Content, DomainLimit, MailBounds, NewApprovalAnswer, NewAttachment, NewInbound,
    NewRun, ReplyLimits,
};
use serde_json::json;
use std::sync::Arc;

/// Mailboxes of a From field that are shown.
const SENDERS_SHOWN_MAX: usize = 10;

/// Keys by which a second arrival of a letter is recognised.
pub(super) struct Dedup {
    pub key: String,
    /// Keys of arrivals by other ways that count as the same letter.
    pub also: Vec<String>,
    /// `true`: the letter has its own Message-ID.
    pub has_own_id: bool,
}

/// Provenance of a letter, as part of its key: different provenance makes a different letter.
const IMPORTED: &[u8] = b"imported";
const PROVEN: &[u8] = b"proven";
/// The sender is authenticated, but not all fields that place the letter are covered.
const PROVEN_IN_PART: &[u8] = b"proven in part";
const UNPROVEN: &[u8] = b"";

impl Dedup {
    /// Builds the keys. A Message-ID alone never suppresses a letter: another sender may have used
    /// it first. The body and the sender must be equal too: a copy with less proof must not
    /// suppress the genuine letter. The operator's own archive may.
    pub fn from_email(
        email: &Email,
        bytes: &[u8],
        mail_from: Option<&Address>,
        identity: &Identity,
    ) -> Self {
        let open = unsigned_content(bytes);
        let (known, also): (_, &[&[u8]]) = match identity.coverage {
            _ if identity.trust == Trust::Unauthenticated => (UNPROVEN, &[IMPORTED]),
            Coverage::WHOLE => (PROVEN, &[IMPORTED]),
            Coverage { content: true, .. } => (PROVEN_IN_PART, &[IMPORTED, PROVEN]),
            _ => (open.as_slice(), &[IMPORTED, PROVEN]),
        };
        Self::by(email, bytes, mail_from, known, also)
    }

    /// Builds the keys of a letter of an archive, which equals every other arrival of it.
    pub fn from_archived(email: &Email, bytes: &[u8], mail_from: Option<&Address>) -> Self {
        let open = unsigned_content(bytes);
        let known = [PROVEN, PROVEN_IN_PART, open.as_slice(), UNPROVEN];
        let mut dedup = Self::by(email, bytes, mail_from, IMPORTED, &known);
        let filed: Vec<String> = dedup.also.iter().map(|key| filed(key)).collect();
        dedup.also.extend(filed);
        dedup
    }

    /// Returns the keys of a copy that this rule files. A rule that looks at fields which anybody can add, or at the envelope,
    /// keeps no copy without them away; after such a copy it is a duplicate.
    fn under(&self, rule: Option<&str>) -> (String, Vec<String>) {
        match rule.is_some_and(|rule| ADDABLE.contains(&rule)) {
            true => {
                let also = [std::slice::from_ref(&self.key), &self.also].concat();
                (filed(&self.key), also)
            }
            false => (self.key.clone(), self.also.clone()),
        }
    }

    fn by(
        email: &Email,
        bytes: &[u8],
        mail_from: Option<&Address>,
        known: &[u8],
        also: &[&[u8]],
    ) -> Self {
        let Some(id) = &email.message_id else {
            let from = mail_from.map(Address::key).unwrap_or_default();
            let key = format!("raw:{}", sha256_hex(&[from.as_bytes(), &[0], bytes]));
            return Self {
                key,
                also: Vec::new(),
                has_own_id: false,
            };
        };
        let from = email
            .sender()
            .map(|sender| sender.key())
            .unwrap_or_default();
        let key = |known: &[u8]| {
            let parts = [
                id.as_bytes(),
                &[0],
                from.as_bytes(),
                &[0],
                known,
                &[0],
                body_of(bytes),
            ];
            format!("mid:{}", sha256_hex(&parts))
        };
        Self {
            key: key(known),
            also: also.iter().map(|known| key(known)).collect(),
            has_own_id: true,
        }
    }
}

/// Rules of the judge for what anybody who has a letter can add to it.
const ADDABLE: [&str; 10] = [
    "null_sender",
    "own_mail",
    "delivered_twice",
    "report",
    "auto_submitted",
    "list",
    "precedence",
    "auto_response_suppress",
    "autoreply_header",
    "robot_sender",
];

/// Key of a copy that a rule of [`ADDABLE`] files.
fn filed(key: &str) -> String {
    format!("{key}:filed")
}

/// Provenance of a letter whose words depend on fields that nobody signed: these fields belong to it.
fn unsigned_content(bytes: &[u8]) -> Vec<u8> {
    let header = Header::read(bytes);
    let fields = header
        .fields()
        .filter(|(name, _)| name.starts_with("content-"));
    let mut known = PROVEN_IN_PART.to_vec();
    for (name, value) in fields {
        known.extend_from_slice(name.as_bytes());
        known.push(b':');
        known.extend(value.iter().filter(|byte| !byte.is_ascii_whitespace()));
        known.push(b'\n');
    }
    known
}

/// The bytes after the header: relays add header fields and leave the body unchanged.
fn body_of(bytes: &[u8]) -> &[u8] {
    let bytes = from_first_field(bytes);
    bytes
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .map_or(bytes, |at| &bytes[at + 4..])
}

/// Why a copy of a proven letter is trusted less than its sender.
enum Lowered {
    /// No signed field names the persona.
    Unaddressed,
    /// Its words may be another's reading of the signed body.
    OtherReadings,
    /// Somebody filled in a form.
    Form,
}

/// A judged letter, from which each addressed persona gets a copy.
pub(super) struct Draft<'a> {
    pub intake: &'a Intake,
    pub envelope: &'a Envelope,
    /// Id of its message, if it already has one.
    pub id: Option<MessageId>,
    pub bytes: Arc<[u8]>,
    pub understood: Understood,
    pub returned: ReturnedLetter,
    pub identity: Identity,
    /// Admission decisions to record, each as `verb:rule`.
    pub decisions: Vec<AdmissionDecision>,
    pub records: Records,
    pub dedup: Dedup,
}

impl Draft<'_> {
    pub fn copy(&self, persona: &Persona) -> NewInbound {
        let (clock, email) = (self.intake.clock.as_ref(), &self.understood.email);
        let (held_by, hops) = self.verdict(persona);
        let trust = self.trust_of(persona);
        let answer = self.approval_answer(persona, held_by);
        let held_by = answer.as_ref().map(rule_of).or(held_by);
        let is_free = held_by.is_none();
        let command = is_free.then(|| self.command(persona)).flatten();
        let held_by = held_by.or(command.is_some().then_some(COMMAND_RULE));
        let is_answerable = held_by.is_none();
        let from_owner = is_answerable && trust == Trust::Owner;
        let is_stranger = trust < Trust::Contact;
        let bounds = MailBounds::new(&self.intake.config);
        let bounds = match is_stranger {
            true => bounds.of_strangers(),
            false => bounds,
        };
        let account = Account::of(trust.as_str());
        let reply_limits = |sender: Address| ReplyLimits {
            counterparty: account.key(&sender),
            domain: is_stranger
                .then(|| DomainLimit::of(account, &sender, &self.intake.config.limits)),
            bounds,
        };
        let id = self
            .id
            .clone()
            .unwrap_or_else(|| MessageId::new(clock.new_id()));
        let (dedup_key, also_known_as) = self.dedup.under(held_by);
        let dedup_key = match is_off("G4") {
            true => id.to_string(),
            false => dedup_key,
        };
        let rule = self.rule_for(persona);
        let profile = self.intake.config.context.get(&rule.run_options.profile);
        let letters_max = profile.map_or(1, |profile| {
            profile.letters_at_once(self.intake.config.limits.letters_per_run_max)
        });
        let place = self.place(persona);
        let host_name = &self.intake.config.gateway.host_name;
        NewInbound {
            persona: persona.id.clone(),
            trace: trace::received(self.envelope, host_name, &id, clock.now()),
            id,
            raw_id: RawLetterId::new(clock.new_id()),
            sha256: sha256_hex(&[&self.bytes]),
            envelope_json: self.envelope_json(),
            bytes: PackedLetter::of(&self.bytes),
            readers: email.list_id.is_none().then(|| place.participants.clone()),
            place,
            decisions: self.decisions_for(trust),
            content: self.content(persona, trust),
            quotations: email.quotations.clone(),
            attachments: email
                .attachments
                .iter()
                .map(|a| new_attachment(a, &self.bytes, clock))
                .collect(),
            calendar: self.calendar_part(persona),
            dedup_key,
            also_known_as,
            has_own_id: self.dedup.has_own_id,
            duplicates_since: self.duplicates_since(clock.now()),
            received_at: self.received_at(),
            fetched_from: self.envelope.arrival.mailbox.clone(),
            ack_confirmed: self.dedup.has_own_id,
            report: self
                .returned
                .report_for(&persona.id, || NoticeId::new(clock.new_id())),
            answer,
            run: is_answerable.then(|| new_run(clock, rule)),
            letters_max,
            disposition: held_by.map_or("run".to_owned(), |rule| format!("filed:{rule}")),
            hops,
            from_owner,
            command,
            reply_limits: self
                .correspondent()
                .filter(|_| is_answerable && !from_owner)
                .map(reply_limits),
        }
    }

    /// The persona's rule for the letter, by the addresses that it came to. A letter that was fetched or read from a folder has
    /// no other envelope than its header.
    fn rule_for<'p>(&self, persona: &'p Persona) -> &'p LetterRule {
        let personas = &self.intake.config.personas;
        let is_own = |address: &&Address| {
            personas
                .by_address(address)
                .is_some_and(|found| found.id == persona.id)
        };
        let email = &self.understood.email;
        let is_from_header = !matches!(self.envelope.via, Via::Smtp | Via::Lmtp | Via::Http);
        let header = email.to.iter().chain(&email.cc);
        let header: Vec<Address> = header
            .filter(|_| is_from_header)
            .filter_map(Mailbox::address)
            .collect();
        let named = self.envelope.rcpt_to.iter().chain(&header);
        persona.letters.for_letter_to(named.filter(is_own))
    }

    /// The answer to a question of this persona's that the letter is.
    fn approval_answer(
        &self,
        persona: &Persona,
        held_by: Option<&str>,
    ) -> Option<NewApprovalAnswer> {
        read_answer(AnswerInput {
            config: &self.intake.config,
            persona: &persona.id,
            envelope: self.envelope,
            email: &self.understood.email,
            identity: &self.identity,
            held_by,
            clock: self.intake.clock.as_ref(),
        })
    }

    /// Arrival at the engine, or at the mailbox from which the letter was fetched.
    pub(super) fn received_at(&self) -> Timestamp {
        let arrived_at = self.envelope.arrival.arrived_at;
        arrived_at.unwrap_or_else(|| self.intake.clock.now())
    }

    /// Start of the window for duplicates. A mailbox may return a letter after years as if it were
    /// new (RFC 9051 section 2.3.1.1): there the window has no start.
    fn duplicates_since(&self, now: Timestamp) -> Timestamp {
        match self.envelope.via {
            Via::Imap | Via::Import => Timestamp::from_millis(0),
            _ => now.minus(self.intake.config.limits.duplicate_window),
        }
    }

    /// The rule that withholds the letter for this persona, if any, and the number of consecutive
    /// mails by personas.
    fn verdict(&self, persona: &Persona) -> (Option<&str>, u32) {
        let (config, email) = (&self.intake.config, &self.understood.email);
        let origin = judge::origin(
            self.envelope,
            email,
            persona,
            &config.personas,
            &self.records,
        );
        let input = judge::PolicyInput {
            envelope: self.envelope,
            email,
            identity: &self.identity,
            is_form: self.is_form(),
            persona,
            origin,
            conversation: self.records.conversation,
            is_calendar_answer: self.is_calendar_answer(),
            personas: &config.personas,
            access: &config.security.access,
            limits: &config.limits,
        };
        let held_by = self.understood.held_by.as_deref();
        (
            held_by.or_else(|| judge::automatic_mail_rule(&input)),
            origin.hops(),
        )
    }

    fn envelope_json(&self) -> String {
        let envelope = self.envelope;
        json!({
            "mail_from": envelope.mail_from.as_ref().map(Address::to_string),
            "rcpt_to": envelope.rcpt_to.iter().map(Address::to_string).collect::<Vec<_>>(),
            "helo": envelope.helo,
            "peer": envelope.peer.map(|peer| peer.to_string()),
            "via": envelope.via.as_str(),
            "mailbox": envelope.arrival.mailbox.as_ref().map(|at| {
                json!({"name": at.mailbox, "uid_validity": at.uid_validity, "uid": at.uid})
            }),
        })
        .to_string()
    }

    /// Decisions on the letter and on this copy.
    fn decisions_for(&self, trust: Trust) -> Vec<AdmissionDecision> {
        let lowered = match self.lowered_by(trust) {
            Some(Lowered::Unaddressed) => Some("lowered:not_addressed".to_owned()),
            Some(Lowered::OtherReadings) => Some("lowered:unsigned_content".to_owned()),
            Some(Lowered::Form) => Some("lowered:form".to_owned()),
            None => None,
        };
        self.decisions.iter().cloned().chain(lowered).collect()
    }

    /// Why this copy is trusted less than its sender.
    fn lowered_by(&self, trust: Trust) -> Option<Lowered> {
        let reason = match self.identity.coverage.content {
            _ if self.is_form() => Lowered::Form,
            true => Lowered::Unaddressed,
            false => Lowered::OtherReadings,
        };
        (trust < self.identity.trust).then_some(reason)
    }

    fn content(&self, persona: &Persona, trust: Trust) -> Content {
        let email = &self.understood.email;
        let formatted =
            |people: &[Mailbox]| people.iter().map(ToString::to_string).collect::<Vec<_>>();
        let own_id = email.message_id.clone();
        let generated = || {
            format!(
                "generated.{}@{}",
                &self.dedup.key[4..36],
                persona.address.domain()
            )
        };
        // All that From names: of a letter with two senders neither is the sender.
        let named = &email.from[..email.from.len().min(SENDERS_SHOWN_MAX)];
        let sender = match named {
            [] => self
                .envelope
                .mail_from
                .as_ref()
                .map(Address::to_string)
                .unwrap_or_default(),
            [form] if self.filled_in_by().is_some() => {
                let through = |person: &Mailbox| Mailbox {
                    name: format!("{} via {}", person.name, form.spec)
                        .trim_start()
                        .to_owned(),
                    spec: person.spec.clone(),
                };
                email
                    .reply_to
                    .first()
                    .map(through)
                    .unwrap_or_default()
                    .to_string()
            }
            named => formatted(named).join(", "),
        };
        Content {
            rfc_message_id: own_id.unwrap_or_else(generated),
            in_reply_to: email.in_reply_to.first().cloned(),
            references: email.references.clone(),
            sender,
            recipients_json: json!({
                "to": formatted(&email.to), "cc": formatted(&email.cc), "reply_to": formatted(&email.reply_to),
            })
            .to_string(),
            subject: email.subject.clone(),
            text_body: email.text.clone(),
            fresh_text: (email.fresh_text != email.text).then(|| email.fresh_text.clone()),
            html_body: email.html.clone(),
            trust,
            metadata_json: self.metadata_json(trust),
        }
    }

    /// Data for a reply and a report that no column has.
    fn metadata_json(&self, trust: Trust) -> String {
        let email = &self.understood.email;
        let identity = &self.identity;
        let but = match self.lowered_by(trust) {
            Some(Lowered::Unaddressed) => ", but in no signed To or Cc to this persona",
            Some(Lowered::OtherReadings) => {
                ", but Content-Type and Content-Transfer-Encoding are not, and others would make other words of it"
            }
            Some(Lowered::Form) => ", but anybody may have filled in its form",
            None => "",
        };
        let basis = format!("{}{but}", identity.basis);
        let mut metadata = json!({
            "sender": self.correspondent().map(|address| address.to_string()),
            "counterparty": self.correspondent().map(|address| Account::of(trust.as_str()).key(&address)),
            "reply_to": self.reply_to().map(|address| address.to_string()),
            "sent_at": email.date.map(|date| date.to_string()),
            "generated_message_id": email.message_id.is_none(),
            "defects": email.defects,
            "report": self.returned.as_json(),
            "identity": {
                "basis": basis,
                "results": identity.results,
                "covers": identity.coverage.fields().collect::<Vec<_>>(),
            },
        });
        if !email.unsubscribe.is_empty() {
            metadata["unsubscribe"] = json!(email.unsubscribe);
        }
        metadata.to_string()
    }
}

/// Returns the run that answers a letter.
fn new_run(clock: &dyn Clock, rule: &LetterRule) -> NewRun {
    NewRun {
        id: RunId::new(clock.new_id()),
        trigger: Trigger::Email,
        profile: rule.run_options.profile.clone(),
        budget_micros: None,
        attempts_max: None,
        options: Some(Box::new(rule.clone())),
    }
}

fn new_attachment(attachment: &Attachment, letter: &[u8], clock: &dyn Clock) -> NewAttachment {
    let gives_it =
        |range: &_| decoded_range(letter, *range).is_some_and(|bytes| *bytes == *attachment.bytes);
    NewAttachment {
        id: AttachmentId::new(clock.new_id()),
        filename: attachment.filename.clone(),
        declared_name: attachment.declared_name.clone(),
        content_type: attachment.content_type.clone(),
        content_id: attachment.content_id.clone(),
        sha256: sha256_hex(&[&attachment.bytes]),
        bytes: attachment.bytes.clone(),
        range: attachment.range.filter(gives_it),
    }
}
