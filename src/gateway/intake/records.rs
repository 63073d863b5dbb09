//! Looks up our records of a letter that has a persona's address, our loop token, or a subject by which machines are known;
//! any other letter costs no read.

use crate::config::Config;
use crate::domain::mail::robots;
use crate::domain::{Email, PersonaId};
use crate::gateway::judge::{MentionedMail, Records};
use crate::store::{Result, Store};

pub(super) async fn find(store: &Store, config: &Config, email: Option<&Email>) -> Result<Records> {
    let Some(email) = email else {
        return Ok(Records::default());
    };
    let key = config.loop_key.as_ref().unwrap_or(store.loop_key());
    let token = email
        .automatic
        .loop_token
        .as_deref()
        .and_then(|text| key.open(text));
    let by_token = match &token {
        Some(token) => {
            let personas: Vec<&PersonaId> =
                config.personas.iter().map(|persona| &persona.id).collect();
            store.own_mail(&personas, &token.message_id).await?
        }
        None => None,
    };
    let writer = email
        .sender()
        .and_then(|from| config.personas.by_address(&from));
    let by_id = match (writer, &email.message_id) {
        (Some(writer), Some(id)) => store.own_mail(&[&writer.id], id).await?,
        _ => None,
    };
    Ok(Records {
        by_id,
        token,
        by_token,
        conversation: conversation(store, config, email).await?,
    })
}

/// Ids of other letters that are looked up; the newest come last.
const MENTIONED_MAX: usize = 20;

async fn conversation(store: &Store, config: &Config, email: &Email) -> Result<MentionedMail> {
    if robots::subject(&email.subject).is_none() {
        return Ok(MentionedMail::default());
    }
    let personas: Vec<&PersonaId> = config.personas.iter().map(|persona| &persona.id).collect();
    let mentioned = email.mentioned_ids();
    let newest = &mentioned[mentioned.len().saturating_sub(MENTIONED_MAX)..];
    let (has_our_mail, has_words) = store.mentioned_mail(&personas, newest).await?;
    Ok(MentionedMail {
        has_our_mail,
        has_words,
    })
}
