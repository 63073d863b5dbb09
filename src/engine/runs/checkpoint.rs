//! Stored first request of a run, from which a later attempt continues.

use crate::domain::ErrorClass;
use crate::domain::TextLabel;
use crate::providers::Request;
use crate::runs::error::RunError;
use crate::store::{StoreError, SummaryInputs};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// State of an earlier attempt that a resumed run needs.
#[derive(Serialize, Deserialize)]
pub struct ContextCheckpoint {
    /// Normalised first request.
    #[serde(flatten)]
    pub request: Request,
    /// Calls whose results are left out.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub stubbed: BTreeSet<String>,
    /// Tools that are not offered for want of room.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unoffered: Vec<String>,
    /// Trust of the texts in the context besides the run's own letter.
    #[serde(default, skip_serializing_if = "TextLabel::is_nothing")]
    pub words: TextLabel,
    /// What the input is made of, where it is to be summarised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_summarise: Option<SummaryInputs>,
}

/// Returns the trust of the texts in a run's context, by its stored first request.
pub fn words_of_context(first_request_json: &str) -> Result<TextLabel, RunError> {
    let kept: ContextCheckpoint = from_json(first_request_json)?;
    Ok(kept.words)
}

pub fn to_json(value: &impl serde::Serialize) -> Result<String, RunError> {
    serde_json::to_string(value).map_err(json_bug)
}

pub fn json_bug(error: serde_json::Error) -> RunError {
    RunError::Fatal {
        class: ErrorClass::Config,
        message: error.to_string(),
    }
}

pub fn from_json<T: serde::de::DeserializeOwned>(json: &str) -> Result<T, RunError> {
    serde_json::from_str(json)
        .map_err(|_| RunError::Store(StoreError::Unreadable { what: "journal" }))
}
