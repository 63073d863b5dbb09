//! Connection to a server that is a program of this machine: one message a line, on standard input and output.
//!
//! The program runs in a process group of its own with a bare environment, is marked as agents are, and dies with the engine.

use super::failure::McpFailure;
use crate::config::{McpServer, writable_part};
use crate::providers::child::process::{Output, Process};
use crate::providers::child::program::Program;
use crate::providers::scrub;
use crate::providers::transport::lines::OutputLimits;
use crate::text::{one_line, truncated};
use secrecy::SecretString;
use serde_json::Value;
use std::time::Duration;

/// Longest message in bytes.
pub const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Most bytes of one session.
const SESSION_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Time between SIGTERM and SIGKILL.
const STOP_GRACE: Duration = Duration::from_millis(500);
/// Most characters of what a program wrote to standard error that are logged.
const COMPLAINTS_CHARS_MAX: usize = 2000;

/// A running server.
pub struct StdioConnection {
    process: Process,
    name: String,
    /// Values that must not stand in the log.
    secrets: Vec<SecretString>,
}

impl StdioConnection {
    pub fn start(server: &McpServer) -> Result<Self, McpFailure> {
        let [wanted, args @ ..] = server.command.as_slice() else {
            return Err(McpFailure::Unreachable("it names no program".to_owned()));
        };
        // Such servers are started in the workspace itself.
        let places = (server.folder.as_path(), server.folder.as_path());
        if let Some(open) = writable_part(&server.command, places) {
            return Err(McpFailure::Unreachable(format!(
                "`{}` may be written by other users of this machine (mode {:04o}), so it is not started: look at it, then `chmod go-w` it",
                open.path.display(),
                open.mode
            )));
        }
        let Some(mut program) = Program::at(wanted, places, server.values.clone()) else {
            return Err(McpFailure::Unreachable(format!(
                "`{wanted}` is not a program"
            )));
        };
        program.limits = OutputLimits {
            line_bytes_max: MESSAGE_BYTES_MAX,
            total_bytes_max: SESSION_BYTES_MAX,
        };
        program.grace = STOP_GRACE;
        let process = program
            .start(args, &server.folder)
            .map_err(|error| McpFailure::Unreachable(error.to_string()))?;
        let named = server.values.iter();
        let secrets = named
            .filter(|(name, _)| server.environment.contains(name))
            .map(|(_, value)| value.clone());
        Ok(Self {
            process,
            name: server.name.clone(),
            secrets: secrets.collect(),
        })
    }

    pub fn send(&mut self, message: &Value) {
        self.process.send(&format!("{message}\n"));
    }

    /// Returns the next message; `Null`: a line that is none, such as a greeting.
    pub async fn receive(&mut self) -> Result<Value, McpFailure> {
        match self.process.next().await {
            Ok(Output::Line(line)) => Ok(serde_json::from_str(&line).unwrap_or_default()),
            Ok(Output::End(ending)) => {
                let code = ending
                    .code
                    .map_or("killed".to_owned(), |code| format!("exit code {code}"));
                Err(McpFailure::Ended(code))
            }
            Err(error) => Err(McpFailure::broken(error.to_string())),
        }
    }

    /// Ends the program with all that it has started, and logs what it complained of.
    pub async fn close(mut self) {
        self.process.stop().await;
        let complaints = self.process.complaints();
        let complaints = scrub(complaints.as_bytes(), &self.secrets).unwrap_or_default();
        let complaints = one_line(&String::from_utf8_lossy(&complaints));
        if !complaints.is_empty() {
            let stderr = truncated(&complaints, COMPLAINTS_CHARS_MAX);
            tracing::info!(
                server = self.name,
                stderr,
                "an MCP server wrote to standard error"
            );
        }
    }
}
