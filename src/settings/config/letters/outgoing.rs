//! The keys of a persona's file that say how its mails look, whom they answer, and when they leave.

use crate::config::values::section::*;
use crate::domain::{AnswerTo, PersonaId, QuoteMode};

/// Most characters of a signature.
const SIGNATURE_CHARS_MAX: usize = 2000;
/// Longest time for which a mail waits to be called back.
const UNDO_MAX: Duration = Duration::from_secs(24 * 3600);

/// How the mails of a persona look, whom they answer, and when they leave.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PersonaMail {
    /// Recipients of its answers to letters.
    pub reply_to: AnswerTo,
    /// Text below its mails, in the dialect of letters.
    pub signature: Option<String>,
    /// What of a letter is quoted below its answer.
    pub quote: QuoteMode,
    /// Time for which its mails wait and can be called back.
    #[serde(with = "TypedDuration")]
    pub undo: Duration,
}

/// Returns the time for which mails wait. Problems go to the context.
pub fn undo(typed: Option<TypedDuration>, place: &mut CheckPlace<'_, '_>) -> Duration {
    let undo = typed.map_or(Duration::ZERO, |undo| undo.0);
    if undo > UNDO_MAX {
        let message = format!("`{}` is longer than `{}`", spell(undo), spell(UNDO_MAX));
        place.complain("undo", message);
    }
    undo
}

/// Returns the text of a signature: what was typed, or what the file of that name holds.
pub fn signature(
    persona: &PersonaId,
    typed: &str,
    place: &mut CheckPlace<'_, '_>,
) -> Option<String> {
    let is_path = !typed.contains(char::is_whitespace)
        && [".md", ".txt"].iter().any(|end| typed.ends_with(end));
    let text = match is_path {
        true => {
            let whole = format!("personas/{persona}/{typed}");
            let is_below = typed
                .split('/')
                .all(|part| !matches!(part, "" | "." | ".."));
            match is_below.then(|| place.ctx.source.read(&whole)) {
                None => Err((
                    format!("`{typed}` is no path below the persona's folder"),
                    "write one such as `signature.md`".to_owned(),
                )),
                Some(Err(error)) => Err((
                    format!("`{typed}` cannot be read: {error}"),
                    format!("write the signature into `{whole}`"),
                )),
                Some(Ok(text)) => Ok(text.to_string()),
            }
        }
        false => Ok(typed.to_owned()),
    };
    let checked = text.and_then(|text| {
        let text = text
            .replace("\r\n", "\n")
            .trim_matches('\n')
            .trim_end()
            .to_owned();
        match fault(&text) {
            None => Ok(text),
            Some(fault) => Err((
                fault,
                "write a few lines, without the `--` above them".to_owned(),
            )),
        }
    });
    checked
        .map_err(|(message, hint)| place.refuse("signature", message, hint))
        .ok()
}

/// Returns why a text is no signature, if it is none.
fn fault(text: &str) -> Option<String> {
    let is_bad = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    match () {
        () if text.trim().is_empty() => Some("the signature is empty".to_owned()),
        () if text.chars().count() > SIGNATURE_CHARS_MAX => Some(format!(
            "the signature is longer than {SIGNATURE_CHARS_MAX} characters"
        )),
        () if text.contains(is_bad) => Some("the signature has control characters".to_owned()),
        () if text.lines().any(|line| line.trim_end() == "--") => {
            Some("the signature has a line `--`, which begins one".to_owned())
        }
        () => None,
    }
}
