//! `tool_timeouts` of `configs/inference.json`: how long a call of a tool may take.

use crate::config::values::section::*;

/// Time of a call of a tool that says nothing of its own.
pub const TOOL_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest time of a call of any tool, wherever it is set.
pub const TOOL_TIMEOUT_MAX: Duration = Duration::from_secs(600);

/// Times of calls, by the name under which a tool is offered.
#[derive(Debug, Clone, Default)]
pub struct ToolTimeouts(BTreeMap<String, Duration>);

impl ToolTimeouts {
    /// Returns the time of a call: the one that stands here under the tool's name; else the tool's own, which is that of its
    /// `tool.json`, of its MCP server, or of a tool that works on the network or runs commands; else [`TOOL_TIMEOUT`].
    pub fn timeout_for(&self, tool: &str, own: Option<Duration>) -> Duration {
        let named = self.0.get(tool).copied();
        named.or(own).unwrap_or(TOOL_TIMEOUT)
    }
}

impl Serialize for ToolTimeouts {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(tool, within)| (tool, spell(*within))))
    }
}

/// Resolves the settings. Problems go to the context.
pub fn resolve(
    typed: &BTreeMap<String, TypedDuration>,
    place: &mut CheckPlace<'_, '_>,
) -> ToolTimeouts {
    let times = typed.iter().map(|(tool, TypedDuration(within))| {
        let place = &mut place.under(tool);
        place.is_tool("", tool, None);
        if within.is_zero() || *within > TOOL_TIMEOUT_MAX {
            let max = spell(TOOL_TIMEOUT_MAX);
            let hint = format!("write a time of more than nothing, and at most {max}");
            place.refuse("", format!("`{}` is out of range", spell(*within)), hint);
        }
        (tool.clone(), *within)
    });
    ToolTimeouts(times.collect())
}
