//! Rows that a write must have for itself.

use crate::domain::{MessageId, PersonaId, ResponsibilityId, RunId};

/// Rows that no other write may change between what a write reads and what it writes.
///
/// SQLite has one writer, so that every write is alone there, whatever its scope. Where several
/// processes write, the scope names the locks that a transaction takes first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All rows of these personas, with those of their letters, threads, runs and mails.
    Personas(Vec<PersonaId>),
    /// All rows of the personas to which these rows of a table belong. A row keeps its persona for
    /// ever.
    PersonasOf {
        /// A table with the columns `id` and `persona_id`.
        table: &'static str,
        ids: Vec<String>,
    },
    /// The rows of a mailbox that letters are fetched from.
    Mailbox(String),
    /// What is due: no other write claims runs or mails meanwhile.
    Claims,
    /// The rows that the statements name. Each statement asks by itself for the state that it
    /// expects, so that of two writes at once the second changes nothing, or adds to the first.
    Rows,
    /// Everything: no other write goes on meanwhile.
    Engine,
}

impl Scope {
    pub fn persona(persona: &PersonaId) -> Self {
        Scope::Personas(vec![persona.clone()])
    }

    pub fn persona_of(table: &'static str, id: &str) -> Self {
        let ids = vec![id.to_owned()];
        Scope::PersonasOf { table, ids }
    }

    pub fn of_run(run: &RunId) -> Self {
        Self::persona_of("runs", run.as_str())
    }

    pub fn of_message(message: &MessageId) -> Self {
        Self::persona_of("messages", message.as_str())
    }

    pub fn of_responsibility(responsibility: &ResponsibilityId) -> Self {
        Self::persona_of("responsibilities", responsibility.as_str())
    }

    /// Adds the scope of a write that shares the transaction's statements.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Scope::Personas(mut personas), Scope::Personas(others)) => {
                personas.extend(others);
                Scope::Personas(personas)
            }
            (
                Scope::PersonasOf { table, mut ids },
                Scope::PersonasOf {
                    table: of,
                    ids: others,
                },
            ) if table == of => {
                ids.extend(others);
                Scope::PersonasOf { table, ids }
            }
            (scope, other) if scope == other => scope,
            _ => Scope::Engine,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_that_cannot_be_one_are_everything() {
        let persona = |id: &str| Scope::persona(&PersonaId::parse(id).expect("an id"));
        let both = persona("porter").and(persona("clerk"));
        assert!(
            matches!(&both, Scope::Personas(personas) if personas.len() == 2),
            "{both:?}"
        );
        let run = |id: &str| Scope::persona_of("runs", id);
        let runs = run("a").and(run("b"));
        assert_eq!(
            runs,
            Scope::PersonasOf {
                table: "runs",
                ids: vec!["a".to_owned(), "b".to_owned()]
            }
        );
        assert_eq!(runs.and(Scope::persona_of("messages", "a")), Scope::Engine);
        assert_eq!(Scope::Rows.and(Scope::Rows), Scope::Rows);
        assert_eq!(Scope::Rows.and(persona("porter")), Scope::Engine);
    }
}
