//! `telemetry` in `configs/gateway.json`: what programs that watch over the engine are sent. Never anything of a letter.

use crate::config::secrets::as_set;
use crate::config::values::net::web_url;
use crate::config::values::section::*;

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
    #[serde(default = "default_ping", with = "TypedDuration")]
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

/// What programs that watch over the engine are sent. Its secrets are not shown.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Telemetry {
    pub traces: Option<TraceTarget>,
    pub ping: Option<PingTarget>,
    /// Whether `data/audit.log` is written.
    pub audit_log: bool,
}

/// A collector of OpenTelemetry.
#[derive(Debug, Clone, Serialize)]
pub struct TraceTarget {
    pub url: String,
    /// Value of the `Authorization` header.
    #[serde(serialize_with = "as_set")]
    pub authorization: Option<SecretString>,
}

/// An address that is asked as long as letters are taken.
#[derive(Debug, Clone, Serialize)]
pub struct PingTarget {
    #[serde(serialize_with = "as_set")]
    pub url: SecretString,
    #[serde(with = "TypedDuration")]
    pub interval: Duration,
}

/// Resolves the section. Problems go to the context.
pub(super) fn resolve(typed: Option<&TypedTelemetry>, place: &mut CheckPlace<'_, '_>) -> Telemetry {
    let Some(typed) = typed else {
        return Telemetry::default();
    };
    Telemetry {
        traces: typed.traces.as_ref().map(|traces| {
            let url = &traces.url;
            if web_url(url).is_none() {
                place.refuse(
                    "traces/url",
                    format!("`{url}` is no address of the web"),
                    "write the collector's, such as `http://127.0.0.1:4318/v1/traces`",
                );
            }
            let variable = traces.authorization_variable.as_deref();
            TraceTarget {
                url: url.clone(),
                authorization: variable
                    .and_then(|variable| place.secret("traces/authorization_variable", variable)),
            }
        }),
        ping: typed.ping.as_ref().and_then(|ping| {
            let interval = ping.interval;
            if interval < PING_MIN {
                let hint = "10 s is the shortest, a minute is usual";
                place.refuse("ping/interval", "is too short", hint);
            }
            let url = place.secret("ping/url_variable", &ping.url_variable)?;
            Some(PingTarget { url, interval })
        }),
        audit_log: typed.audit_log,
    }
}
