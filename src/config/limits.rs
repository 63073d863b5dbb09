//! `limits` in `configs/gateway.json`: every bound of [`Limits`], each optional.

use super::settings::Limits;
use super::span::Span;
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

/// Bounds. Each has a default; a guard cannot be switched off, only moved.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Typed {
    #[schemars(range(min = 1024))]
    letter_bytes_max: Option<usize>,
    #[schemars(range(min = 1000))]
    line_bytes_max: Option<usize>,
    #[schemars(range(min = 1024))]
    header_bytes_max: Option<usize>,
    #[schemars(range(min = 512))]
    command_line_bytes_max: Option<usize>,
    #[schemars(range(min = 1))]
    recipients_max: Option<usize>,
    #[schemars(range(min = 1))]
    connections_max: Option<usize>,
    #[schemars(range(min = 1))]
    connections_per_address_max: Option<usize>,
    #[schemars(range(min = 1))]
    session_errors_max: Option<usize>,
    session_duration_max: Option<Span>,
    session_idle_max: Option<Span>,
    handshake_max: Option<Span>,
    greeting_delay: Option<Span>,
    letter_bytes_per_second_min: Option<usize>,
    login_delay: Option<Span>,
    #[schemars(range(min = 1))]
    login_failures_max: Option<usize>,
    #[schemars(range(min = 1))]
    open_runs_max: Option<usize>,
    #[schemars(range(min = 1, max = 200))]
    mime_depth_max: Option<usize>,
    #[schemars(range(min = 1))]
    mime_parts_max: Option<usize>,
    #[schemars(range(min = 1))]
    received_headers_max: Option<usize>,
    #[schemars(range(min = 1))]
    html_bytes_max: Option<usize>,
    #[schemars(range(min = 1, max = 4096))]
    html_depth_max: Option<usize>,
    #[schemars(range(min = 1))]
    references_max: Option<usize>,
    #[schemars(range(min = 256))]
    tool_result_bytes_max: Option<usize>,
    #[schemars(range(min = 1))]
    file_bytes_max: Option<usize>,
    #[schemars(range(min = 1))]
    memory_bytes_max: Option<usize>,
    #[schemars(range(min = 1))]
    attachments_bytes_max: Option<usize>,
    free_disk_bytes_min: Option<u64>,
    #[schemars(range(min = 1))]
    replies_per_hour_max: Option<usize>,
    #[schemars(range(min = 1))]
    replies_per_day_max: Option<usize>,
    #[schemars(range(min = 1))]
    alternations_max: Option<usize>,
    #[schemars(range(min = 1))]
    persona_hops_max: Option<usize>,
    duplicate_window: Option<Span>,
    drain_max: Option<Span>,
}

/// The defaults, with what was typed in their place.
pub fn settle(typed: &Typed) -> Limits {
    let mut limits = Limits::default();
    let sizes = [
        (&mut limits.letter_bytes_max, typed.letter_bytes_max),
        (&mut limits.line_bytes_max, typed.line_bytes_max),
        (&mut limits.header_bytes_max, typed.header_bytes_max),
        (&mut limits.command_line_bytes_max, typed.command_line_bytes_max),
        (&mut limits.recipients_max, typed.recipients_max),
        (&mut limits.connections_max, typed.connections_max),
        (&mut limits.connections_per_address_max, typed.connections_per_address_max),
        (&mut limits.session_errors_max, typed.session_errors_max),
        (&mut limits.letter_bytes_per_second_min, typed.letter_bytes_per_second_min),
        (&mut limits.login_failures_max, typed.login_failures_max),
        (&mut limits.open_runs_max, typed.open_runs_max),
        (&mut limits.mime_depth_max, typed.mime_depth_max),
        (&mut limits.mime_parts_max, typed.mime_parts_max),
        (&mut limits.received_headers_max, typed.received_headers_max),
        (&mut limits.html_bytes_max, typed.html_bytes_max),
        (&mut limits.html_depth_max, typed.html_depth_max),
        (&mut limits.references_max, typed.references_max),
        (&mut limits.tool_result_bytes_max, typed.tool_result_bytes_max),
        (&mut limits.file_bytes_max, typed.file_bytes_max),
        (&mut limits.memory_bytes_max, typed.memory_bytes_max),
        (&mut limits.attachments_bytes_max, typed.attachments_bytes_max),
        (&mut limits.replies_per_hour_max, typed.replies_per_hour_max),
        (&mut limits.replies_per_day_max, typed.replies_per_day_max),
        (&mut limits.alternations_max, typed.alternations_max),
        (&mut limits.persona_hops_max, typed.persona_hops_max),
    ];
    for (limit, size) in sizes {
        *limit = size.unwrap_or(*limit);
    }
    let spans: [(&mut Duration, Option<Span>); 7] = [
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
    limits.free_disk_bytes_min = typed.free_disk_bytes_min.unwrap_or(limits.free_disk_bytes_min);
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings' Debug text names every field, so a limit that was added there cannot be forgotten here.
    #[test]
    fn every_limit_can_be_typed() {
        let schema = super::super::schema::of::<Typed>();
        let typed = schema["properties"].as_object().map(|p| p.keys().cloned().collect::<Vec<_>>());
        let debug = format!("{:?}", Limits::default());
        let inside = debug.trim_start_matches("Limits { ").trim_end_matches(" }");
        let meant = inside.split(", ").filter_map(|field| field.split_once(": ")).map(|(name, _)| name);
        assert_eq!(typed, Some(meant.map(str::to_owned).collect()));
    }
}
