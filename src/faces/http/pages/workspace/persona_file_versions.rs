//! What a file of a persona was before: by whom it was replaced and when, the difference, and the way back.

use super::persona_file::{page_error, persona, query_word, replace};
use crate::http::call::Call;
use crate::http::failure::{PageError, Shape};
use crate::http::reply;
use crate::store::PersonaStore;
use crate::store::files::persona_file_versions::{NewFileText, PersonaFileVersionText};
use crate::text::line_diff::line_diff;
use axum::response::Response;
use serde_json::json;

fn store(call: &Call) -> Result<PersonaStore, PageError> {
    Ok(call.context.store.persona(&persona(call)?.id))
}

/// Returns the version of a number, as typed; without one the newest.
async fn version(
    call: &Call,
    name: &str,
    typed: &str,
) -> Result<PersonaFileVersionText, PageError> {
    let missing = || PageError::Missing("version".to_owned());
    let number = match typed {
        "" => None,
        typed => Some(typed.parse().map_err(|_| missing())?),
    };
    let found = store(call)?.file_version(name, number).await?;
    found.ok_or_else(missing)
}

/// Returns the version that a word of the query names; `None`: it names none.
async fn named(
    call: &Call,
    name: &str,
    word: &str,
) -> Result<Option<PersonaFileVersionText>, PageError> {
    match call.query(word) {
        "" => Ok(None),
        typed => version(call, name, typed).await.map(Some),
    }
}

/// Shows the earlier versions of a file, with the difference between two, or answers with their list.
pub(in crate::http) async fn list(call: Call) -> Result<Response, PageError> {
    let persona = persona(&call)?;
    let name = call.query("name");
    let history = store(&call)?.file_history(&persona.folder, name).await;
    let history = history.map_err(page_error)?;
    if call.shape == Shape::Json {
        return reply::record(&history);
    }
    let old = named(&call, name, "version").await?;
    let new = named(&call, name, "with").await?;
    let compared = old.as_ref().map(|old| {
        let new_text = new.as_ref().map_or(&history.file.text, |new| &new.text);
        json!({
            "version": old.about.version,
            "with": new.as_ref().map(|new| new.about.version),
            "difference": line_diff(&old.text, new_text),
        })
    });
    let page = json!({
        "persona": persona.id.as_str(),
        "persona_name": persona.name,
        "history": history,
        "query": query_word(name),
        "compared": compared,
    });
    call.page("persona_file_versions.html", &page).await
}

/// Answers with a version and its text.
pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    let found = version(&call, call.query("name"), call.query("version")).await?;
    reply::record(&found)
}

/// Replaces a file by an earlier version of it, as any other text does.
pub(in crate::http) async fn restore(call: Call) -> Result<Response, PageError> {
    let name = call.field("name");
    let found = version(&call, name, call.field("version")).await?;
    let new = NewFileText {
        name: name.to_owned(),
        text: found.text,
        base_sha256: call.field("base_sha256").to_owned(),
        is_exact: true,
    };
    replace(&call, new).await
}
