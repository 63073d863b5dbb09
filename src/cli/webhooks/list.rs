//! `attache webhooks list`: the webhooks and how far each was told.

use super::super::screen::Columns;
use super::super::{CommandContext, Exit};
use crate::store::WebhookStatus;
use serde::Serialize;

/// A webhook of the configuration, with its row.
#[derive(Serialize)]
struct ListedWebhook {
    name: String,
    url: String,
    /// Number of the feed's newest event.
    newest_seq: i64,
    /// `null`: no engine has met it.
    status: Option<WebhookStatus>,
}

impl ListedWebhook {
    fn state(&self) -> String {
        match &self.status {
            None => "new".to_owned(),
            Some(status) => match (&status.reason, status.rests_until) {
                (Some(reason), _) => format!("off: {reason}"),
                (None, Some(until)) => format!("rests until {until}"),
                (None, None) => "on".to_owned(),
            },
        }
    }
}

pub async fn list(context: &CommandContext) -> anyhow::Result<Exit> {
    context.require_workspace()?;
    let config = context.config()?;
    let store = context.shared_store().await?;
    let newest_seq = store.feed_newest().await?;
    let statuses = store.webhooks().await?;
    let listed = config.gateway.webhooks.iter().map(|webhook| ListedWebhook {
        name: webhook.name.clone(),
        url: webhook.url.clone(),
        newest_seq,
        status: statuses
            .iter()
            .find(|status| status.name == webhook.name)
            .cloned(),
    });
    let listed: Vec<ListedWebhook> = listed.collect();
    if context.json() {
        context.screen.json(&listed)?;
        return Ok(Exit::Ok);
    }
    let rows: Vec<Vec<String>> = listed
        .iter()
        .map(|webhook| {
            let status = webhook.status.as_ref();
            let behind = status.map_or(0, |status| newest_seq - status.through_seq);
            let success = status.and_then(|status| status.success_at);
            vec![
                webhook.name.clone(),
                webhook.url.clone(),
                status.map_or(0, |status| status.queued).to_string(),
                behind.to_string(),
                success.map_or_else(|| "-".to_owned(), |at| at.to_string()),
                webhook.state(),
            ]
        })
        .collect();
    let columns = Columns::of(&["NAME", "URL", "WAITING", "BEHIND", "SUCCESS", "STATE"])
        .main("STATE")
        .optional(&["BEHIND", "SUCCESS"]);
    context.screen.listing(
        columns,
        &rows,
        "no webhook is configured; add one to `webhooks` in configs/gateway.json",
    )?;
    Ok(Exit::Ok)
}
