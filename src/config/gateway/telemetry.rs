//! `telemetry` in `configs/gateway.json`: what programs that watch over the engine are sent. Never anything of a letter.

use crate::config::file::Document;
use crate::config::file::duration::{self, TypedDuration, spell};
use crate::config::values::check_context::CheckContext;
use reqwest::Url;
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

/// Shortest interval between two pings.
const PING_MIN: Duration = Duration::from_secs(10);

/// What programs that watch over the engine are sent.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedTelemetry {
    /// Spans of runs, calls of models and calls of tools, to a collector of OpenTelemetry.
    traces: Option<TypedTraces>,
    /// A request again and again as long as letters are taken, so that its silence is noticed.
    ping: Option<TypedPing>,
    /// `true`: `data/audit.log` gets a line for each event: kinds, ids, sizes and instants, and no text.
    #[serde(default)]
    audit_log: bool,
}

/// A collector of OpenTelemetry.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedTraces {
    /// Address that takes spans by OTLP over HTTP in JSON, such as `http://127.0.0.1:4318/v1/traces`; it may be in a private
    /// network.
    url: String,
    /// The variable, in the environment or in `.secrets`, that holds the value of the `Authorization` header.
    authorization_variable: Option<String>,
}

/// A request again and again.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedPing {
    /// The variable, in the environment or in `.secrets`, that holds the address: whoever knows it can ping in our place.
    url_variable: String,
    /// Interval between two requests.
    #[serde(default = "default_ping", with = "duration::text")]
    #[schemars(with = "TypedDuration")]
    interval: Duration,
}

const fn default_ping() -> Duration {
    Duration::from_secs(60)
}

impl TypedTelemetry {
    /// Names of the variables that it reads.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let ping = self.ping.as_ref().map(|ping| ping.url_variable.as_str());
        self.header_variable().into_iter().chain(ping)
    }
    /// The variable that holds the whole value of a header, its scheme included.
    pub fn header_variable(&self) -> Option<&str> {
        let traces = self.traces.as_ref()?;
        traces.authorization_variable.as_deref()
    }
}

/// What programs that watch over the engine are sent.
#[derive(Debug, Clone, Default)]
pub struct Telemetry {
    pub traces: Option<TraceTarget>,
    pub ping: Option<PingTarget>,
    /// Whether `data/audit.log` is written.
    pub audit_log: bool,
}

/// A collector of OpenTelemetry.
#[derive(Debug, Clone)]
pub struct TraceTarget {
    pub url: String,
    /// Value of the `Authorization` header.
    pub authorization: Option<SecretString>,
}

/// An address that is asked as long as letters are taken.
#[derive(Debug, Clone)]
pub struct PingTarget {
    pub url: SecretString,
    pub interval: Duration,
}

/// Resolves the section. Problems go to the context.
pub(super) fn resolve(
    file: &Document,
    typed: Option<&TypedTelemetry>,
    ctx: &mut CheckContext<'_>,
) -> Telemetry {
    let Some(typed) = typed else {
        return Telemetry::default();
    };
    Telemetry {
        traces: typed
            .traces
            .as_ref()
            .map(|traces| resolve_traces(file, traces, ctx)),
        ping: typed
            .ping
            .as_ref()
            .and_then(|ping| resolve_ping(file, ping, ctx)),
        audit_log: typed.audit_log,
    }
}

fn resolve_traces(file: &Document, typed: &TypedTraces, ctx: &mut CheckContext<'_>) -> TraceTarget {
    if !is_web(&typed.url) {
        let says = format!("`{}` is no address of the web", typed.url);
        ctx.refuse(
            file,
            "/telemetry/traces/url",
            says,
            "write the collector's, such as `http://127.0.0.1:4318/v1/traces`",
        );
    }
    let variable = typed.authorization_variable.as_deref();
    TraceTarget {
        url: typed.url.clone(),
        authorization: variable.and_then(|variable| {
            secret(
                file,
                "/telemetry/traces/authorization_variable",
                variable,
                ctx,
            )
        }),
    }
}

fn resolve_ping(
    file: &Document,
    typed: &TypedPing,
    ctx: &mut CheckContext<'_>,
) -> Option<PingTarget> {
    if typed.interval < PING_MIN {
        ctx.refuse(
            file,
            "/telemetry/ping/interval",
            "is too short",
            "10 s is the shortest, a minute is usual",
        );
    }
    let at = "/telemetry/ping/url_variable";
    let url = secret(file, at, &typed.url_variable, ctx)?;
    Some(PingTarget {
        url,
        interval: typed.interval,
    })
}

fn secret(
    file: &Document,
    pointer: &str,
    variable: &str,
    ctx: &mut CheckContext<'_>,
) -> Option<SecretString> {
    let found: Option<SecretString> = ctx.secrets.get(variable);
    if found.is_none() {
        ctx.refuse(
            file,
            pointer,
            format!("`{variable}` is not set"),
            "set it in `.secrets`, or in the engine's environment",
        );
    }
    found
}

fn is_web(url: &str) -> bool {
    let url = Url::parse(url).ok();
    url.is_some_and(|url| url.has_host() && matches!(url.scheme(), "http" | "https"))
}

/// JSON of the section, without its secrets.
pub fn show(telemetry: &Telemetry) -> Value {
    let traces = telemetry.traces.as_ref().map(|traces| {
        let key = traces.authorization.as_ref().map(|_| "[set]");
        json!({ "url": traces.url, "authorization": key })
    });
    let ping = telemetry
        .ping
        .as_ref()
        .map(|ping| json!({ "url": "[set]", "interval": spell(ping.interval) }));
    json!({ "traces": traces, "ping": ping, "audit_log": telemetry.audit_log })
}
