//! `attache threads instruct`: what the owner tells a persona for one conversation or one correspondent.

use crate::cli::args::lookup::not_found;
use crate::cli::args::{correspondent, persona_of, user};
use crate::cli::screen::Columns;
use crate::cli::{CommandContext, Exit, Failure};
use crate::domain::PersonaId;
use crate::store::{INSTRUCTIONS_MAX, InstructionScope, Store, StoredInstruction};

/// Longest instruction, in characters.
const CHARS_MAX: usize = 1_000;

/// Give, list or take back instructions for one thread, or for one correspondent of a persona
#[derive(clap::Args)]
pub struct InstructThread {
    /// The thread and the instruction; with --contact the instruction alone. Without one, list what is given
    #[arg(value_name = "THREAD|TEXT", num_args = 0..=2, action = clap::ArgAction::Set)]
    words: Vec<String>,
    /// For every thread in which this correspondent writes, whose address is proven
    #[arg(long, value_name = "ADDRESS", requires = "persona")]
    contact: Option<String>,
    /// The persona that the correspondent writes to
    #[arg(long, value_name = "NAME")]
    persona: Option<String>,
    /// Take an instruction back
    #[arg(long, value_name = "ID", conflicts_with_all = ["words", "contact"])]
    remove: Option<String>,
}

impl InstructThread {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let store = context.shared_store().await?;
        if let Some(id) = &self.remove {
            store
                .remove_instruction(id, &user())
                .await
                .map_err(|error| not_found(error, "`attache threads instruct THREAD`"))?;
            context.screen.line(format!("taken back: {id}"))?;
            return Ok(Exit::Ok);
        }
        let (persona, scope, text) = self.scope(context, &store).await?;
        if let Some(text) = text {
            let text = checked(&text)?;
            if store
                .add_instruction(&persona, &scope, (&text, &user()))
                .await?
                .is_none()
            {
                let problem = format!("{INSTRUCTIONS_MAX} instructions are in force there");
                let failure = Failure::new(Exit::Usage, problem);
                return Err(failure.hint("take one back with `--remove ID`").into());
            }
        }
        let found = store.instructions(&persona, &scope).await?;
        let row = |given: &StoredInstruction| {
            let state = given.removed_at.map(|at| format!("taken back {at}"));
            vec![
                given.id.clone(),
                given.given_at.to_string(),
                given.given_by.clone(),
                state.unwrap_or_else(|| "in force".to_owned()),
                given.text.clone(),
            ]
        };
        let columns = Columns::of(&["ID", "GIVEN", "BY", "STATE", "TEXT"]);
        context
            .screen
            .list(&found, columns, "no instructions are given", row)?;
        Ok(Exit::Ok)
    }

    /// Reads what an instruction is for, and its text.
    async fn scope(
        self,
        context: &CommandContext,
        store: &Store,
    ) -> anyhow::Result<(PersonaId, InstructionScope, Option<String>)> {
        let words = &self.words;
        if let Some(contact) = &self.contact {
            let address = correspondent(contact)?;
            let persona = persona_of(context, store, self.persona).await?;
            let persona = persona.ok_or_else(|| {
                Failure::new(Exit::Usage, "name the persona with `--persona`".to_owned())
            })?;
            if words.len() > 1 {
                let failure = Failure::new(Exit::Usage, "an instruction is one text".to_owned());
                return Err(failure.hint("put it between quotes").into());
            }
            let scope = InstructionScope::Contact(address.key());
            return Ok((persona, scope, words.first().cloned()));
        }
        let Some((thread, text)) = words.split_first() else {
            let failure = Failure::new(Exit::Usage, "no thread is named".to_owned());
            return Err(failure
                .hint("`attache threads list` has their ids; or use `--contact`")
                .into());
        };
        let thread = store
            .find_thread(thread)
            .await
            .map_err(|error| not_found(error, "`attache threads list`"))?;
        let persona = store.thread_summary(&thread).await?.persona;
        Ok((
            persona,
            InstructionScope::Thread(thread),
            text.first().cloned(),
        ))
    }
}

/// Checks an instruction: one line of a list in the system text.
fn checked(text: &str) -> Result<String, Failure> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let length = text.chars().count();
    if text.is_empty() || length > CHARS_MAX || text.chars().any(char::is_control) {
        let problem = format!(
            "an instruction has 1 to {CHARS_MAX} characters and no control characters, not {length}"
        );
        return Err(Failure::new(Exit::Usage, problem)
            .hint("what is longer belongs into PERSONA.md or a skill"));
    }
    Ok(text)
}
