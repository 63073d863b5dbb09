//! Commands of owners by mail: what the intake stored is carried out, and answered into its thread.
//!
//! Two commits for each command: the effect with its outcome, then the answer. Either may be the last before a crash; the
//! next pass goes on from the row. An answer has the null envelope sender, goes to the owner who gave the command and to
//! nobody else of the thread, and goes out while the persona is halted.
//!
//! Absent on purpose: who may give a command (`gateway::intake`), the effects (`store::commands`).

mod status;
mod text;

use super::engine_mail::{self, ENGINE_NAME, EngineDraft};
use crate::config::Config;
use crate::domain::{Address, MailCommand};
use crate::mime::{self, Automatic};
use crate::store::{
    CommandOutcome, DeliveryKind, EngineMail, OpenCommand, Result, Store, StoreError,
};
use status::PersonaStatus;
use std::sync::Arc;

/// Carries out the commands that letters brought.
pub struct Commands {
    store: Store,
    config: Arc<Config>,
}

impl Commands {
    pub fn new(store: Store, config: Arc<Config>) -> Self {
        Self { store, config }
    }

    /// Carries out and answers the commands that wait; returns the number of queued answers. One that fails leaves the
    /// others alone and is tried again by a later call.
    ///
    /// Errors: the store's, when the commands cannot be read.
    pub async fn work_once(&self) -> Result<usize> {
        let mut answers = 0;
        for command in self.store.open_commands().await? {
            match self.handle(&command).await {
                Ok(is_queued) => answers += usize::from(is_queued),
                Err(StoreError::WrongState { .. }) => {}
                Err(error) => {
                    let (persona, command) = (&command.persona, command.command);
                    tracing::error!(%error, %persona, %command, "a command by mail failed; trying again");
                }
            }
        }
        Ok(answers)
    }

    async fn handle(&self, command: &OpenCommand) -> Result<bool> {
        let not_by_mail = &self.config.policy.approvals.not_by_mail;
        let outcome = match &command.outcome {
            Some(outcome) => outcome.clone(),
            None => {
                let outcome = self.store.act_on_command(command.seq, not_by_mail).await?;
                let (persona, word) = (&command.persona, command.command);
                tracing::warn!(%persona, command = %word, ?outcome, "an owner gave a command by mail");
                outcome
            }
        };
        crate::crash::crash_point!("MC3");
        let mail = self.answer(command, &outcome).await?;
        let most = self.config.gateway.commands.answers_per_hour_max;
        let is_queued = self.store.answer_command(command, mail, most).await?;
        crate::crash::crash_point!("MC4");
        Ok(is_queued)
    }

    /// Composes the answer; `None` where no mail can be sent.
    async fn answer(
        &self,
        command: &OpenCommand,
        outcome: &CommandOutcome,
    ) -> Result<Option<EngineMail>> {
        let persona = self.config.personas.get(&command.persona);
        let owner = Address::parse(&command.owner).ok();
        let (Some(persona), Some(owner), true) =
            (persona, owner, self.config.gateway.outbound.is_some())
        else {
            return Ok(None);
        };
        let status = match (command.command, outcome) {
            (MailCommand::Status, CommandOutcome::Noted) => {
                let status = PersonaStatus::read(&self.store, &self.config, &command.persona);
                Some(status.await?)
            }
            _ => None,
        };
        let draft = EngineDraft {
            from_name: ENGINE_NAME.to_owned(),
            to: vec![owner],
            subject: mime::reply_subject(&command.subject),
            body_markdown: text::answer(command, outcome, status.as_ref()),
            in_reply_to: Some(command.rfc_message_id.clone()),
            references: command.references.clone(),
            automatic: Automatic::Replied,
            hops: 1,
            kind: DeliveryKind::Notice,
        };
        match engine_mail::compose((&self.config, &self.store), persona, draft) {
            Ok(mail) => Ok(Some(mail)),
            // The effect stands and the command counts as answered: a bug must not repeat it for ever.
            Err(error) => {
                tracing::error!(%error, "the answer to a command cannot be made a mail");
                Ok(None)
            }
        }
    }
}
