//! Vectors of questions, as the search of mail asks for them.

use crate::domain::RunId;
use crate::store::{PersonaStore, QuestionVector};
use futures_util::future::BoxFuture;

/// Maker of vectors of questions. A higher unit has the connection.
pub trait QuestionVectors: Send + Sync {
    /// Returns the vector of a question; `None`: the persona's search goes by words alone, or there is no vector just now.
    fn vector<'a>(
        &'a self,
        persona: &'a PersonaStore,
        run: &'a RunId,
        question: &'a str,
    ) -> BoxFuture<'a, Option<QuestionVector>>;
}
