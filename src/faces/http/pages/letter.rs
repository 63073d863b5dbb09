//! A letter: its text, its links as text, its attachments as files, and its HTML in a frame that can do nothing.

use super::thread::letter_view;
use crate::domain::{Email, MessageId, RunId};
use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::http::hostile;
use crate::http::reply;
use crate::http::words::delivery_state;
use crate::mime::{self, ParseLimits};
use crate::store::{Delivery, StoreError, ThreadMessage};
use axum::response::Response;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

/// Most links that are listed.
const LINKS_MAX: usize = 100;

/// A letter as stored, and as it is read now.
struct FoundBytes {
    id: MessageId,
    trace: Option<String>,
    bytes: Vec<u8>,
    email: Option<Email>,
    delivery: Option<Delivery>,
}

async fn found(call: &Call) -> Result<FoundBytes, PageError> {
    let store = &call.context.store;
    let id: MessageId = store.find_message(call.param("id")).await?;
    let (trace, bytes, delivery) = match store.raw_letter(&id).await {
        Ok(letter) => (letter.trace, letter.bytes, None),
        Err(StoreError::Missing { .. }) => match store.delivery_of_message(&id).await? {
            Some(frozen) => (None, frozen.bytes, Some(frozen.delivery)),
            None => (None, Vec::new(), None),
        },
        Err(error) => return Err(error.into()),
    };
    let email = mime::parse(&bytes, &ParseLimits::default()).ok();
    Ok(FoundBytes {
        id,
        trace,
        bytes,
        email,
        delivery,
    })
}

/// A letter for which a run was queued, as the command line prints it.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct AnsweredFiled<'a> {
    message: &'a MessageId,
    run: &'a RunId,
    outcome: &'static str,
}

/// Has a letter answered that a rule has filed.
pub(in crate::http) async fn answer(call: Call) -> Result<Response, PageError> {
    let store = &call.context.store;
    let message = &store.find_message(call.param("id")).await?;
    let run = &store.answer_message(message).await?;
    call.context.wake();
    let answered = AnsweredFiled {
        message,
        run,
        outcome: "queued",
    };
    call.done(&format!("/r/{run}"), &answered)
}

pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    let store = &call.context.store;
    let FoundBytes {
        id,
        trace,
        bytes,
        email,
        delivery,
    } = found(&call).await?;
    let (persona, thread) = store.place_of_message(&id).await?;
    let handle = store.persona(&persona);
    let message = handle.message(&id).await?;
    let attachments = handle.attachment_infos(&id).await?;
    let text = message.text_body.clone();
    let record = crate::replay::message_record(message.clone(), attachments.clone());
    let html = email.as_ref().and_then(|email| email.html.clone());
    let links = hostile::links(
        [Some(text.clone()), html.as_deref().map(mime::html_to_text)]
            .into_iter()
            .flatten(),
        LINKS_MAX,
    );
    let files = email.iter().flat_map(|email| &email.attachments);
    let files = files.enumerate().map(|(at, file)| {
        json!({
            "number": at + 1,
            "name": match file.declared_name.is_empty() {
                true => file.filename.clone(),
                false => file.declared_name.clone(),
            },
            "content_type": file.content_type,
            "size_bytes": file.bytes.len(),
        })
    });
    let mut letter = letter_view(
        ThreadMessage {
            message,
            attachments,
        },
        Vec::new(),
    );
    letter.show_draft(store).await?;
    let page = json!({
        "run": record.run,
        "delivery_state": delivery
            .as_ref()
            .map(|mail| delivery_state(mail.state.as_str(), mail.possible_duplicate)),
        "delivery": delivery,
        "letter": letter,
        "persona": persona.to_string(),
        "thread": thread.to_string(),
        "text": text,
        "links": links,
        "has_html": html.is_some(),
        "has_bytes": !bytes.is_empty(),
        "bytes": bytes.len(),
        "trace": trace,
        "results": record.authentication_results,
        "files": files.collect::<Vec<_>>(),
        "defects": email.map(|email| email.defects).unwrap_or_default(),
    });
    call.page("letter.html", &page).await
}

/// The HTML of a letter, for the frame: under a policy that lets it load, run and send nothing.
pub(in crate::http) async fn body(call: Call) -> Result<Response, PageError> {
    let found = found(&call).await?;
    let email = found
        .email
        .ok_or_else(|| PageError::Missing("letter".to_owned()))?;
    let html = email
        .html
        .as_deref()
        .ok_or_else(|| PageError::Missing("HTML of a letter".to_owned()))?;
    Ok(reply::framed(hostile::page(html, &email.attachments)))
}

/// The bytes of a letter as they came.
pub(in crate::http) async fn raw(call: Call) -> Result<Response, PageError> {
    let FoundBytes { trace, bytes, .. } = found(&call).await?;
    if bytes.is_empty() {
        return Err(PageError::Missing("letter with its bytes".to_owned()));
    }
    let whole = [trace.unwrap_or_default().into_bytes(), bytes].concat();
    Ok(reply::plain(whole))
}

/// A file that came with a letter: to be saved, never to be shown.
pub(in crate::http) async fn file(call: Call) -> Result<Response, PageError> {
    let missing = || PageError::Missing("file".to_owned());
    let email = found(&call).await?.email.ok_or_else(missing)?;
    let number = call
        .param("number")
        .parse::<usize>()
        .map_err(|_| missing())?;
    let at = number.checked_sub(1).ok_or_else(missing)?;
    let file = email.attachments.get(at).ok_or_else(missing)?;
    Ok(reply::download(&file.filename, file.bytes.clone()))
}
