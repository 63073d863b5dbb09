//! `attache webhooks replay`: events of the past, told again.

use super::super::args::instant;
use super::super::{CommandContext, Exit, Failure};
use super::{named, unmet};
use crate::clock::Clock;
use crate::domain::Timestamp;
use crate::store::{FEED_PAGE_MAX, FeedFilter};
use crate::webhooks::delivery_of;
use serde::Serialize;

/// Most events that one command queues.
const REPLAYED_MAX: usize = 10_000;

/// Tell a webhook what happened in a time of the past, also what it was told before
#[derive(clap::Args)]
#[command(
    after_help = "What it was told before has its old `webhook-id`, by which a receiver knows it. The feed has the newest 100000 events."
)]
pub struct ReplayWebhook {
    /// Its name in configs/gateway.json
    name: String,
    /// Begin at this time: a span such as 24h, a day, or an instant
    #[arg(long, value_name = "WHEN")]
    since: String,
    /// End before this time [default: now]
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
}

/// Number of events that were queued.
#[derive(Serialize)]
struct ReplayedWebhook<'a> {
    webhook: &'a str,
    queued: usize,
}

impl ReplayWebhook {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let webhook = named(context, &self.name)?;
        let now = crate::clock::SystemClock::new().now();
        let since = instant(&self.since)?;
        let until = match &self.until {
            Some(typed) => instant(typed)?,
            None => now,
        };
        let store = context.store_of_engine().await?;
        let Some(status) = store.webhook(&webhook.name).await? else {
            return Err(unmet(&webhook.name).into());
        };
        let mut seq = store.feed_before(since).await?;
        let mut queued = 0;
        // What comes after the place that it has read to, it is told anyway.
        while seq < status.through_seq {
            let page = store
                .feed_after(seq, &FeedFilter::default(), FEED_PAGE_MAX)
                .await?;
            let is_wanted = |at: Timestamp| at >= since && at < until;
            let deliveries: Vec<_> = page
                .events
                .iter()
                .filter(|event| event.seq <= status.through_seq && is_wanted(event.at))
                .filter_map(|event| delivery_of(&webhook, event, store.clock().new_id()))
                .collect();
            queued += deliveries.len();
            if queued > REPLAYED_MAX {
                let message = format!("there are more than {REPLAYED_MAX} events in that time");
                return Err(Failure::new(Exit::Usage, message)
                    .hint("what came first is queued; name a shorter time with --since and --until")
                    .into());
            }
            store.replay_webhook(&webhook.name, deliveries).await?;
            if !page.has_more() {
                break;
            }
            seq = page.through;
        }
        match context.json() {
            true => context.screen.json(&ReplayedWebhook {
                webhook: &webhook.name,
                queued,
            })?,
            false => context.screen.line(format!(
                "{} queued for {}",
                crate::text::plural(queued as u64, "event"),
                webhook.name
            ))?,
        }
        Ok(Exit::Ok)
    }
}
