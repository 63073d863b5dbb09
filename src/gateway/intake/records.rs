//! Looks up our records of a letter that has a persona's address or our loop token; any other
//! letter costs no read.

use crate::config::Config;
use crate::domain::{Email, PersonaId};
use crate::gateway::judge::Records;
use crate::store::{Result, Store};

pub(super) async fn of(store: &Store, config: &Config, email: Option<&Email>) -> Result<Records> {
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
    })
}
