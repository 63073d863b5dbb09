//! OpenCode, an agent that is a server: `opencode serve`, started for the call, or a running one
//! (`base_url`).
//!
//! The synchronous request for an answer decides when the turn is over; the event stream adds tool
//! calls and permission requests while they happen, and the list of messages what the stream
//! missed. A running server serves several runs, so only a server that is started here offers our
//! own tools.

pub(in crate::providers) mod call;
mod connection;
pub mod parts;
pub(in crate::providers) mod server;

use crate::config::{AgentBounds, ProviderSettings, Tier};
use crate::domain::ErrorClass;
use crate::providers::Adapter;
use crate::providers::agents::agent::{self, options, resumed};
use crate::providers::agents::opencode::call::{OpenCodeInvocation, SessionCall};
use crate::providers::agents::opencode::server::Server;
use crate::providers::agents::transcript;
use crate::providers::child::process;
use crate::providers::contract::normalise;
use crate::providers::contract::traits::{
    CallContext, Capabilities, Event, Phase, Provider, ProviderCheck, ProviderError, Request,
    RequestEncoder, ToolArgs,
};
use crate::providers::transport::guard::Guard;
use crate::providers::transport::http;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use serde_json::{Value, json};

pub const ADAPTER: Adapter = Adapter {
    id: connection::NAME,
    key_variable: None,
    settings: &[http::SETTINGS, process::SETTINGS],
    // A server that runs already is not told to ask before it edits.
    bounds: Some(AgentBounds {
        writes: Tier::Write,
        writes_of_server: Tier::ReadOnly,
        reads: Tier::Write,
    }),
    build,
};

fn build(settings: &ProviderSettings) -> Result<Box<dyn Provider>, ProviderError> {
    if let Some(url) = &settings.base_url {
        Server::new(url, settings.api_key.as_ref(), "/")?;
    } else {
        connection::program(settings)?;
    }
    Ok(Box::new(OpenCode {
        settings: settings.clone(),
    }))
}

struct OpenCode {
    settings: ProviderSettings,
}

impl RequestEncoder for OpenCode {
    fn id(&self) -> &str {
        self.settings.name_or(ADAPTER.id)
    }

    fn capabilities(&self, _model: &str) -> Capabilities {
        Capabilities {
            reports_cost: true,
            ..Capabilities::AGENT
        }
    }

    fn lists_our_tools(&self) -> bool {
        self.settings.base_url.is_none()
    }

    fn ends_when_dropped(&self) -> bool {
        self.settings.base_url.is_none()
    }

    fn needs(&self, name: &str, _args: &ToolArgs) -> Tier {
        parts::needs(name)
    }

    fn encode(&self, request: &Request) -> Result<String, ProviderError> {
        let options = options(request)?;
        resumed(&options.session)?;
        let Some((provider, model)) = request.model.split_once('/') else {
            let message = format!(
                "`{}` is not `PROVIDER/MODEL`, as OpenCode names models",
                request.model
            );
            return Err(ProviderError::new(
                ErrorClass::BadRequest,
                Phase::BeforeSend,
                message,
            ));
        };
        let tools: serde_json::Map<String, Value> = parts::tools(options.tier)
            .into_iter()
            .map(|(name, is_on)| (name, is_on.into()))
            .collect();
        let text = transcript::prompt(request, &options.session, false);
        agent::fits(text.len())?;
        let message = json!({
            "model": { "providerID": provider, "modelID": model },
            "system": request.system.join("\n\n"),
            "tools": tools,
            "parts": [{ "type": "text", "text": text }],
        });
        let mut config = json!({ "share": "disabled", "autoupdate": false });
        if options.tier == Tier::Write {
            // Asked before each edit, the adapter can check its path.
            config["permission"] = json!({ "edit": "ask" });
        }
        if let Some(server) = &options.tool_server {
            let command: Vec<&String> = std::iter::once(&server.program)
                .chain(&server.args)
                .collect();
            config["mcp"] =
                json!({ &server.name: { "type": "local", "command": command, "enabled": true } });
        }
        normalise::encode(&OpenCodeInvocation {
            options: options.clone(),
            message,
            config,
        })
    }
}

impl Provider for OpenCode {
    fn check(&self, context: CallContext) -> BoxFuture<'_, Result<ProviderCheck, ProviderError>> {
        Box::pin(async move {
            let Some(url) = &self.settings.base_url else {
                return connection::program(&self.settings)?.version().await;
            };
            let server = Server::new(url, self.settings.api_key.as_ref(), "/")?;
            let health = server.get("global/health");
            let health = Guard::start(&context)
                .wait(Phase::BeforeFirstByte, health)
                .await??;
            let version = health["version"].as_str().map(str::to_owned);
            Ok(ProviderCheck {
                endpoint: Some(server.url().to_string()),
                version,
                ..ProviderCheck::default()
            })
        })
    }

    fn stream<'a>(
        &'a self,
        encoded: &'a str,
        context: CallContext,
    ) -> BoxStream<'a, Result<Event, ProviderError>> {
        let begun = stream::once(SessionCall::begin(&self.settings, encoded, context));
        let events = begun.flat_map(|begun| match begun {
            Ok(call) => stream::unfold(call, |mut call| async {
                call.next().await.map(|event| (event, call))
            })
            .boxed(),
            Err(error) => stream::once(std::future::ready(Err(error))).boxed(),
        });
        events.boxed()
    }
}
