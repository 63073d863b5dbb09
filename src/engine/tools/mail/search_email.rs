//! `search_email`: finds messages that the persona received or sent, as far as the recipient of the
//! answer may see them.

use super::visibility::{
    MessagePeople, addresses, label_of, plain_line, scope_of, whoever_may_see,
};
use crate::domain::{TextLabel, Timestamp};
use crate::store::{FoundMessage, MessageSearch};
use crate::tools::contract::*;
use chrono::{Days, NaiveDate, NaiveTime};

pub const SEARCH_EMAIL: &str = "search_email";
const LIMIT_DEFAULT: usize = 10;
const LIMIT_MAX: usize = 50;
/// Words for a search without a hit: a model that is shown nothing must not take that for a failure.
const NOTHING: &str = "nothing relevant was found";
/// Searches the mail that you received and sent. All fields that you give must match; give at least one. The best match
/// comes first, without a query the newest.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchEmail {
    /// Words or a question.
    query: Option<String>,
    /// Name or address of the sender.
    from: Option<String>,
    subject: Option<String>,
    /// First day (UTC), YYYY-MM-DD, or an RFC 3339 time.
    since: Option<String>,
    /// Last day or time, likewise.
    until: Option<String>,
    /// 1 to 50. Default: 10.
    #[schemars(with = "Option<i64>")]
    limit: Option<f64>,
}

impl TypedTool for SearchEmail {
    const NAME: &str = SEARCH_EMAIL;
    const EFFECTS: Effects = Effects::READS_PRIVATE;
    const RESULT_WORDS: ResultWords = ResultWords::Letters;
    const USES: ToolCapabilities = uses!(mail, search);

    async fn call(self, call: &ToolCall<'_>) -> Result<ToolOutcome, ToolError> {
        let limit = count(self.limit, LIMIT_DEFAULT).clamp(1, LIMIT_MAX);
        let mut search = search_for(self)?;
        search.visible_to = whoever_may_see(call.env.mail()?)?;
        let scope = scope_of(search.visible_to.as_deref());
        // Requests an extra row, to know whether there are more.
        search.limit = limit as u32 + 1;
        let found = call.env.search()?.messages(&search, call.run).await?;
        let (result, shown) = answer(&found, scope, limit, call.limits.result_bytes_max);
        Ok(ToolOutcome::labelled(
            result,
            labels_of(&found[..shown], scope),
        ))
    }
}

fn search_for(args: SearchEmail) -> Result<MessageSearch, ToolError> {
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
        return refuse(
            "no_filter",
            "give at least one of: query, from, subject, since, until",
        );
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
        ToolError::mendable("bad_date", format!(
            "field `{field}` must be a day such as 2026-11-20 or an instant such as 2026-11-20T08:00:00Z"
        ))
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
        let mut answer =
            json!({ "scope": scope, "count": messages.len(), "more": more, "messages": messages });
        if found.is_empty() {
            answer["note"] = json!(NOTHING);
        }
        if messages.is_empty() || answer.to_string().len() <= result_bytes_max {
            return (answer, messages.len());
        }
        messages.pop();
    }
}

fn labels_of(found: &[FoundMessage], scope: &str) -> TextLabel {
    found
        .iter()
        .map(|message| label_of(message.into(), scope))
        .fold(TextLabel::default(), TextLabel::and)
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
    if MessagePeople::from(found).is_withheld() {
        message["sent"] = json!(false);
    }
    message
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
}
