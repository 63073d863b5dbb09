//! `limits` in `configs/gateway.json`: every bound of [`Limits`], each optional.

use crate::config::file::duration::TypedDuration;
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

/// Limits, each with a default. A limit can be changed but not switched off.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedLimits {
    /// Maximum bytes of a letter. Default: 26214400 (25 MiB).
    #[schemars(range(min = 1024))]
    letter_bytes_max: Option<usize>,
    /// Maximum bytes of a text line of a letter. Default: 65536.
    #[schemars(range(min = 1000))]
    line_bytes_max: Option<usize>,
    /// Maximum bytes of one header section of a letter. Default: 262144.
    #[schemars(range(min = 1024))]
    header_bytes_max: Option<usize>,
    /// Maximum bytes of an SMTP command line. Default: 4096.
    #[schemars(range(min = 512))]
    command_line_bytes_max: Option<usize>,
    /// Maximum recipients of a letter. Default: 100.
    #[schemars(range(min = 1))]
    recipients_max: Option<usize>,
    /// Maximum concurrent SMTP connections. Default: 1000.
    #[schemars(range(min = 1))]
    connections_max: Option<usize>,
    /// Maximum concurrent SMTP connections of one IPv4 address or IPv6 /64. Default: 100.
    #[schemars(range(min = 1))]
    connections_per_address_max: Option<usize>,
    /// Permanent failures of an SMTP session after which it is disconnected. Default: 20.
    #[schemars(range(min = 1))]
    session_errors_max: Option<usize>,
    /// Maximum duration of an SMTP session. Default: 1h.
    session_duration_max: Option<TypedDuration>,
    /// Timeout of one command, of one pause inside a letter, and of one batch of replies.
    /// Default: 5m.
    session_idle_max: Option<TypedDuration>,
    /// Timeout of the PROXY header and of the TLS handshake. Default: 30s.
    handshake_max: Option<TypedDuration>,
    /// Time to wait for early data before the greeting; a client that sends within it is
    /// refused. Default: 500ms.
    greeting_delay: Option<TypedDuration>,
    /// Minimum average bytes per second of a letter; a slower client is disconnected. Default:
    /// 256.
    letter_bytes_per_second_min: Option<usize>,
    /// Delay of the reply to a first failed login; it doubles with each further one, up to
    /// sixteen times. Default: 500ms.
    login_delay: Option<TypedDuration>,
    /// Failed logins from one network before it is refused for 15 minutes. Default: 10.
    #[schemars(range(min = 1))]
    login_failures_max: Option<usize>,
    /// Number of open runs above which letters are refused with 452. Default: 100000.
    #[schemars(range(min = 1))]
    open_runs_max: Option<usize>,
    /// Maximum nesting of body parts of a letter. Default: 30.
    #[schemars(range(min = 1, max = 200))]
    mime_depth_max: Option<usize>,
    /// Maximum number of body parts of a letter. Default: 500.
    #[schemars(range(min = 1))]
    mime_parts_max: Option<usize>,
    /// Maximum number of `Received` fields of a letter. Default: 50.
    #[schemars(range(min = 1))]
    received_headers_max: Option<usize>,
    /// Maximum bytes of an HTML part that is rendered; a larger one is only stripped of its
    /// tags. Default: 524288.
    #[schemars(range(min = 1))]
    html_bytes_max: Option<usize>,
    /// Maximum nesting of HTML elements that is rendered; deeper HTML is only stripped of its
    /// tags. Default: 512.
    #[schemars(range(min = 1, max = 4096))]
    html_depth_max: Option<usize>,
    /// Maximum ids that are kept of a `References` field. Default: 200.
    #[schemars(range(min = 1))]
    references_max: Option<usize>,
    /// Maximum bytes of a tool's result. Default: 65536.
    #[schemars(range(min = 256))]
    tool_result_bytes_max: Option<usize>,
    /// Maximum bytes of a file that a tool reads. Default: 1048576.
    #[schemars(range(min = 1))]
    file_bytes_max: Option<usize>,
    /// Maximum bytes of a persona's memory. Default: 16384.
    #[schemars(range(min = 1))]
    memory_bytes_max: Option<usize>,
    /// Maximum bytes of the attachments of one mail. Default: 10485760.
    #[schemars(range(min = 1))]
    attachments_bytes_max: Option<usize>,
    /// Free disk space in bytes below which letters are refused with 452. Default: 67108864.
    free_disk_bytes_min: Option<u64>,
    /// Automatic mails that a persona may send to one person in an hour; verified owners do not
    /// count. Default: 6.
    #[schemars(range(min = 1))]
    replies_per_hour_max: Option<usize>,
    /// Automatic mails that a persona may send to one person in a day; verified owners do not
    /// count. Default: 20.
    #[schemars(range(min = 1))]
    replies_per_day_max: Option<usize>,
    /// Changes of direction in a thread per day without a letter of a verified owner. Default:
    /// 10.
    #[schemars(range(min = 1))]
    alternations_max: Option<usize>,
    /// Maximum consecutive mails between personas. Default: 4.
    #[schemars(range(min = 1))]
    persona_hops_max: Option<usize>,
    /// Time within which a repeated letter counts as a duplicate. Default: 7d.
    duplicate_window: Option<TypedDuration>,
    /// Time from SIGTERM to the end of the process. Default: 10s.
    drain_max: Option<TypedDuration>,
}

/// Every bound that is not of a run. Names end with the unit.
#[derive(Debug, Clone)]
pub struct Limits {
    pub letter_bytes_max: usize,
    /// Maximum bytes of a text line. RFC 5321 section 4.5.3.1.6 requires 1,000 octets; mail of real
    /// senders has longer lines.
    pub line_bytes_max: usize,
    pub header_bytes_max: usize,
    pub command_line_bytes_max: usize,
    pub recipients_max: usize,
    pub connections_max: usize,
    pub connections_per_address_max: usize,
    pub session_errors_max: usize,
    pub session_duration_max: Duration,
    /// Timeout of one command, of one pause inside a letter, and of one batch of replies.
    pub session_idle_max: Duration,
    /// Timeout of the PROXY header and of the TLS handshake.
    pub handshake_max: Duration,
    /// Time to wait for early data before the greeting: a client on another host that sends before
    /// our greeting is no mail server.
    pub greeting_delay: Duration,
    /// Minimum average rate of a letter; a slower one is disconnected. The first `session_idle_max`
    /// does not count.
    pub letter_bytes_per_second_min: usize,
    /// Delay of the reply to a first failed login; it doubles with each further one, up to sixteen
    /// times.
    pub login_delay: Duration,
    /// Failed logins from one network before it is refused for 15 minutes.
    pub login_failures_max: usize,
    /// Number of open runs above which letters are refused with 452.
    pub open_runs_max: usize,
    pub mime_depth_max: usize,
    pub mime_parts_max: usize,
    pub received_headers_max: usize,
    pub html_bytes_max: usize,
    pub html_depth_max: usize,
    pub references_max: usize,
    pub tool_result_bytes_max: usize,
    pub file_bytes_max: usize,
    pub memory_bytes_max: usize,
    pub attachments_bytes_max: usize,
    /// Free disk space in bytes below which letters are refused with 452.
    pub free_disk_bytes_min: u64,
    /// Automatic mails that a persona may send to one person in an hour, and in a day; verified
    /// owners do not count, and answers to unauthenticated letters are counted separately.
    pub replies_per_hour_max: usize,
    pub replies_per_day_max: usize,
    /// Changes of direction in a thread per day without a letter of a verified owner.
    pub alternations_max: usize,
    /// Maximum consecutive mails between personas.
    pub persona_hops_max: usize,
    /// Time within which a repeated letter counts as a duplicate.
    pub duplicate_window: Duration,
    /// Time from SIGTERM to the end of the process.
    pub drain_max: Duration,
}

impl Limits {
    /// Time for running work to end after SIGTERM. The rest of `drain_max` is for requeueing
    /// unfinished work and for closing the database.
    pub fn drain_grace_period(&self) -> Duration {
        self.drain_max.mul_f32(0.8)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            letter_bytes_max: 25 * 1024 * 1024,
            line_bytes_max: 64 * 1024,
            header_bytes_max: 256 * 1024,
            command_line_bytes_max: 4096,
            recipients_max: 100,
            connections_max: 1000,
            connections_per_address_max: 100,
            session_errors_max: 20,
            session_duration_max: Duration::from_secs(60 * 60),
            session_idle_max: Duration::from_secs(300),
            handshake_max: Duration::from_secs(30),
            greeting_delay: Duration::from_millis(500),
            letter_bytes_per_second_min: 256,
            login_delay: Duration::from_millis(500),
            login_failures_max: 10,
            open_runs_max: 100_000,
            mime_depth_max: 30,
            mime_parts_max: 500,
            received_headers_max: 50,
            html_bytes_max: 512 * 1024,
            html_depth_max: 512,
            references_max: 200,
            tool_result_bytes_max: 64 * 1024,
            file_bytes_max: 1024 * 1024,
            memory_bytes_max: 16 * 1024,
            attachments_bytes_max: 10 * 1024 * 1024,
            free_disk_bytes_min: 64 * 1024 * 1024,
            replies_per_hour_max: 6,
            replies_per_day_max: 20,
            alternations_max: 10,
            persona_hops_max: 4,
            duplicate_window: Duration::from_secs(7 * 24 * 3600),
            drain_max: Duration::from_secs(10),
        }
    }
}

/// Returns the defaults, overridden by the typed values.
pub fn resolve(typed: &TypedLimits) -> Limits {
    let mut limits = Limits::default();
    let sizes = [
        (&mut limits.letter_bytes_max, typed.letter_bytes_max),
        (&mut limits.line_bytes_max, typed.line_bytes_max),
        (&mut limits.header_bytes_max, typed.header_bytes_max),
        (
            &mut limits.command_line_bytes_max,
            typed.command_line_bytes_max,
        ),
        (&mut limits.recipients_max, typed.recipients_max),
        (&mut limits.connections_max, typed.connections_max),
        (
            &mut limits.connections_per_address_max,
            typed.connections_per_address_max,
        ),
        (&mut limits.session_errors_max, typed.session_errors_max),
        (
            &mut limits.letter_bytes_per_second_min,
            typed.letter_bytes_per_second_min,
        ),
        (&mut limits.login_failures_max, typed.login_failures_max),
        (&mut limits.open_runs_max, typed.open_runs_max),
        (&mut limits.mime_depth_max, typed.mime_depth_max),
        (&mut limits.mime_parts_max, typed.mime_parts_max),
        (&mut limits.received_headers_max, typed.received_headers_max),
        (&mut limits.html_bytes_max, typed.html_bytes_max),
        (&mut limits.html_depth_max, typed.html_depth_max),
        (&mut limits.references_max, typed.references_max),
        (
            &mut limits.tool_result_bytes_max,
            typed.tool_result_bytes_max,
        ),
        (&mut limits.file_bytes_max, typed.file_bytes_max),
        (&mut limits.memory_bytes_max, typed.memory_bytes_max),
        (
            &mut limits.attachments_bytes_max,
            typed.attachments_bytes_max,
        ),
        (&mut limits.replies_per_hour_max, typed.replies_per_hour_max),
        (&mut limits.replies_per_day_max, typed.replies_per_day_max),
        (&mut limits.alternations_max, typed.alternations_max),
        (&mut limits.persona_hops_max, typed.persona_hops_max),
    ];
    for (limit, size) in sizes {
        *limit = size.unwrap_or(*limit);
    }
    let spans: [(&mut Duration, Option<TypedDuration>); 7] = [
        (&mut limits.session_duration_max, typed.session_duration_max),
        (&mut limits.session_idle_max, typed.session_idle_max),
        (&mut limits.handshake_max, typed.handshake_max),
        (&mut limits.greeting_delay, typed.greeting_delay),
        (&mut limits.login_delay, typed.login_delay),
        (&mut limits.duplicate_window, typed.duplicate_window),
        (&mut limits.drain_max, typed.drain_max),
    ];
    for (limit, span) in spans {
        *limit = span.map_or(*limit, |span| span.0);
    }
    limits.free_disk_bytes_min = typed
        .free_disk_bytes_min
        .unwrap_or(limits.free_disk_bytes_min);
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings' Debug text names every field, so a new limit cannot be missing here.
    #[test]
    fn every_limit_can_be_typed() {
        let schema = crate::config::file::json_schema::of::<TypedLimits>();
        let typed = schema["properties"]
            .as_object()
            .map(|p| p.keys().cloned().collect::<Vec<_>>());
        let debug = format!("{:?}", Limits::default());
        let inside = debug.trim_start_matches("Limits { ").trim_end_matches(" }");
        let meant = inside
            .split(", ")
            .filter_map(|field| field.split_once(": "))
            .map(|(name, _)| name);
        assert_eq!(typed, Some(meant.map(str::to_owned).collect()));
    }
}
