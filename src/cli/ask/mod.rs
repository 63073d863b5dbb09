//! `attache ask PERSONA TEXT`: a question at this machine, answered on the terminal as the answer is made. With an engine at work,
//! that one answers; without, this command works off what is due.

mod answer;
mod view;
mod follow;
mod exchange;

pub use exchange::{exchange, persona_named, thread_of};
pub use view::AnswerView;

use super::args::in_force;
use super::{CommandContext, Exit, Failure};
use std::io::{IsTerminal, Read};

/// Ask a persona, and show its answer
#[derive(clap::Args)]
#[command(
    after_help = "The question is a run like any other, with the persona's tools, rules and budget; nothing of the answer is mailed. \
                  Without an engine at work, this command works off everything that is due, as `attache drain` does."
)]
pub struct Ask {
    /// The persona
    persona: String,
    /// The question; `-` or nothing: from standard input
    #[arg(num_args = 0..)]
    text: Vec<String>,
    /// Thread of an earlier question, to go on with
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
}

/// Longest question, in bytes.
const TEXT_BYTES_MAX: usize = 256 * 1024;

impl Ask {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        context.require_workspace()?;
        let config = context.config()?;
        let persona = persona_named(&config, &self.persona)?;
        let asked_for = text_of(&self.text)?;
        in_force::remark(&in_force::compare(context));
        let thread = match &self.thread {
            Some(typed) => {
                let store = context.store_of_engine().await?;
                Some(thread_of(&store, &persona.id, typed).await?)
            }
            None => None,
        };
        let mut view = AnswerView::new(context);
        let asked = (asked_for.as_str(), thread);
        Ok(exchange(context, (&config, persona), asked, &mut view)
            .await?
            .exit)
    }
}

/// Reads the question.
fn text_of(typed: &[String]) -> anyhow::Result<String> {
    let text = match typed {
        [] => from_stdin()?,
        [one] if one == "-" => from_stdin()?,
        words => words.join(" "),
    };
    if text.trim().is_empty() {
        return Err(Failure::new(Exit::BadData, "the question is empty")
            .hint("write it behind the persona, or send it to standard input")
            .into());
    }
    if text.len() > TEXT_BYTES_MAX {
        let message = format!(
            "the question has {} bytes, and at most {TEXT_BYTES_MAX} are read",
            text.len()
        );
        return Err(Failure::new(Exit::BadData, message).into());
    }
    Ok(text)
}

fn from_stdin() -> anyhow::Result<String> {
    if std::io::stdin().is_terminal() {
        return Err(Failure::new(Exit::Usage, "there is no question")
            .hint("write it behind the persona, or send it to standard input")
            .into());
    }
    let mut text = String::new();
    let most = u64::try_from(TEXT_BYTES_MAX).unwrap_or(u64::MAX) + 1;
    std::io::stdin()
        .lock()
        .take(most)
        .read_to_string(&mut text)
        .map_err(|error| {
            Failure::new(
                Exit::BadData,
                format!("standard input cannot be read: {error}"),
            )
            .hint("a question is text in UTF-8")
        })?;
    Ok(text)
}
