//! A file of a persona: read, and replaced only as it was when its reader saw it. Two editors cannot overwrite each other: one
//! wins, the other gets the difference.

use crate::config::Persona;
use crate::http::call::Call;
use crate::http::failure::{PageError, Shape};
use crate::http::reply;
use crate::http::words::size;
use crate::mime::file_text;
use crate::store::files::persona_file_versions::{FileEditor, NewFileText};
use crate::store::files::persona_files::{
    self, PERSONA_FILE_BYTES_MAX, PersonaFileError, PersonaFileText,
};
use crate::text::line_diff::{DiffLine, line_diff};
use axum::http::StatusCode;
use axum::response::Response;
use form_urlencoded::byte_serialize;
use serde::Serialize;

/// File with the text of a persona.
const PERSONA_TEXT: &str = "PERSONA.md";

#[derive(Serialize)]
struct FilePage<'a> {
    persona: &'a str,
    persona_name: &'a str,
    /// Its name, as a word of a query.
    query: String,
    /// The text, with the digest of the file on which it rests.
    #[serde(flatten)]
    file: &'a PersonaFileText,
    #[serde(flatten)]
    said: EditorWords<'a>,
}

/// What is said of a text in the editor.
#[derive(Serialize, Default)]
struct EditorWords<'a> {
    saved: bool,
    problem: Option<String>,
    /// Difference between the file as it is now and the text that was not saved.
    difference: Vec<DiffLine<'a>>,
}

pub(super) fn persona(call: &Call) -> Result<&Persona, PageError> {
    call.context.persona(call.param("id"))
}

pub(super) fn page_error(error: PersonaFileError) -> PageError {
    match error {
        PersonaFileError::Name(_) | PersonaFileError::NotPlain | PersonaFileError::NotText => {
            PageError::Refused(error.to_string())
        }
        PersonaFileError::TooLarge => PageError::TooLarge(PERSONA_FILE_BYTES_MAX as usize),
        PersonaFileError::Changed(now) => PageError::Conflict {
            message: "somebody has changed it meanwhile".to_owned(),
            hint: format!("its sha256 is `{}` now: read it again", now.sha256),
        },
        PersonaFileError::Io(error) => PageError::Internal(error.into()),
        PersonaFileError::Store(error) => error.into(),
    }
}

/// Returns the name of a file as a word of a query.
pub(super) fn query_word(name: &str) -> String {
    byte_serialize(name.as_bytes()).collect()
}

/// Runs a look at the disk on a thread that may block.
async fn on_disk<T: Send + 'static>(
    look: impl FnOnce() -> Result<T, PersonaFileError> + Send + 'static,
) -> Result<Result<T, PersonaFileError>, PageError> {
    let looked = tokio::task::spawn_blocking(look).await;
    looked.map_err(|error| PageError::Internal(error.into()))
}

/// Shows a file, or answers with it.
pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    let persona = persona(&call)?;
    let (folder, name) = (persona.folder.clone(), call.query("name").to_owned());
    let read = on_disk(move || persona_files::read(&folder, &name)).await?;
    let file = read.map_err(page_error)?;
    if call.shape == Shape::Json {
        return match file.sha256.as_str() {
            "" => Err(PageError::Missing("file".to_owned())),
            _ => reply::record(&file),
        };
    }
    let said = EditorWords {
        saved: call.query("saved") == "yes",
        ..EditorWords::default()
    };
    answer(&call, &file, said).await
}

/// Shows a text in the editor, by what is said of it.
async fn answer(
    call: &Call,
    file: &PersonaFileText,
    said: EditorWords<'_>,
) -> Result<Response, PageError> {
    let persona = persona(call)?;
    let page = FilePage {
        persona: persona.id.as_str(),
        persona_name: &persona.name,
        query: query_word(&file.name),
        file,
        said,
    };
    call.page("persona_file.html", &page).await
}

/// Replaces a file.
pub(in crate::http) async fn save(call: Call) -> Result<Response, PageError> {
    let new = NewFileText {
        name: call.field("name").to_owned(),
        text: call.field_whole("text").to_owned(),
        base_sha256: call.field("base_sha256").to_owned(),
        is_exact: false,
    };
    replace(&call, new).await
}

/// Replaces a file by a text, or says why not.
pub(super) async fn replace(call: &Call, new: NewFileText) -> Result<Response, PageError> {
    let persona = persona(call)?;
    let by = FileEditor {
        user: call.actor()?,
        session: call.session().map(|session| session.session.id.clone()),
    };
    if let Some(problem) = problem(call, persona, &new.name, &new.text).await? {
        return unsaved(call, &new.name, &new.text, &new.base_sha256, problem).await;
    }
    let (name, text) = (new.name.clone(), new.text.clone());
    let one_at_a_time = call.context.files.lock().await;
    let store = call.context.store.persona(&persona.id);
    let saved = store.replace_file(&persona.folder, new, &by).await;
    drop(one_at_a_time);
    match saved {
        Ok(saved) => {
            call.context.wake();
            let name = query_word(&saved.name);
            let page = format!("/personas/{}/file?name={name}&saved=yes", persona.id);
            call.done(&page, &saved)
        }
        Err(PersonaFileError::Changed(now)) if call.shape == Shape::Page => {
            changed(call, &now, &text).await
        }
        Err(error) if call.shape == Shape::Page && !matches!(error, PersonaFileError::Io(_)) => {
            let base = call.field("base_sha256");
            unsaved(call, &name, &text, base, error.to_string()).await
        }
        Err(error) => Err(page_error(error)),
    }
}

/// Returns the reason why a text would not do what its writer means: no run would read it, or not as a file of that name.
async fn problem(
    call: &Call,
    persona: &Persona,
    name: &str,
    text: &str,
) -> Result<Option<String>, PageError> {
    if text.len() as u64 > PERSONA_FILE_BYTES_MAX {
        return Ok(Some(format!(
            "this has {}, and a file has {} at most",
            size(text.len() as u64),
            size(PERSONA_FILE_BYTES_MAX)
        )));
    }
    if let Some(before) = text.find('\0').and_then(|at| text.get(..at)) {
        let line = before.matches('\n').count() + 1;
        return Ok(Some(format!(
            "line {line} has the character NUL, with which no run reads a file: take it out"
        )));
    }
    if name == PERSONA_TEXT && text.trim().is_empty() {
        return Ok(Some(format!(
            "{PERSONA_TEXT} says who {} is, and cannot be empty",
            persona.name
        )));
    }
    if name.starts_with("knowledge/") {
        let read = file_text(text.as_bytes());
        return Ok(read.err().map(|why| format!("no run would read it: {why}")));
    }
    match is_responsibility(name) {
        true => problem_of_responsibility(call, persona, name, text).await,
        false => Ok(None),
    }
}

/// Returns the problem of a responsibility, with its line, or the file that has its name already.
async fn problem_of_responsibility(
    call: &Call,
    persona: &Persona,
    file: &str,
    text: &str,
) -> Result<Option<String>, PageError> {
    let text = text.replace("\r\n", "\n");
    let own = match call.context.scheduler.examine(persona, text.as_bytes()) {
        Ok(own) => own.name,
        Err(problem) => return Ok(Some(problem)),
    };
    let folder = persona.folder.clone();
    let others = on_disk(move || {
        let names = persona_files::list(&folder)?;
        let own = names.into_iter().filter(|name| is_responsibility(name));
        let read = own.filter_map(|name| persona_files::read(&folder, &name).ok());
        Ok(read.collect::<Vec<PersonaFileText>>())
    })
    .await?;
    let is_twin = |other: &&PersonaFileText| {
        let read = call
            .context
            .scheduler
            .examine(persona, other.text.as_bytes());
        other.name != file && read.is_ok_and(|other| other.name == own)
    };
    let twin = others.unwrap_or_default();
    Ok(twin.iter().find(is_twin).map(|twin| {
        format!(
            "`{own}` is the name of {} already: give this one another `name`",
            twin.name
        )
    }))
}

fn is_responsibility(name: &str) -> bool {
    name.starts_with("responsibilities/")
}

/// Shows a text that was not saved, with the reason.
async fn unsaved(
    call: &Call,
    name: &str,
    text: &str,
    base: &str,
    problem: String,
) -> Result<Response, PageError> {
    if call.shape == Shape::Json {
        return Err(PageError::Refused(problem));
    }
    let file = PersonaFileText {
        name: name.to_owned(),
        text: text.to_owned(),
        sha256: base.to_owned(),
    };
    let said = EditorWords {
        problem: Some(problem),
        ..EditorWords::default()
    };
    let mut response = answer(call, &file, said).await?;
    *response.status_mut() = StatusCode::BAD_REQUEST;
    Ok(response)
}

/// Shows a text that came too late, beside the difference to the file as it is now.
async fn changed(call: &Call, now: &PersonaFileText, text: &str) -> Result<Response, PageError> {
    let late = PersonaFileText {
        name: now.name.clone(),
        text: text.replace("\r\n", "\n"),
        sha256: now.sha256.clone(),
    };
    let said = EditorWords {
        problem: Some(
            "somebody has changed this file since you opened it; nothing was saved".to_owned(),
        ),
        difference: line_diff(&now.text, &late.text),
        ..EditorWords::default()
    };
    let mut response = answer(call, &late, said).await?;
    *response.status_mut() = StatusCode::CONFLICT;
    Ok(response)
}
