//! Personas: who lives here, with their settings and their files. Settings are written on the machine alone.

use crate::config::{Config, Persona, show_persona};
use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::store::files::persona_files;
use axum::response::Response;
use serde_json::{Value, json};
use std::path::Path;

/// Most bytes of a file that the page shows.
const FILE_BYTES_MAX: u64 = 256 * 1024;

pub(in crate::http) async fn list(call: Call) -> Result<Response, PageError> {
    let config = &call.context.config;
    let out_of_service = config.personas.out_of_service().iter().map(|out| {
        json!({
            "name": out.name,
            "problems": out.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
    });
    let page = json!({
        "rows": config
            .personas
            .iter()
            .map(|one| line(config, one))
            .collect::<Vec<_>>(),
        "out_of_service": out_of_service.collect::<Vec<_>>(),
    });
    call.page("personas.html", &page).await
}

pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    let config = &call.context.config;
    let persona = call.context.persona(call.param("id"))?;
    let file = |name: &'static str| {
        json!({
            "name": name,
            "text": text_of(&persona.folder.join(name)),
        })
    };
    let folder = persona.folder.clone();
    let listed = tokio::task::spawn_blocking(move || persona_files::list(&folder)).await;
    let listed = listed.map_err(|error| PageError::Internal(error.into()))?;
    let link = |name: String| {
        let query = super::persona_file::query_word(&name);
        let link = format!("/personas/{}/file?name={query}", persona.id);
        (name, link)
    };
    let page = json!({
        "line": line(config, persona),
        "settings": settings(persona),
        "files": (["PERSONA.md", "active.md"].map(file)),
        "editable": listed.unwrap_or_default().into_iter().map(link).collect::<Vec<_>>(),
    });
    call.page("persona.html", &page).await
}

fn line(config: &Config, persona: &Persona) -> Value {
    let choices = config.inference.choices_for(persona);
    let model = choices
        .first()
        .map(|one| format!("{} / {}", one.provider, one.model));
    json!({
        "id": persona.id.as_str(),
        "name": persona.name,
        "address": persona.address.to_string(),
        "aliases": persona.aliases.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "model": model.unwrap_or_default(),
    })
}

/// Returns the settings that say something, as names and values.
fn settings(persona: &Persona) -> Vec<(String, String)> {
    let Value::Object(members) = show_persona(persona) else {
        return Vec::new();
    };
    let is_shown = |value: &Value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(items) => items.values().any(|item| !item.is_null()),
        _ => true,
    };
    let named = ["id", "name", "address", "aliases"];
    members
        .into_iter()
        .filter(|(name, value)| is_shown(value) && !named.contains(&name.as_str()))
        .map(|(name, value)| {
            let value = match value {
                Value::String(text) => text,
                value => value.to_string(),
            };
            worded(&name, value)
        })
        .collect()
}

/// Says a setting in words; one that is not known here is named as its file names it.
fn worded(name: &str, value: String) -> (String, String) {
    let (name, value) = match (name, value.as_str()) {
        ("reply", "final") => ("Answers", "sent at once"),
        ("reply", "draft") => ("Answers", "drafts for your yes"),
        ("reply", "tool_only") => ("Answers", "sent by tools alone"),
        ("plan", "none") => ("Plans", "not asked for"),
        ("plan", "ask") => ("Plans", "put before you first"),
        ("pdf_files", "scans") => ("PDF files for the model", "those without text"),
        ("pdf_files", "always") => ("PDF files for the model", "all"),
        ("pdf_files", "never") => ("PDF files for the model", "none"),
        ("shell", "true") => ("Shell commands", "allowed"),
        ("shell", "false") => ("Shell commands", "off"),
        ("timezone", _) => return ("Time zone".to_owned(), value),
        _ => return (name.replace('_', " "), value),
    };
    (name.to_owned(), value.to_owned())
}

/// Returns the text of a plain file; a link or a pipe is not followed.
fn text_of(path: &Path) -> String {
    let Ok(about) = path.symlink_metadata() else {
        return String::new();
    };
    if !about.is_file() || about.len() > FILE_BYTES_MAX {
        return "(not shown here: it is no plain file, or larger than 256 kB)".to_owned();
    }
    match std::fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => format!("(cannot be read: {error})"),
    }
}
