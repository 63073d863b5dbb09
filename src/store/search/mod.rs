//! Lexical search: one index of letters, scores by what the reader may see, and silence when nothing fits.
//!
//! - `match_text`: words and filters as query text of both databases; `tsquery`: that of PostgreSQL, and its words of a text.
//! - `ranking`: scores of documents, and whether the best is worth showing. Pure.
//! - `excerpt`: the piece of a letter that shows a hit.
//! - `scope`: what a search asks for; `found`: messages as it returns them.
//! - `vectors`: vectors of letters, and the order by them beside that by words; `embedded`: which letters have one.
//! - `received`: when a letter came and of whom.
//! - `letter_search`: search over the messages of a persona.
//! - `replies`: letters by which the search is measured.
//! - `letter_parts`: the second index, of parts of words.
//! - `index_words`: the words of the index in PostgreSQL.
//! - `index_merge`: merging of the index's segments. `open_words`: words that are still to be made.
//!
//! The index has the new text of each letter once. What its neighbours in the thread say counts when a search
//! scores (D-99), and only as far as the reader may see them.

pub mod match_text;
mod tsquery;
pub mod ranking;
pub mod excerpt;
pub mod scope;
pub mod found;
pub mod vectors;
pub mod embedded;
mod received;
pub mod letter_search;
pub mod replies;
pub mod letter_parts;
pub mod index_words;
pub mod index_merge;
pub mod open_words;
