//! Tools of MCP servers that are off, since they are not as their owner approved them.
//!
//! Absent on purpose: the approved definitions, which are a file of the configuration.

use crate::domain::{NoticeId, NoticeKind, NoticeSubject, Timestamp};
use crate::store::db::Scope;
use crate::store::notices::emit::{NewNotice, emit};
use crate::store::notices::wording::quoted;
use crate::store::{Result, Store};
use serde::Serialize;

const TOOLS_OFF: &str = "
    SELECT server, tool, pin_sha256, reason, detail, off_since FROM mcp_tools_off ORDER BY server, tool, pin_sha256";
pub const SWITCH_OFF: &str = "
    INSERT INTO mcp_tools_off (server, tool, pin_sha256, reason, detail, off_since) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (server, tool, pin_sha256) DO NOTHING";
const LIFT: &str = "DELETE FROM mcp_tools_off WHERE server = $1";

/// A tool that is off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct McpToolOff {
    pub server: String,
    /// Name that the server gives it.
    pub tool: String,
    /// Digest of the definition that was approved.
    pub pin_sha256: String,
    pub reason: String,
    /// Difference, in words for the owner.
    pub detail: String,
    pub off_since: Timestamp,
}

/// A tool that goes off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMcpToolOff {
    pub server: String,
    pub tool: String,
    pub pin_sha256: String,
    pub reason: &'static str,
    /// Difference; the server's words in it are quoted.
    pub detail: String,
}

impl Store {
    /// Returns the tools that are off.
    pub async fn mcp_tools_off(&self) -> Result<Vec<McpToolOff>> {
        self.all(TOOLS_OFF, ()).await
    }

    /// Switches tools off and tells the owner of each that was not off before.
    pub async fn switch_off_mcp_tools(&self, tools: Vec<NewMcpToolOff>) -> Result<()> {
        let clock = self.clock().clone();
        let now = clock.now();
        transact!(self, Scope::Engine, |conn| {
            for tool in &tools {
                if conn
                    .exec(
                        SWITCH_OFF,
                        (
                            &tool.server,
                            &tool.tool,
                            &tool.pin_sha256,
                            tool.reason,
                            &tool.detail,
                            now,
                        ),
                    )
                    .await?
                    > 0
                {
                    let id = NoticeId::new(clock.new_id());
                    emit(conn, &notice(tool, id, now), now).await?;
                }
            }
            Ok(())
        })
        .await
    }

    /// Lets the tools of a server be called again, after its owner has approved them.
    pub async fn lift_mcp_tools(&self, server: &str) -> Result<()> {
        let server = server.to_owned();
        transact!(self, Scope::Engine, |conn| {
            conn.exec(LIFT, server).await?;
            Ok(())
        })
        .await
    }
}

fn notice(tool: &NewMcpToolOff, id: NoticeId, now: Timestamp) -> NewNotice {
    NewNotice {
        id,
        persona: None,
        kind: NoticeKind::McpToolOff,
        detail: tool.server.clone(),
        subject: NoticeSubject::McpServer,
        subject_id: tool.server.clone(),
        occurrence: format!("{}:{now}", tool.tool),
        summary: format!(
            "{} of the MCP server {} is not as you approved it, and is off: {}",
            quoted(&tool.tool),
            quoted(&tool.server),
            tool.detail
        ),
        hint: format!(
            "`attache mcp list` shows its state; look at it and approve it with `attache mcp approve {}`, \
             or take it out of `configs/mcp.json`",
            tool.server
        ),
    }
}

from_row!(McpToolOff {
    server,
    tool,
    pin_sha256,
    reason,
    detail,
    off_since
});
