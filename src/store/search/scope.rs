//! What a search asks for, and what limits it beside its words.

use crate::domain::{Address, Timestamp};
use crate::store::search::match_text::{LetterColumn, MatchText, column};
use crate::store::sql::json_list;

/// Filters of a search; `None` does not filter.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MessageSearch {
    /// Words of which some must occur in subject, sender or new text; the more and the rarer, the better.
    pub query: Option<String>,
    /// Words that must all occur in the sender.
    pub from: Option<String>,
    /// Words that must all occur in the subject.
    pub subject: Option<String>,
    /// Received at this instant or later.
    pub since: Option<Timestamp>,
    /// Received before this instant.
    pub before: Option<Timestamp>,
    /// Addresses that must all be allowed to read a message as participants of its thread, without
    /// messages that were withheld from them; `None` finds all messages.
    pub visible_to: Option<Vec<Address>>,
    /// Most messages to return.
    pub limit: u32,
}

impl MessageSearch {
    /// Returns the queries for the filters of columns; `None`: one has no searchable word, so nothing fits.
    pub(in crate::store) fn columns(&self) -> Option<Vec<MatchText>> {
        let filters = [
            (LetterColumn::Sender, &self.from),
            (LetterColumn::Subject, &self.subject),
        ];
        let typed = filters
            .into_iter()
            .filter_map(|(name, typed)| Some((name, typed.as_ref()?)));
        typed.map(|(name, typed)| column(name, typed)).collect()
    }
}

/// What limits a search beside its words.
pub struct SearchScope {
    pub readers: Option<Vec<String>>,
    pub readers_json: Option<String>,
    pub since: Option<String>,
    pub before: Option<String>,
}

impl SearchScope {
    pub fn of(search: &MessageSearch) -> Self {
        let readers = search.visible_to.as_ref();
        let readers: Option<Vec<String>> =
            readers.map(|readers| readers.iter().map(Address::key).collect());
        let json = |keys: &Vec<String>| json_list(keys.iter());
        Self {
            readers_json: readers.as_ref().map(json),
            readers,
            since: search.since.map(|t| t.to_string()),
            before: search.before.map(|t| t.to_string()),
        }
    }
}
