//! A run and the servers that its tools reach: sessions that end with it, and tools that it is offered.

use super::RunEnv;
use crate::domain::RunId;
use crate::store::{McpToolOff, StoreError};

impl RunEnv {
    /// Ends what a run has kept open.
    pub async fn run_ended(&self, run: &RunId) {
        if let Ok(live) = self.live() {
            live.run_ended(run).await;
        }
    }

    /// Returns the recorded first request; `None` for a run that is no record.
    pub fn recorded_first_request(&self) -> Option<String> {
        match self.live() {
            Ok(_) => None,
            Err(record) => record.first_request(),
        }
    }

    /// Returns the tools of MCP servers that are off.
    pub async fn mcp_tools_off(&self) -> Result<Vec<McpToolOff>, StoreError> {
        match self.live() {
            Ok(live) => live.store.mcp_tools_off().await,
            // What was offered is recorded.
            Err(_) => Ok(Vec::new()),
        }
    }
}
