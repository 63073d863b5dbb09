//! The last good text of each file of `configs/prompts/`, which stands for one that has become faulty.
//!
//! Prompts are read for each run, so there is no start at which a faulty one could be refused.

use crate::config::Persona;
use crate::context::prompt;
use crate::domain::{Timestamp, Trigger};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Folder of the texts that are templates.
pub const PROMPTS: &str = "configs/prompts/";

/// Last good texts by path below the workspace.
#[derive(Default)]
pub struct GoodPrompts(Mutex<BTreeMap<String, Arc<str>>>);

impl GoodPrompts {
    /// Remembers all prompts of a workspace that are good now.
    pub fn note_all(&self, workspace: &Path, persona: &Persona, now: Timestamp) {
        let files = std::fs::read_dir(workspace.join(PROMPTS));
        for file in files.into_iter().flatten().flatten() {
            let path = format!("{PROMPTS}{}", file.file_name().to_string_lossy());
            if let Ok(text) = std::fs::read_to_string(file.path()) {
                let text: Arc<str> = text.replace("\r\n", "\n").into();
                self.good(&path, &text, persona, now);
            }
        }
    }

    /// Returns the text that counts: this one where it is good, else the last good one, if any.
    pub fn good(&self, path: &str, text: &Arc<str>, persona: &Persona, now: Timestamp) -> Arc<str> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if prompt::render(path, text, persona, Trigger::Email, &[], now).is_ok() {
            if known.get(path) != Some(text) {
                known.insert(path.to_owned(), text.clone());
            }
            return text.clone();
        }
        known.get(path).unwrap_or(text).clone()
    }
}
