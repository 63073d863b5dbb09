//! Notices: what the owners were told, and what waits to be told, by its cause.

use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::store::{ListPage, Notice, NoticeFold};
use axum::response::Response;
use serde::Serialize;

/// Most causes that the page shows, and most events of one.
const CAUSES_MAX: u32 = 100;
const EVENTS_MAX: usize = 1;

#[derive(Serialize)]
struct NoticesPage {
    rows: Vec<NoticeRow>,
}

/// A cause with its newest event.
#[derive(Serialize)]
struct NoticeRow {
    #[serde(flatten)]
    fold: NoticeFold,
    newest_event: Option<Notice>,
}

pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    let store = &call.context.store;
    let mut rows = Vec::new();
    for fold in store.list_notices(ListPage::first(CAUSES_MAX)).await? {
        let newest_event = store.notices_of_cause(&fold.cause, EVENTS_MAX).await?.pop();
        rows.push(NoticeRow { fold, newest_event });
    }
    call.page("notices.html", &NoticesPage { rows }).await
}
