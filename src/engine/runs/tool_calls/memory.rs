//! Place of a run's memory: the people around it, and the new text that an entry may quote.

use crate::context::resolvers::Subject;
use crate::domain::Trigger;
use crate::mime::own_words;
use crate::tools::{MemoryPlace, QuotableText};

/// Author of what is asked at the machine.
const OWNER: &str = "owner";

/// Returns the place; `None`: the run answers nobody whose address is proved.
pub fn place(subject: &Subject) -> Option<MemoryPlace> {
    let circle = subject.memory_circle()?;
    let message = &subject.message;
    // A scheduled prompt may hold letters of others.
    let said_by = match subject.trigger {
        Trigger::Email => circle.sender.clone(),
        Trigger::Chat => Some(OWNER.to_owned()),
        Trigger::Schedule | Trigger::Manual | Trigger::Summary => None,
    };
    let (text, part) = match &message.fresh_text {
        Some(fresh) => (fresh, "fresh"),
        None => (&message.text_body, "body"),
    };
    // What is quoted or forwarded, others said.
    let text = own_words(text);
    let is_own = |c: char| !c.is_whitespace() && c != '\u{fffd}';
    let said_by = said_by.filter(|_| text.contains(is_own));
    let new_text = said_by.map(|said_by| QuotableText {
        message: message.id.clone(),
        text,
        part,
        said_by,
        said_at: message.received_at,
    });
    Some(MemoryPlace { circle, new_text })
}
