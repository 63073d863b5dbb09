//! `persona`: who the persona is, from `PERSONA.md` in its folder. Never dropped.

use super::reads::Place;
use super::{Contribution, Piece, ResolveError, Resolver, ResolverCall, StandingStep, garbled};
use futures_util::future::BoxFuture;

const FILE_BYTES_MAX: u64 = 128 * 1024;

pub struct PersonaText;

impl Resolver for PersonaText {
    fn name(&self) -> &'static str {
        "persona"
    }

    fn fault(&self, step: StandingStep<'_>) -> Option<String> {
        match step.files.text(Place::Persona, "PERSONA.md", FILE_BYTES_MAX) {
            Ok(Some(text)) => {
                garbled(&text).map(|why| format!("personas/{}/PERSONA.md: {why}", step.persona.id))
            }
            Ok(None) => Some(format!("no file `personas/{}/PERSONA.md`", step.persona.id)),
            Err(error) => Some(format!("personas/{}/PERSONA.md: {error}", step.persona.id)),
        }
    }

    fn resolve<'a>(&'a self, call: ResolverCall<'a>) -> BoxFuture<'a, Result<Contribution, ResolveError>> {
        Box::pin(async move {
            let text = call
                .reads
                .text(Place::Persona, "PERSONA.md", FILE_BYTES_MAX)
                .map_err(|error| error.of("persona", &format!("PERSONA.md of `{}`", call.persona.id)))?;
            let source = format!("personas/{}/PERSONA.md", call.persona.id);
            Ok(match text {
                Some(text) if !text.trim().is_empty() => {
                    let text = text.trim_end().to_owned();
                    Contribution::one(source, Piece::System { text, required: true })
                }
                _ => Contribution::nothing(format!("no text in `{source}`")),
            })
        })
    }
}
