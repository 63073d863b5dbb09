//! `list_events`: what the persona has in its calendar in the next days.

use super::visibility::EventAudience;
use crate::calendar::{CalendarEvent, TimeSpan};
use crate::domain::Address;
use crate::domain::{Readers, TextLabel, Timestamp, Trust};
use crate::store::StoredEvent;
use crate::tools::contract::*;
use std::time::Duration;

const DAYS_MAX: usize = 366;
const LISTED_MAX: usize = 100;

/// Lists the events of your calendar, with your answers. Of events that not all readers of your answer take part in it
/// shows only when you are busy.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListEvents {
    /// Such as `2026-12-01T00:00:00Z`. Default: now.
    from: Option<String>,
    /// Default: 14.
    #[schemars(with = "Option<i64>")]
    days: Option<f64>,
}

impl TypedTool for ListEvents {
    const NAME: &str = "list_events";
    const EFFECTS: Effects = Effects::READS_PRIVATE;
    const RESULT_WORDS: ResultWords = ResultWords::Letters;
    const USES: ToolCapabilities = uses!(mail, calendar);
    const NEEDS: &'static [ToolNeed] = &[ToolNeed::Orders, ToolNeed::Invitation];

    async fn call(self, call: &ToolCall<'_>) -> Result<ToolOutcome, ToolError> {
        let from = match self.from.as_deref().map(str::trim) {
            None | Some("") => call.clock.now(),
            Some(typed) => Timestamp::parse(typed).ok_or_else(|| {
                ToolError::mendable(
                    "bad_time",
                    "`from` is no instant; write one such as `2026-12-01T00:00:00Z`",
                )
            })?,
        };
        let days = count(self.days, 14).clamp(1, DAYS_MAX);
        let days = u64::try_from(days).unwrap_or(1);
        let wanted = TimeSpan {
            start: from,
            end: from.plus(Duration::from_secs(days * 86_400)),
        };
        let (mail, calendar) = (call.env.mail()?, call.env.calendar()?);
        let audience = EventAudience::of(mail)?;
        // When the persona is busy is not for strangers.
        let sees_busy = mail
            .answers
            .as_ref()
            .is_none_or(|answered| answered.sender_trust >= Trust::Contact);
        let events = calendar.between((wanted.start, wanted.end)).await?;
        let mut listing = EventListing {
            wanted,
            own: mail.persona_address.key(),
            label: TextLabel::default(),
            found: Vec::new(),
        };
        for stored in events {
            let is_whole = audience.takes_part_in(&stored.event);
            if is_whole || (sees_busy && !stored.is_cancelled) {
                listing.add(&stored, is_whole);
            }
        }
        Ok(listing.outcome())
    }
}

struct EventListing {
    wanted: TimeSpan,
    /// Key of the persona's address.
    own: String,
    label: TextLabel,
    found: Vec<(Timestamp, Value)>,
}

impl EventListing {
    fn add(&mut self, stored: &StoredEvent, is_whole: bool) {
        let event = &stored.event;
        let spans = event.spans.iter().filter(|span| span.overlaps(self.wanted));
        let spans: Vec<&TimeSpan> = spans.collect();
        if spans.is_empty() {
            return;
        }
        if is_whole {
            self.label = std::mem::take(&mut self.label).and(self.label_of(event));
        }
        for span in spans {
            let mut shown = json!({
                "start": span.start.to_string(),
                "end": span.end.to_string(),
            });
            match is_whole {
                true => describe(&mut shown, stored),
                false => shown["busy"] = json!(true),
            }
            self.found.push((span.start, shown));
        }
    }

    /// Returns the label of an event's text: its organiser wrote it, and its people may read it.
    fn label_of(&self, event: &CalendarEvent) -> TextLabel {
        let people = event.attendees.iter().chain(&event.organizer);
        let keys = people.filter_map(|person| Some(Address::parse(&person.address).ok()?.key()));
        let is_own = event
            .organizer
            .as_ref()
            .is_some_and(|organizer| organizer.is(&self.own));
        TextLabel {
            lowest: (!is_own).then_some(Trust::Unknown),
            readers: Readers::Only(keys.collect()),
        }
    }

    fn outcome(mut self) -> ToolOutcome {
        self.found.sort_by_key(|(start, _)| *start);
        let total = self.found.len();
        let events: Vec<Value> = self
            .found
            .into_iter()
            .take(LISTED_MAX)
            .map(|(_, shown)| shown)
            .collect();
        ToolOutcome::labelled(
            json!({ "events": events, "count": total, "truncated": total > LISTED_MAX }),
            self.label,
        )
    }
}

fn describe(shown: &mut Value, stored: &StoredEvent) {
    let event = &stored.event;
    let people: Vec<Value> = event
        .attendees
        .iter()
        .map(|person| json!({ "address": person.address, "answer": person.answer.to_ascii_lowercase() }))
        .collect();
    shown["event"] = json!(event.summary);
    shown["uid"] = json!(event.uid);
    shown["organizer"] = json!(event.organizer.as_ref().map(|person| &person.address));
    shown["attendees"] = json!(people);
    shown["your_answer"] = json!(stored.answer.as_deref().map(str::to_ascii_lowercase));
    if !event.location.is_empty() {
        shown["place"] = json!(event.location);
    }
    if let Some(recurrence) = &event.recurrence {
        shown["repeats"] = json!(recurrence);
    }
    if stored.is_cancelled {
        shown["cancelled"] = json!(true);
    }
}
