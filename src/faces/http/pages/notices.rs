//! Notices: what the owners were told, and what waits to be told, by its cause; each with its subject, what to do on the pages,
//! and whether its cause is over.

use crate::domain::{NoticeKind, NoticeSubject};
use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::store::{ListPage, Notice, NoticeFold, StoredResponsibility};
use axum::response::Response;
use form_urlencoded::byte_serialize;
use serde::Serialize;
use serde_json::json;

/// Most causes that the page shows.
const CAUSES_MAX: u32 = 100;

/// A cause with its newest event.
#[derive(Serialize)]
struct NoticeRow {
    #[serde(flatten)]
    fold: NoticeFold,
    newest_event: Option<Notice>,
    /// Page of the subject, with its name.
    link: Option<(String, &'static str)>,
    remedy: &'static str,
    /// Words of the end of the cause; `None`: it lasts, or nothing tells.
    over: Option<&'static str>,
}

pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    let store = &call.context.store;
    let responsibilities = store.responsibilities().await?;
    let mut rows = Vec::new();
    let mut folds = store.list_notices(ListPage::first(CAUSES_MAX)).await?;
    folds.retain(|fold| fold.dismissed_at.is_none());
    for fold in folds {
        // A cause may have been told several times, each with an event of its own.
        let newest_event = Some(store.find_notice(fold.newest.as_str()).await?);
        let over = match &newest_event {
            Some(event) => call.context.end_of_cause(event).await?,
            None => None,
        };
        rows.push(NoticeRow {
            link: newest_event
                .as_ref()
                .map(|event| link(event, &responsibilities)),
            remedy: newest_event.as_ref().map_or("", |event| remedy(event.kind)),
            over,
            fold,
            newest_event,
        });
    }
    call.page("notices.html", &json!({ "rows": rows })).await
}

/// Takes the cause of a notice off the page until it happens again.
pub(in crate::http) async fn dismiss(call: Call) -> Result<Response, PageError> {
    let store = &call.context.store;
    let notice = store.find_notice(call.param("id")).await?;
    store.dismiss_notices(&notice).await?;
    call.context.count_causes_anew();
    call.done("/notices", &notice)
}

/// Returns the page of a notice's subject, with its name.
fn link(event: &Notice, responsibilities: &[StoredResponsibility]) -> (String, &'static str) {
    let id = &event.subject.id;
    let name = match event.subject.kind {
        NoticeSubject::Run => "Its run",
        NoticeSubject::Delivery => "Its mail",
        NoticeSubject::Letter => "Its letter",
        NoticeSubject::Correspondent => "What they wrote",
        NoticeSubject::Budget => "The budgets",
        NoticeSubject::Persona => "The persona",
        NoticeSubject::Responsibility => {
            let row = responsibilities.iter().find(|row| row.id.as_str() == id);
            if let Some(row) = row {
                let file: String = byte_serialize(row.file.as_bytes()).collect();
                return (
                    format!("/personas/{}/file?name={file}", row.persona),
                    "Its file",
                );
            }
            "The schedule"
        }
        NoticeSubject::ConfigFile | NoticeSubject::Hook | NoticeSubject::McpServer => {
            "The configuration"
        }
        NoticeSubject::Transport
        | NoticeSubject::Mailbox
        | NoticeSubject::Folder
        | NoticeSubject::Ingress
        | NoticeSubject::Webhook
        | NoticeSubject::Backup => "The health of the engine",
    };
    (event.subject.kind.page(id), name)
}

/// Returns what its owner can do about a notice on the pages; empty: its hint is all there is.
fn remedy(kind: NoticeKind) -> &'static str {
    match kind {
        NoticeKind::RunFailed => "Its run says what failed; it can be tried again there.",
        NoticeKind::OutcomeUnknown => {
            "Its run says what was called: look whether that has happened before you have it tried again."
        }
        NoticeKind::BudgetReached => {
            "Runs wait until the next day or month, or until a higher bound in configs/inference.json is in force."
        }
        NoticeKind::DeliveryFailed => {
            "The outbox says what the server answered; the mail can be sent again there."
        }
        NoticeKind::DeliveryDelayed => {
            "It is tried again by itself; the outbox can have it tried now, or give it up."
        }
        NoticeKind::DeliveryHeld => {
            "The recipient may have it already: send it again or cancel it in the outbox."
        }
        NoticeKind::TransportRefused | NoticeKind::TransportDown => {
            "Mails wait in the outbox until the server of `outbound` takes them again."
        }
        NoticeKind::ResponsibilityBroken => "Its file can be mended on its page.",
        NoticeKind::ResponsibilityPaused => "Once its runs can succeed, resume it on the schedule.",
        NoticeKind::ResponsibilityProposed => {
            "Read its file; with `enabled: true` it fires, and without the file it is gone."
        }
        NoticeKind::ReplyToUnused => {
            "Whoever the Reply-To names has no answer: write to them, or name the form in `reply_to_of`."
        }
        NoticeKind::LetterFiled => "A letter can be answered on its page.",
        NoticeKind::ConfigFaulty => {
            "The configuration says what is wrong; what was good before stays in force."
        }
        NoticeKind::TextMissing => "The runs that wait for it go on when the file is back.",
        _ => "",
    }
}
