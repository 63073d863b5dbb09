//! Since when the server does not answer, in a file of the workspace: the database cannot be asked for it.

use crate::domain::Timestamp;
use std::fs;
use std::path::{Path, PathBuf};

/// Below `data`; there while an engine works and its server does not answer it.
static FILE: &str = "server.away";

/// The file, as the engine of the workspace keeps it.
pub struct ServerAway {
    path: PathBuf,
    is_noted: bool,
}

impl ServerAway {
    /// Begins for an engine whose server has just answered. One before it may have died while the server was away.
    pub fn of(data: &Path) -> Self {
        let mut away = Self {
            path: data.join(FILE),
            is_noted: true,
        };
        away.answers();
        away
    }

    /// Notes the first heartbeat without an answer.
    pub fn is_silent(&mut self, now: Timestamp) {
        if !self.is_noted {
            // Where it cannot be written, nobody is told since when.
            let _unwritten = fs::write(&self.path, format!("{now}\n"));
            self.is_noted = true;
        }
    }

    /// Notes that the server answers.
    pub fn answers(&mut self) {
        if self.is_noted {
            let _not_there = fs::remove_file(&self.path);
            self.is_noted = false;
        }
    }
}

/// Returns since when the server does not answer the engine of a workspace; `None`: it does, or there is no engine.
pub fn away_since(workspace: &Path) -> Option<Timestamp> {
    let text = fs::read_to_string(workspace.join("data").join(FILE)).ok()?;
    Timestamp::parse(text.trim())
}
