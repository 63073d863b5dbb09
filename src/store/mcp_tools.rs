//! Tools of MCP servers that are off, since they are not as their owner approved them.
//!
//! Absent on purpose: the approved definitions, which are a file of the configuration.

use crate::domain::{NoticeId, NoticeKind, NoticeSubject, Timestamp};
use crate::store::db::{self, Row, Scope};
use crate::store::notices::emit::{NewNotice, emit};
use crate::store::notices::wording::quoted;
use crate::store::sql::timestamp;
use crate::store::{Result, Store};
use serde::Serialize;

pub(in crate::store) const TOOLS_OFF: &str = "
    SELECT server, tool, pin_sha256, reason, detail, off_since FROM mcp_tools_off ORDER BY server, tool, pin_sha256";
pub(in crate::store) const SWITCH_OFF: &str = "
    INSERT INTO mcp_tools_off (server, tool, pin_sha256, reason, detail, off_since) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (server, tool, pin_sha256) DO NOTHING";
pub(in crate::store) const LIFT: &str = "DELETE FROM mcp_tools_off WHERE server = $1";

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
        let rows = db::query(TOOLS_OFF).fetch_all(self.readers()).await?;
        rows.iter().map(tool_off).collect()
    }

    /// Switches tools off and tells the owner of each that was not off before.
    pub async fn switch_off_mcp_tools(&self, tools: Vec<NewMcpToolOff>) -> Result<()> {
        let clock = self.clock().clone();
        let now = clock.now();
        self.write(Scope::Engine, move |conn| {
            Box::pin(async move {
                for tool in &tools {
                    let insert = db::query(SWITCH_OFF)
                        .bind(&tool.server)
                        .bind(&tool.tool)
                        .bind(&tool.pin_sha256)
                        .bind(tool.reason)
                        .bind(&tool.detail)
                        .bind(now.to_string());
                    if insert.execute(&mut *conn).await?.rows_affected() > 0 {
                        let id = NoticeId::new(clock.new_id());
                        emit(conn, &notice(tool, id, now), now).await?;
                    }
                }
                Ok(())
            })
        })
        .await
    }

    /// Lets the tools of a server be called again, after its owner has approved them.
    pub async fn lift_mcp_tools(&self, server: &str) -> Result<()> {
        let server = server.to_owned();
        self.write(Scope::Engine, move |conn| {
            Box::pin(async move {
                db::query(LIFT).bind(server).execute(&mut *conn).await?;
                Ok(())
            })
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

fn tool_off(row: &Row) -> Result<McpToolOff> {
    Ok(McpToolOff {
        server: row.get("server"),
        tool: row.get("tool"),
        pin_sha256: row.get("pin_sha256"),
        reason: row.get("reason"),
        detail: row.get("detail"),
        off_since: timestamp(row, "off_since")?,
    })
}
