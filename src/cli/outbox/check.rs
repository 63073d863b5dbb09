//! `attache outbox check`: tests that mail could go out now, without sending any. `attache setup` does the
//! same.

use crate::cli::{CommandContext, Exit, Failure};
use crate::clock::{Clock, SystemClock};
use crate::config::{BounceAddress, Config, TransportSettings};
use crate::domain::bounce_address;
use crate::gateway::outbound::{self, Checked, Obstacle, Setup, SetupError};
use serde::Serialize;
use std::sync::Arc;

/// Placeholder for the token of a delivery in an envelope sender, of equal length.
const TOKEN: &str = "000000000000000check";

pub async fn check(context: &CommandContext) -> anyhow::Result<Exit> {
    context.require_workspace()?;
    let checked = way_out(&context.config()?, Obstacle::remedy).await?;
    if context.json() {
        context.screen.json(&CheckedTransport {
            to: &checked.to,
            ok: true,
            seen: &checked.seen,
        })?;
    } else {
        context.screen.line(format!(
            "{}\tcan be used: {}",
            checked.to,
            checked.seen.join("; ")
        ))?;
    }
    Ok(Exit::Ok)
}

/// Goes through every phase that is possible without sending mail.
///
/// Errors: no way out is configured, or the server's words with a `remedy`.
pub async fn way_out(
    config: &Config,
    remedy: fn(&Obstacle) -> &'static str,
) -> anyhow::Result<Checked> {
    let Some(transport) = &config.gateway.outbound else {
        let failure = Failure::new(
            Exit::Workspace,
            "no way out is configured: answers are stored and not sent",
        );
        return Err(failure
            .hint("name one in `outbound` of configs/gateway.json")
            .into());
    };
    probe(config, transport).await?.map_err(|obstacle| {
        let message = format!("`{}` cannot be used: {}", obstacle.to, obstacle.reply);
        Failure::new(Exit::Unavailable, message)
            .hint(remedy(&obstacle))
            .into()
    })
}

/// Goes through all phases that are possible without sending mail. Errors: the transport cannot be built.
pub async fn probe(
    config: &Config,
    transport: &TransportSettings,
) -> Result<Result<Checked, Obstacle>, SetupError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let setup = Setup {
        transport,
        host_name: &config.gateway.host_name,
        clock: &clock,
    };
    let transport = outbound::transport(&setup)?;
    Ok(transport.check(&senders(config)).await)
}

/// The distinct envelope senders of the personas' mails.
fn senders(config: &Config) -> Vec<String> {
    let mut senders: Vec<String> = Vec::new();
    for persona in config.personas.iter() {
        let sender = match config.gateway.bounce_address {
            BounceAddress::Tagged => bounce_address(&persona.address, TOKEN).to_string(),
            BounceAddress::Plain => persona.address.to_string(),
        };
        if !senders.contains(&sender) {
            senders.push(sender);
        }
    }
    senders
}

/// Outcome of a check of the mail server.
#[derive(Serialize)]
struct CheckedTransport<'a> {
    to: &'a str,
    ok: bool,
    seen: &'a [String],
}
