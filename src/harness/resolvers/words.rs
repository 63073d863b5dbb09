//! How far those are proven whose words a run has read, and whether the words were meant for it: by letters, by what
//! tools found, and by what stands in the thread's past.

use crate::domain::Trust;
use serde::{Deserialize, Serialize};

/// What was read, as far as it decides what a run may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WordsRead {
    /// Of the least proven among those whose words they are; `None`: of nobody but the run's own people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lowest: Option<Trust>,
    /// Mail that the run's own people may not have seen is among it.
    #[serde(default)]
    pub of_others: bool,
}

impl WordsRead {
    /// Anybody's and everybody's: of what cannot be read any more.
    pub const UNKNOWN: Self = Self { lowest: Some(Trust::Unauthenticated), of_others: true };

    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Of a letter in the run's own thread, whose people it is meant for: only that it proved nothing counts.
    pub fn of_past_letter(trust: Trust) -> Self {
        Self { lowest: (trust == Trust::Unauthenticated).then_some(trust), of_others: false }
    }

    /// Of letters that were put into a prompt, by how far the least proven of their senders was.
    pub fn of_others_letters(lowest: &str) -> Self {
        Self { lowest: Some(Trust::of_stored(lowest)), of_others: true }
    }

    /// Both.
    #[must_use]
    pub fn and(self, more: Self) -> Self {
        let lowest = self.lowest.into_iter().chain(more.lowest).min();
        Self { lowest, of_others: self.of_others || more.of_others }
    }
}
