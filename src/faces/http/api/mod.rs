//! The API, version 1: the records of `--json`, by a session or by the key of a program. What changes something is an action of a
//! page (`routes`), with JSON in place of its form. `agents`: questions of other agents.
//!
//! A list is `{items, next}`; `next` is the `cursor` of the page behind it. Times are RFC 3339 in UTC, money is micro-dollars, ids are
//! taken by their beginning or end. A word of the query that a route does not know is an error.

mod agents;
mod description;
mod events;
mod lists;
pub(super) mod pulse;
mod records;

pub(super) use agents::agents;
pub(super) use description::description;
pub(super) use events::events;
pub(super) use lists::{
    UsageSums, approvals, conversations, deliveries, memory, notices, personas, runs, slots, usage,
};
pub(super) use records::{
    HealthRecord, ReadyRecord, approval, health, memory_entry, message, named_approval, ready, run,
    run_context, thread,
};

use super::call::Call;
use super::failure::PageError;
use super::reply::record;
use schemars::JsonSchema;
use serde::Serialize;

/// Items of a list that are given where the query says nothing, and most of them.
const ITEMS: u32 = 50;
const ITEMS_MAX: u32 = 500;

/// A page of a list.
#[derive(Serialize, JsonSchema)]
pub(super) struct ItemList<T: Serialize> {
    items: Vec<T>,
    /// Begin of the next page; `None`: this was the last.
    next: Option<String>,
}

/// Returns the number of items that the query wants.
fn limit(call: &Call) -> Result<u32, PageError> {
    match call.query("limit") {
        "" => Ok(ITEMS),
        typed => match typed.parse::<u32>() {
            Ok(limit) if (1..=ITEMS_MAX).contains(&limit) => Ok(limit),
            _ => Err(PageError::Refused(format!(
                "`limit` is a number from 1 to {ITEMS_MAX}"
            ))),
        },
    }
}
