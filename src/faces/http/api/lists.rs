//! Lists of the API.

use super::{ItemList, limit, record};
use crate::config::show_persona;
use crate::domain::{
    Address, ApprovalState, DeliveryId, MemoryStatus, PersonaId, RunState, ThreadOutcome,
    Timestamp, first_day,
};
use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::http::pages::inbox::cursor;
use crate::store::{
    DeliveryFilter, DeliveryState, ListPage, MemoryFilter, OverviewFilter, RunFilter, StoredSlot,
    UsageBy, UsageSince, UsageSum,
};
use axum::response::Response;
use schemars::JsonSchema;
use serde::Serialize;

/// Most sums of a report.
const SUMS_MAX: usize = 1_000;
/// Longest span of a report, in days.
const DAYS_MAX: u64 = 3_660;

pub(super) fn persona(call: &Call) -> Result<Option<PersonaId>, PageError> {
    match call.query("persona") {
        "" => Ok(None),
        typed => match PersonaId::parse(typed) {
            Ok(id) => Ok(Some(id)),
            Err(error) => Err(PageError::Refused(error.to_string())),
        },
    }
}

/// Reads a word of a known list; empty: none was given.
fn word<T>(
    call: &Call,
    name: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, PageError> {
    match call.query(name) {
        "" => Ok(None),
        typed => match parse(typed) {
            Some(value) => Ok(Some(value)),
            None => Err(PageError::Refused(format!(
                "`{}` is no {name}",
                crate::text::visible(&crate::text::truncated(typed, 40))
            ))),
        },
    }
}

fn all<T: Serialize>(items: Vec<T>) -> Result<Response, PageError> {
    record(&ItemList { items, next: None })
}

/// Returns the part of a list that the query wants, and one item more, by which its end is known.
fn part(call: &Call) -> Result<ListPage<'_>, PageError> {
    Ok(ListPage {
        after: Some(call.query("cursor")).filter(|cursor| !cursor.is_empty()),
        limit: limit(call)? + 1,
    })
}

/// Answers with a part of a list that was read with one item more than it has.
fn answer<T: Serialize>(
    mut items: Vec<T>,
    limit: u32,
    key: impl Fn(&T) -> String,
) -> Result<Response, PageError> {
    let most = usize::try_from(limit.saturating_sub(1)).unwrap_or(usize::MAX);
    let is_cut = items.len() > most;
    items.truncate(most);
    let next = items.last().filter(|_| is_cut).map(key);
    record(&ItemList { items, next })
}

/// Conversations, the newest first.
pub(in crate::http) async fn conversations(call: Call) -> Result<Response, PageError> {
    let after = match call.query("cursor") {
        "" => None,
        typed => Some(
            cursor(typed)
                .ok_or_else(|| PageError::Refused("this is no `cursor` of this list".to_owned()))?,
        ),
    };
    let filter = OverviewFilter {
        persona: persona(&call)?,
        outcomes: word(&call, "outcome", ThreadOutcome::parse)?
            .into_iter()
            .collect(),
        of_engine: None,
        after,
        limit: limit(&call)?,
    };
    let page = call.context.store.thread_overviews(&filter).await?;
    record(&ItemList {
        items: page.threads,
        next: page.next.map(|(at, id)| format!("{at},{id}")),
    })
}

/// Runs, the newest first.
pub(in crate::http) async fn runs(call: Call) -> Result<Response, PageError> {
    let limit = limit(&call)? + 1;
    let offset = word(&call, "cursor", |text| text.parse::<u32>().ok())?.unwrap_or(0);
    let filter = RunFilter {
        states: word(&call, "state", RunState::parse)?.into_iter().collect(),
        persona: persona(&call)?,
        since: word(&call, "since", Timestamp::parse)?,
        ended_since: None,
        limit,
        offset,
    };
    let found = call.context.store.list_runs(&filter).await?;
    answer(found, limit, |_| (offset + limit - 1).to_string())
}

/// Questions, open ones by their end, others the newest first.
pub(in crate::http) async fn approvals(call: Call) -> Result<Response, PageError> {
    let state = word(&call, "state", ApprovalState::parse)?;
    let (persona, part) = (persona(&call)?, part(&call)?);
    let store = &call.context.store;
    let found = store.approvals(state, persona.as_ref(), part).await?;
    answer(found, part.limit, |question| question.id.clone())
}

/// Mails on their way and gone, the newest first.
pub(in crate::http) async fn deliveries(call: Call) -> Result<Response, PageError> {
    let part = part(&call)?;
    let filter = DeliveryFilter {
        states: word(&call, "state", DeliveryState::parse)?
            .into_iter()
            .collect(),
        persona: persona(&call)?,
        after: part.after.map(DeliveryId::new),
        limit: part.limit,
    };
    let found = call.context.store.list_deliveries(&filter).await?;
    answer(found, part.limit, |mail| mail.id.to_string())
}

/// Notices by their cause.
pub(in crate::http) async fn notices(call: Call) -> Result<Response, PageError> {
    let part = part(&call)?;
    let found = call.context.store.list_notices(part).await?;
    answer(found, part.limit, |notice| notice.newest.to_string())
}

/// Entries of memory, the newest first.
pub(in crate::http) async fn memory(call: Call) -> Result<Response, PageError> {
    let part = part(&call)?;
    let filter = MemoryFilter {
        persona: persona(&call)?,
        status: word(&call, "status", MemoryStatus::parse)?,
        contact: word(&call, "contact", |text| Address::parse(text).ok())?
            .map(|address| address.key()),
        after: part.after.map(str::to_owned),
        limit: part.limit,
    };
    let found = call.context.store.memory_entries(&filter).await?;
    answer(found, part.limit, |entry| entry.id.clone())
}

/// Slots of all responsibilities, the newest first.
pub(in crate::http) async fn slots(call: Call) -> Result<Response, PageError> {
    let part = part(&call)?;
    let found = call.context.store.responsibility_slots(None, part).await?;
    answer(found, part.limit, StoredSlot::key)
}

/// Personas with their settings.
pub(in crate::http) async fn personas(call: Call) -> Result<Response, PageError> {
    let personas = call.context.config.personas.iter();
    all(personas.map(show_persona).collect())
}

/// Sums of usage of whole days.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct UsageSums {
    /// First day, in the zone of the budgets.
    since: String,
    by: &'static str,
    sums: Vec<UsageSum>,
    total: UsageSum,
    runs_waiting_for_money: i64,
}

/// What calls used and cost.
pub(in crate::http) async fn usage(call: Call) -> Result<Response, PageError> {
    let store = &call.context.store;
    let by = word(&call, "by", UsageBy::parse)?.unwrap_or(UsageBy::Day);
    let days = word(&call, "days", |text| text.parse::<u64>().ok())?;
    let days = days.unwrap_or(30).clamp(1, DAYS_MAX);
    let zone = &call.context.config.inference.budgets.zone;
    let since = first_day(days, call.context.now(), zone);
    let begin = UsageSince::Day(since.clone());
    record(&UsageSums {
        since,
        by: by.as_str(),
        sums: store.usage_since(&begin, Some(by), SUMS_MAX).await?,
        total: store.usage_total(&begin).await?,
        runs_waiting_for_money: store.runs_waiting_for_money().await?,
    })
}
