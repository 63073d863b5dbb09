//! `persona`: the persona's own text, from `PERSONA.md` in its folder. Never dropped.

use super::reads::BaseFolder;
use super::{
    Contribution, Piece, ResolveError, Resolver, ResolverCall, StaticFault, StaticStep, garbled,
};
use futures_util::future::BoxFuture;

const FILE: &str = "PERSONA.md";
const FILE_BYTES_MAX: u64 = 128 * 1024;
/// Misspellings of the name, on file systems that tell the names apart.
const NEAR_MISSES: &[&str] = &[
    "persona.md",
    "Persona.md",
    "PERSONA.MD",
    "PERSONA.txt",
    "persona.txt",
    "PERSONA",
];

pub struct PersonaText;

impl Resolver for PersonaText {
    fn name(&self) -> &'static str {
        "persona"
    }

    fn fault(&self, step: StaticStep<'_>) -> Option<StaticFault> {
        let (what, hint) = match step.files.text(BaseFolder::Persona, FILE, FILE_BYTES_MAX) {
            Ok(Some(text)) => (garbled(&text)?, Some("save it as UTF-8".to_owned())),
            Ok(None) => ("does not exist".to_owned(), Some(instead(&step))),
            Err(error) => (error.to_string(), None),
        };
        Some(StaticFault {
            file: Some(format!("personas/{}/{FILE}", step.persona.id)),
            what,
            hint,
        })
    }

    fn resolve<'a>(
        &'a self,
        call: ResolverCall<'a>,
    ) -> BoxFuture<'a, Result<Contribution, ResolveError>> {
        Box::pin(async move {
            let text = call
                .reads
                .text(BaseFolder::Persona, FILE, FILE_BYTES_MAX)
                .map_err(|error| {
                    error.of("persona", &format!("{FILE} of `{}`", call.persona.id))
                })?;
            let source = format!("personas/{}/{FILE}", call.persona.id);
            Ok(match text {
                Some(text) if !text.trim().is_empty() => {
                    let text = text.trim_end().to_owned();
                    Contribution::one(
                        source,
                        Piece::System {
                            text,
                            required: true,
                        },
                    )
                }
                _ => Contribution::nothing(format!("no text in `{source}`")),
            })
        })
    }
}

/// Returns a hint for a missing file.
fn instead(step: &StaticStep<'_>) -> String {
    let lies_there = |name: &&&str| {
        matches!(
            step.files.text(BaseFolder::Persona, name, FILE_BYTES_MAX),
            Ok(Some(_))
        )
    };
    match NEAR_MISSES.iter().find(lies_there) {
        Some(name) => format!("`{name}` lies beside it: rename it to `{FILE}`"),
        None => {
            format!(
                "write into it who {} is, how it sounds, and what it must never do",
                step.persona.name
            )
        }
    }
}
