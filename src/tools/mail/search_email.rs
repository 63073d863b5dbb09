//! `search_email`: finds messages that the persona received or sent, as far as the recipient of the
//! answer may see them.

use crate::domain::{Address, Readers, TextLabel, Timestamp, Trust};
use crate::mutants::is_off;
use crate::store::{FoundMessage, MessageSearch};
use crate::text::truncated;
use crate::tools::contract::arguments::{count, read_args};
use crate::tools::{
    Effects, MailPolicy, ResultWords, Tool, ToolCall, ToolCapabilities, ToolClass, ToolDeclaration,
    ToolError, ToolOutcome, arguments_schema,
};
use chrono::{Days, NaiveDate, NaiveTime};
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const LIMIT_DEFAULT: usize = 10;
const LIMIT_MAX: usize = 50;
/// Most characters of a subject, an address list or a snippet in the answer.
const FIELD_CHARS_MAX: usize = 400;

/// `scope` of a result that holds only what every reader of the thread may see.
pub const SCOPE_OF_THREAD: &str = "what the people of this thread may see";
const SCOPE_OF_ALL: &str = "all mail";

/// Text that the model reads.
const DESCRIPTION: &str = "Searches the mail you received and sent. Give at least one of query, from, subject, since, until; all that \
         are given must match, and so must every word of a text. With words the best match comes first, otherwise \
         the newest.";

pub struct SearchEmail;

/// Arguments, with the descriptions that the model reads.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchEmailArgs {
    /// Words that must all occur in the subject, the sender or the body.
    query: Option<String>,
    /// Name or address of the sender, e.g. `carol` or `carol@partner.test`.
    from: Option<String>,
    /// Words that must all occur in the subject.
    subject: Option<String>,
    /// First day, as YYYY-MM-DD, or an instant as RFC 3339. Days are UTC.
    since: Option<String>,
    /// Last day, as YYYY-MM-DD, or an instant as RFC 3339. Days are UTC.
    until: Option<String>,
    /// Most messages to return, 1 to 50. Default: 10.
    #[schemars(with = "Option<i64>")]
    limit: Option<f64>,
}

impl Tool for SearchEmail {
    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration {
            name: "search_email".to_owned(),
            description: DESCRIPTION.to_owned(),
            input_schema: arguments_schema::<SearchEmailArgs>(),
            class: ToolClass::Repeatable,
            effects: Effects {
                reads_private: true,
                ..Effects::NONE
            },
            result_words: ResultWords::Letters,
            capabilities: ToolCapabilities {
                mail: true,
                search: true,
                ..ToolCapabilities::NONE
            },
        }
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<ToolOutcome, ToolError>> {
        Box::pin(async move {
            let args: SearchEmailArgs = read_args(call.args)?;
            let limit = count(args.limit, LIMIT_DEFAULT).clamp(1, LIMIT_MAX);
            let mut search = search_for(args)?;
            search.visible_to = whoever_may_see(call.env.mail()?)?;
            let scope = if search.visible_to.is_some() {
                SCOPE_OF_THREAD
            } else {
                SCOPE_OF_ALL
            };
            // Requests an extra row, to know whether there are more.
            search.limit = limit as u32 + 1;
            let found = call.env.search()?.messages(&search).await?;
            let (result, shown) = answer(&found, scope, limit, call.limits.result_bytes_max);
            Ok(ToolOutcome {
                result,
                label: label_of(&found[..shown], scope),
                ..ToolOutcome::default()
            })
        })
    }
}

/// Returns the addresses whose view of the mail this run has; `None` sees all. A run's reads can
/// end in its answer, and its answer can reach every reader of the thread: so a run sees what all
/// of them could read themselves, and an owner's whole view only while the thread has no other
/// reader and an authenticated owner asks: otherwise that address sees its own mail.
fn whoever_may_see(mail: &MailPolicy) -> Result<Option<Vec<Address>>, ToolError> {
    let Some(answered) = &mail.answers else {
        return Ok(None);
    };
    let Some(sender) = &answered.sender else {
        return Err(ToolError::mendable(
            "search_not_allowed",
            "the letter you answer has no single sender, so other mail must not be searched for it; \
             answer from this thread",
        ));
    };
    let is_owner = |address: &Address| mail.owners.iter().any(|owner| owner.key() == address.key());
    let everybody = mail.participants.iter().chain([sender]);
    let others: Vec<Address> = everybody
        .filter(|address| !is_owner(address))
        .cloned()
        .collect();
    if is_off("G12.search") {
        return Ok(None);
    }
    if others.is_empty() && answered.sender_trust < Trust::Owner {
        return Ok(Some(vec![sender.clone()]));
    }
    Ok((!others.is_empty()).then_some(others))
}

fn search_for(args: SearchEmailArgs) -> Result<MessageSearch, ToolError> {
    let given = |text: Option<String>| text.filter(|t| !t.trim().is_empty());
    let (since, until) = (given(args.since), given(args.until));
    let search = MessageSearch {
        query: given(args.query),
        from: given(args.from),
        subject: given(args.subject),
        since: since
            .map(|text| instant("since", &text, false))
            .transpose()?,
        before: until
            .map(|text| instant("until", &text, true))
            .transpose()?,
        ..MessageSearch::default()
    };
    if search == MessageSearch::default() {
        return Err(ToolError::mendable(
            "no_filter",
            "give at least one of: query, from, subject, since, until",
        ));
    }
    Ok(search)
}

/// Parses a day or an instant; `end` asks for the first instant after it.
fn instant(field: &str, text: &str, end: bool) -> Result<Timestamp, ToolError> {
    let text = text.trim();
    if let Some(instant) = Timestamp::parse(text) {
        return Ok(if end {
            instant.plus(std::time::Duration::from_millis(1))
        } else {
            instant
        });
    }
    let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok();
    let day = day.and_then(|day| {
        if end {
            day.checked_add_days(Days::new(1))
        } else {
            Some(day)
        }
    });
    let day = day.ok_or_else(|| {
        let hint = format!(
            "field `{field}` must be a day such as 2026-11-20 or an instant such as 2026-11-20T08:00:00Z"
        );
        ToolError::mendable("bad_date", hint)
    })?;
    Ok(Timestamp::from(day.and_time(NaiveTime::MIN).and_utc()))
}

/// Returns the result, and how many of the messages it shows.
fn answer(
    found: &[FoundMessage],
    scope: &str,
    limit: usize,
    result_bytes_max: usize,
) -> (Value, usize) {
    let mut messages: Vec<Value> = found.iter().take(limit).map(described).collect();
    loop {
        let more = messages.len() < found.len();
        let answer =
            json!({ "scope": scope, "count": messages.len(), "more": more, "messages": messages });
        if messages.is_empty() || answer.to_string().len() <= result_bytes_max {
            return (answer, messages.len());
        }
        messages.pop();
    }
}

/// Returns the label of found messages. What everybody in the run's thread may see limits no recipient; any other message
/// may be read by its sender and by whom it names in To and Cc.
fn label_of(found: &[FoundMessage], scope: &str) -> TextLabel {
    let label = |message: &FoundMessage| TextLabel {
        lowest: (message.direction == "inbound").then(|| Trust::of_stored(&message.trust)),
        readers: match scope {
            SCOPE_OF_THREAD => Readers::Everyone,
            _ => Readers::Only(readers_of(message)),
        },
    };
    found
        .iter()
        .map(label)
        .fold(TextLabel::default(), TextLabel::and)
}

fn readers_of(message: &FoundMessage) -> BTreeSet<String> {
    let recipients: Value = serde_json::from_str(&message.recipients_json).unwrap_or_default();
    let named = addresses(&recipients, "to").chain(addresses(&recipients, "cc"));
    let bare = |text: &str| {
        let bare = text.rsplit_once('<').map_or(text, |(_, address)| address);
        Address::parse(bare.trim_end_matches('>').trim()).ok()
    };
    named
        .chain([message.sender.as_str()])
        .filter_map(bare)
        .map(|address| address.key())
        .collect()
}

fn addresses<'v>(recipients: &'v Value, field: &str) -> impl Iterator<Item = &'v str> {
    let list = recipients[field].as_array();
    list.into_iter().flatten().filter_map(Value::as_str)
}

fn described(found: &FoundMessage) -> Value {
    let recipients: Value = serde_json::from_str(&found.recipients_json).unwrap_or_default();
    let to = addresses(&recipients, "to");
    let mut message = json!({
        "id": found.id.as_str(),
        "thread": found.thread_id.as_str(),
        "direction": found.direction,
        "date": found.received_at.to_string(),
        "from": plain_line(&found.sender),
        "to": plain_line(&to.collect::<Vec<_>>().join(", ")),
        "subject": plain_line(&found.subject),
        "snippet": plain_line(&found.snippet),
    });
    if found.direction == "inbound" {
        message["trust"] = json!(found.trust);
    }
    if found.direction == "outbound" && found.disposition.starts_with("withheld") {
        message["sent"] = json!(false);
    }
    message
}

/// Returns one line without control characters and without the invisible ones that reorder or hide
/// text.
fn plain_line(text: &str) -> String {
    let hidden = |c: char| matches!(c, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}');
    let visible: String = text
        .chars()
        .filter(|c| !hidden(*c))
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let line = visible.split_whitespace().collect::<Vec<_>>().join(" ");
    truncated(&line, FIELD_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_whole_and_an_instant_is_included() {
        let at = |field, text, end| {
            instant(field, text, end)
                .map(|t| t.to_string())
                .map_err(|e| e.to_string())
        };
        assert_eq!(
            at("since", "2026-11-20", false).as_deref(),
            Ok("2026-11-20T00:00:00.000Z")
        );
        assert_eq!(
            at("until", " 2026-11-20 ", true).as_deref(),
            Ok("2026-11-21T00:00:00.000Z")
        );
        assert_eq!(
            at("until", "2026-11-20T08:00:00Z", true).as_deref(),
            Ok("2026-11-20T08:00:00.001Z")
        );
        assert!(
            at("until", "yesterday", true)
                .is_err_and(|e| e.starts_with("field `until` must be a day"))
        );
    }

    #[test]
    fn a_line_shows_all_that_it_holds() {
        assert_eq!(
            plain_line("a\u{1b}[2Jb\r\n\u{202e}c\u{200b}d\0"),
            "a [2Jb cd"
        );
    }
}
