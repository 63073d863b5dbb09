//! What models were found to lack, in `data/models.json`: parameters that they refuse, and the window that an error named.
//!
//! Kept so that an engine that starts again need not fail once for each, and so that commands beside the engine can say it.
//! Absent on purpose: a row of the database. All of it can be learnt anew by one call, and other engines ask other servers.

use crate::config::{Config, write_private};
use crate::domain::Timestamp;
use crate::providers::Parameter;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

const FILE: &str = "data/models.json";
/// Time after which a model is asked again: servers are started anew, with other options.
const LEARNT_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

/// What one model of a provider was found to lack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearntModel {
    /// Name of the provider in the configuration.
    pub provider: String,
    pub model: String,
    /// Server of the provider then, as its block named it: another one may know more.
    pub base_url: Option<String>,
    /// Instant in Unix milliseconds.
    pub learnt_ms: i64,
    /// Parameters that requests leave out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<Parameter>,
    /// Tokens of input and output together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_tokens: Option<u64>,
}

impl LearntModel {
    pub fn is_of(&self, provider: &str, model: &str) -> bool {
        self.provider == provider && self.model == model
    }

    pub fn learnt_at(&self) -> Timestamp {
        Timestamp::from_millis(self.learnt_ms)
    }

    /// Reports whether requests to the model offer no tools.
    pub fn takes_no_tools(&self) -> bool {
        self.without.contains(&Parameter::Tools)
    }

    /// Says it for an operator: `takes no tools, window of 4096 tokens`; `None` where it is of no interest.
    pub fn in_words(&self) -> Option<String> {
        let tools = self.takes_no_tools().then(|| "takes no tools".to_owned());
        let window = self
            .window_tokens
            .map(|tokens| format!("window of {tokens} tokens"));
        let words: Vec<String> = tools.into_iter().chain(window).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    pub(super) fn is_in_force(&self, now: Timestamp) -> bool {
        now.since(self.learnt_at()) < LEARNT_FOR
    }
}

/// Returns what counts now: learnt within a week, of the servers that are configured.
pub fn in_force(config: &Config, now: Timestamp) -> Vec<LearntModel> {
    let mut models = read(&config.workspace);
    models.retain(|learnt| {
        let block = config.inference.providers.get(&learnt.provider);
        block.is_some_and(|block| block.base_url == learnt.base_url) && learnt.is_in_force(now)
    });
    models
}

/// Forgets what is known of a model, because a call has shown the opposite. Errors: the file cannot be written.
pub fn forget(workspace: &Path, provider: &str, model: &str) -> io::Result<()> {
    let mut models = read(workspace);
    let before = models.len();
    models.retain(|learnt| !learnt.is_of(provider, model));
    match models.len() == before {
        true => Ok(()),
        false => write(workspace, &models),
    }
}

/// Reads the file; a missing or damaged one says nothing.
pub(super) fn read(workspace: &Path) -> Vec<LearntModel> {
    let text = std::fs::read(workspace.join(FILE)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

pub(super) fn write(workspace: &Path, models: &[LearntModel]) -> io::Result<()> {
    write_private(&workspace.join(FILE), &serde_json::to_vec(models)?)
}

/// Returns when the file was written; `None`: there is none.
pub(super) fn written_at(workspace: &Path) -> Option<SystemTime> {
    let data = std::fs::metadata(workspace.join(FILE)).ok()?;
    data.modified().ok()
}
