//! Place of a message as a value: the inputs that decide its conversation and its thread.

use crate::clock::Clock;
use crate::domain::{ConversationId, ThreadId};
use crate::store::sql::json_list;
use serde::{Deserialize, Serialize};

/// Inputs that decide the conversation and the thread of a message.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Place {
    /// RFC Message-IDs mentioned, oldest first.
    pub mentioned: Vec<String>,
    /// Address that must already be in a thread for this message to join it; `None`: the message
    /// starts a thread.
    pub joins_as: Option<String>,
    /// `Some`: the message joins only a thread of exactly these addresses, because its sender is
    /// not known to have wanted it in another.
    pub joins_only: Option<Company>,
    /// All addresses of the message but the persona's.
    pub participants: Vec<String>,
    /// `true`: the sender is authenticated; only then may the message add participants to an
    /// existing thread.
    pub authenticated: bool,
    /// A participant that the sender replaces: the same address, not authenticated at the time.
    pub replaces: Option<String>,
    pub new_conversation: ConversationId,
    pub new_thread: ThreadId,
}

impl Place {
    /// Returns the place of a message of the engine's own with nobody in it: a conversation of its own.
    pub fn alone(clock: &dyn Clock) -> Self {
        Self {
            mentioned: Vec::new(),
            joins_as: None,
            joins_only: None,
            participants: Vec::new(),
            authenticated: true,
            replaces: None,
            new_conversation: ConversationId::new(clock.new_id()),
            new_thread: ThreadId::new(clock.new_id()),
        }
    }
}

/// The participants of a thread that a message may join, in [`crate::domain::Address::key`] form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Company {
    /// Addresses that must all be in the thread.
    pub all_of: Vec<String>,
    /// Addresses outside of which no participant may be in the thread.
    pub none_but: Vec<String>,
}

impl Company {
    /// Returns the required and the allowed participants, as JSON arrays.
    pub(in crate::store) fn lists(&self) -> (String, String) {
        (
            json_list(self.all_of.iter()),
            json_list(self.none_but.iter()),
        )
    }
}
