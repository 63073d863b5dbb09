//! Models: the personas that a key may talk to, and `titles`.

use super::error::{ClientError, INVALID};
use super::titles;
use crate::config::Persona;
use crate::domain::PersonaId;
use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::http::reply;
use crate::store::KeyRight;
use crate::text::{truncated, visible};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

/// Something that can be talked to.
pub(super) enum Model {
    Persona(PersonaId),
    Titles,
}

#[derive(Serialize)]
struct ModelObject<'a> {
    id: &'a str,
    object: &'static str,
    /// Seconds since 1970; personas are files, and nothing says since when there is one.
    created: u64,
    owned_by: &'static str,
}

#[derive(Serialize)]
struct ModelList<'a> {
    object: &'static str,
    data: Vec<ModelObject<'a>>,
}

fn object(id: &str) -> ModelObject<'_> {
    ModelObject {
        id,
        object: "model",
        created: 0,
        owned_by: "attache",
    }
}

/// Finds a model by its name: a persona that the key may talk to, with or without `persona:` before it.
pub(super) fn model(call: &Call, name: &str) -> Result<Model, ClientError> {
    if name == titles::NAME {
        return Ok(Model::Titles);
    }
    let id = PersonaId::parse(name.strip_prefix("persona:").unwrap_or(name)).ok();
    let id = id.filter(|id| reachable(call).any(|persona| persona.id == *id));
    id.map(Model::Persona).ok_or_else(|| {
        let name = visible(&truncated(name, 40));
        let names: Vec<&str> = reachable(call).map(|persona| persona.id.as_str()).collect();
        let message = format!(
            "no model `{name}` for this key; there are: {}, {}",
            names.join(", "),
            titles::NAME
        );
        ClientError {
            status: StatusCode::NOT_FOUND,
            kind: INVALID,
            ..ClientError::invalid("model", "model_not_found", message)
        }
    })
}

fn reachable(call: &Call) -> impl Iterator<Item = &Persona> {
    let may = |id: &PersonaId| {
        call.key()
            .is_some_and(|key| key.may_for(KeyRight::Chat, id))
    };
    call.context
        .config
        .personas
        .iter()
        .filter(move |persona| may(&persona.id))
}

/// `GET /v1/models`.
pub(in crate::http) async fn list(call: Call) -> Result<Response, PageError> {
    let mut data: Vec<ModelObject<'_>> = reachable(&call)
        .map(|persona| object(persona.id.as_str()))
        .collect();
    data.push(object(titles::NAME));
    Ok(record(&ModelList {
        object: "list",
        data,
    }))
}

/// `GET /v1/models/{id}`.
pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    match model(&call, call.param("id")) {
        Ok(Model::Titles) => Ok(record(&object(titles::NAME))),
        Ok(Model::Persona(id)) => Ok(record(&object(id.as_str()))),
        Err(error) => Ok(error.response()),
    }
}

/// Answers with a record.
pub(super) fn record(value: &impl Serialize) -> Response {
    // Texts and numbers always have a JSON form.
    reply::json(serde_json::to_string(value).unwrap_or_default())
}
