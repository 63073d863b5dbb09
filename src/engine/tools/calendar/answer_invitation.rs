//! `answer_invitation`: drafts the answer to an invitation of the thread (METHOD:REPLY, RFC 5546 section 3.2.3). The run loop
//! queues it with the call's result.

use super::visibility::EventAudience;
use crate::calendar::{CalendarEvent, CalendarMethod, answer_text};
use crate::domain::Address;
use crate::store::EventWrite;
use crate::text::one_line;
use crate::tools::contract::env::EventReader;
use crate::tools::contract::*;
use crate::tools::mail::send_email::{described, may_send};

const COMMENT_CHARS_MAX: usize = 2000;

/// Answers an invitation of this thread by a mail to its organizer. If the organizer wrote the letter that you answer,
/// your final text is not mailed, so say what else you want to say in `comment`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerInvitation {
    answer: InvitationAnswer,
    /// Default: the newest invitation of this thread.
    uid: Option<String>,
    /// One `instance` of a recurring event. Default: all.
    instance: Option<String>,
    comment: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum InvitationAnswer {
    Accept,
    Decline,
    Tentative,
}

impl InvitationAnswer {
    /// Returns the value of `PARTSTAT`, and the word for people.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Accept => ("ACCEPTED", "Accepted"),
            Self::Decline => ("DECLINED", "Declined"),
            Self::Tentative => ("TENTATIVE", "Tentatively accepted"),
        }
    }
}

impl TypedTool for AnswerInvitation {
    const NAME: &str = "answer_invitation";
    const CLASS: ToolClass = ToolClass::Transactional;
    const EFFECTS: Effects = Effects::SENDS_OUT;
    const RESULT_WORDS: ResultWords = ResultWords::Engine;
    const USES: ToolCapabilities = uses!(mail, calendar);
    const NEEDS: &'static [ToolNeed] = &[ToolNeed::Invitation];

    async fn call(self, call: &ToolCall<'_>) -> Result<ToolOutcome, ToolError> {
        let (mail, events) = (call.env.mail()?, call.env.calendar()?);
        may_send(mail)?;
        let invitation = find(events, mail, &self).await?;
        let organizer = organizer(&invitation)?;
        require_newest(events, &invitation, &organizer).await?;
        let attendee = invitation.attendee(&mail.persona_address);
        let Some(attendee) = attendee else {
            return refuse(
                "not_invited",
                "your address is not among those invited; write to the organizer with send_email",
            );
        };
        let (answer, word) = self.answer.words();
        let comment = checked_comment(self.comment.as_deref().unwrap_or_default())?;
        let summary = one_line(&invitation.summary);
        let me = (attendee.name.as_str(), &mail.persona_address);
        let text = answer_text(&invitation, me, (answer, comment), call.clock.now());
        let draft = MailDraft {
            is_reply: is_from(&organizer, mail),
            to: vec![organizer.clone()],
            subject: format!("{word}: {summary}"),
            body: format!("{word}: {summary}\n\n{comment}").trim().to_owned(),
            calendar: Some(DraftCalendar {
                method: "REPLY",
                text,
                event: EventWrite::Answer {
                    uid: invitation.uid.clone(),
                    organizer: organizer.key(),
                    recurrence_id: invitation.recurrence_id.clone(),
                    answer: answer.to_owned(),
                },
            }),
            ..MailDraft::default()
        };
        let mut result = described(&draft);
        result["answer"] = answer.to_ascii_lowercase().into();
        Ok(ToolOutcome::mailing(result, draft))
    }
}

/// Returns the invitation that is meant. Errors: `invitation_not_found`.
async fn find(
    events: EventReader<'_>,
    mail: &MailPolicy,
    args: &AnswerInvitation,
) -> Result<CalendarEvent, ToolError> {
    let audience = EventAudience::of(mail)?;
    let parts = events.thread_parts(audience.rule(events)).await?;
    let is_meant = |event: &CalendarEvent| {
        let of_uid = args.uid.as_ref().is_none_or(|uid| *uid == event.uid);
        let instance = args.instance.as_deref().unwrap_or_default();
        let of_instance = match instance {
            "" => true,
            instance => instance == event.recurrence_id,
        };
        of_uid && of_instance
    };
    let invitations = parts
        .into_iter()
        .filter(|(_, note)| note.object.method == CalendarMethod::Request);
    let mut found = invitations.flat_map(|(_, note)| note.object.events);
    found.find(is_meant).ok_or_else(|| {
        ToolError::mendable(
            "invitation_not_found",
            "this thread has no such invitation; leave `uid` and `instance` out for the newest one, or say in words what you want",
        )
    })
}

fn organizer(invitation: &CalendarEvent) -> Result<Address, ToolError> {
    let organizer = invitation.organizer.as_ref();
    let organizer = organizer.and_then(|person| Address::parse(&person.address).ok());
    organizer.ok_or_else(|| {
        ToolError::mendable(
            "no_organizer",
            "the invitation names no organizer with an address, so it cannot be answered this way; answer in words",
        )
    })
}

/// Errors: the event was cancelled, or a newer version is known.
async fn require_newest(
    events: EventReader<'_>,
    invitation: &CalendarEvent,
    organizer: &Address,
) -> Result<(), ToolError> {
    let of = (invitation.uid.as_str(), organizer);
    let known = events.event(of, &invitation.recurrence_id).await?;
    match known {
        Some(known) if known.is_cancelled => refuse(
            "invitation_cancelled",
            "its organizer has cancelled this event; there is nothing to answer",
        ),
        Some(known) if known.event.sequence > invitation.sequence => refuse(
            "invitation_outdated",
            "the organizer has sent a newer version of this event; answer that one, in the thread where it came",
        ),
        _ => Ok(()),
    }
}

/// Reports whether the organizer wrote the letter that the run answers.
fn is_from(organizer: &Address, mail: &MailPolicy) -> bool {
    let sender = mail
        .answers
        .as_ref()
        .and_then(|answered| answered.sender.as_ref());
    sender.is_some_and(|sender| sender.key() == organizer.key())
}

fn checked_comment(comment: &str) -> Result<&str, ToolError> {
    let comment = comment.trim();
    if comment.chars().count() > COMMENT_CHARS_MAX || !is_plain(comment) {
        return refuse(
            "bad_comment",
            format!("the comment must be plain text of at most {COMMENT_CHARS_MAX} characters"),
        );
    }
    Ok(comment)
}
