//! `limits` in `configs/gateway.json`: every bound that is not of a run.

use crate::config::values::section::*;
use crate::mime::ParseLimits;

/// Limits, each with a default. A limit can be changed but not switched off.
///
/// Names end with the unit.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Maximum bytes of a letter.
    #[schemars(range(min = 1024))]
    pub letter_bytes_max: usize,
    /// Maximum bytes of a text line of a letter.
    #[schemars(range(min = 1000))]
    pub line_bytes_max: usize,
    /// Maximum bytes of one header section of a letter.
    #[schemars(range(min = 1024))]
    pub header_bytes_max: usize,
    /// Maximum bytes of an SMTP command line.
    #[schemars(range(min = 512))]
    pub command_line_bytes_max: usize,
    /// Accepted recipients of a letter above which further ones are refused with 452.
    #[schemars(range(min = 1))]
    pub recipients_max: usize,
    /// Maximum concurrent SMTP connections.
    #[schemars(range(min = 1))]
    pub connections_max: usize,
    /// Maximum concurrent SMTP connections of one IPv4 address or IPv6 /64.
    #[schemars(range(min = 1))]
    pub connections_per_address_max: usize,
    /// Permanent failures of an SMTP session after which it is disconnected.
    #[schemars(range(min = 1))]
    pub session_errors_max: usize,
    /// Maximum duration of an SMTP session.
    #[serde(with = "TypedDuration")]
    pub session_duration_max: Duration,
    /// Timeout of one command, of one pause inside a letter, and of one batch of replies.
    #[serde(with = "TypedDuration")]
    pub session_idle_max: Duration,
    /// Timeout of the PROXY header and of the TLS handshake.
    #[serde(with = "TypedDuration")]
    pub handshake_max: Duration,
    /// Time to wait for early data before the greeting; a client that sends within it is refused.
    #[serde(with = "TypedDuration")]
    pub greeting_delay: Duration,
    /// Minimum average bytes per second of a letter; a slower client is disconnected.
    pub letter_bytes_per_second_min: usize,
    /// Delay of the reply to a first failed login; it doubles with each further one, up to sixteen
    /// times.
    #[serde(with = "TypedDuration")]
    pub login_delay: Duration,
    /// Failed logins from one network before it is refused for 15 minutes.
    #[schemars(range(min = 1))]
    pub login_failures_max: usize,
    /// Number of open runs above which letters are refused with 452.
    #[schemars(range(min = 1))]
    pub open_runs_max: usize,
    /// Maximum nesting of body parts of a letter.
    #[schemars(range(min = 1, max = 200))]
    pub mime_depth_max: usize,
    /// Maximum number of body parts of a letter.
    #[schemars(range(min = 1))]
    pub mime_parts_max: usize,
    /// Maximum number of `Received` fields of a letter.
    #[schemars(range(min = 1))]
    pub received_headers_max: usize,
    /// Maximum bytes of an HTML part that is rendered; a larger one is only stripped of its tags.
    #[schemars(range(min = 1))]
    pub html_bytes_max: usize,
    /// Maximum nesting of HTML elements that is rendered; deeper HTML is only stripped of its tags.
    #[schemars(range(min = 1, max = 4096))]
    pub html_depth_max: usize,
    /// Maximum ids that are kept of a `References` field.
    #[schemars(range(min = 1))]
    pub references_max: usize,
    /// Maximum bytes of a tool's result.
    #[schemars(range(min = 256))]
    pub tool_result_bytes_max: usize,
    /// Maximum bytes of a file that a tool reads.
    #[schemars(range(min = 1))]
    pub file_bytes_max: usize,
    /// Maximum bytes of a persona's memory.
    #[schemars(range(min = 1))]
    pub memory_bytes_max: usize,
    /// Maximum bytes of the attachments of one mail.
    #[schemars(range(min = 1))]
    pub attachments_bytes_max: usize,
    /// Maximum bytes of a persona's `workspace/`.
    #[schemars(range(min = 1))]
    pub workspace_bytes_max: u64,
    /// Maximum files, folders and links in a persona's `workspace/`.
    #[schemars(range(min = 1))]
    pub workspace_files_max: usize,
    /// Earlier versions of files in a persona's `workspace/` that are kept; the oldest go first.
    #[schemars(range(min = 1))]
    pub workspace_versions_max: usize,
    /// Maximum bytes of those versions; the oldest go first.
    #[schemars(range(min = 1))]
    pub workspace_versions_bytes_max: u64,
    /// Free disk space in bytes below which letters are refused with 452.
    pub free_disk_bytes_min: u64,
    /// Automatic mails that a persona may send to one person in an hour; verified owners do not
    /// count.
    #[schemars(range(min = 1))]
    pub replies_per_hour_max: usize,
    /// Automatic mails that a persona may send to one person in a day; verified owners do not count.
    #[schemars(range(min = 1))]
    pub replies_per_day_max: usize,
    /// Changes of direction in a thread per day without a letter of a verified owner.
    #[schemars(range(min = 1))]
    pub alternations_max: usize,
    /// Letters from one organisation's domain that a persona answers in a day, of all senders below `contact` together. Domains
    /// are told apart by the public suffix list.
    #[schemars(range(min = 1))]
    pub domain_runs_per_day_max: usize,
    /// Waiting letters of a thread, of one sender and one trust, that one run answers together; 1: each letter has an answer of
    /// its own. Letters with attachments or an invitation are always answered alone.
    #[schemars(range(min = 1, max = 64))]
    pub letters_per_run_max: usize,
    /// Maximum consecutive mails between personas.
    #[schemars(range(min = 1))]
    pub persona_hops_max: usize,
    /// Time within which a repeated letter counts as a duplicate.
    #[serde(with = "TypedDuration")]
    pub duplicate_window: Duration,
    /// Time from SIGTERM to the end of the process.
    #[serde(with = "TypedDuration")]
    pub drain_max: Duration,
}

impl Limits {
    /// Returns the bounds of reading a letter.
    pub fn parse_limits(&self) -> ParseLimits {
        ParseLimits {
            depth_max: self.mime_depth_max,
            parts_max: self.mime_parts_max,
            header_bytes_max: self.header_bytes_max,
            received_max: self.received_headers_max,
            html_bytes_max: self.html_bytes_max,
            html_depth_max: self.html_depth_max,
            references_max: self.references_max,
        }
    }

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
            workspace_bytes_max: 256 * 1024 * 1024,
            workspace_files_max: 10_000,
            workspace_versions_max: 1000,
            workspace_versions_bytes_max: 256 * 1024 * 1024,
            free_disk_bytes_min: 64 * 1024 * 1024,
            replies_per_hour_max: 6,
            replies_per_day_max: 20,
            alternations_max: 10,
            domain_runs_per_day_max: 100,
            letters_per_run_max: 8,
            persona_hops_max: 4,
            duplicate_window: Duration::from_secs(7 * 24 * 3600),
            drain_max: Duration::from_secs(10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings' Debug text names every field, so a new limit cannot be missing here.
    #[test]
    fn every_limit_can_be_typed() {
        let schema = crate::config::file::json_schema::schema_for::<Limits>();
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
