//! Programs of the owner: started without a shell, given one JSON value, read until they end. Hooks and own tools run so.

use crate::config::{OwnTool, WritableFile, writable_part};
use crate::domain::{RunId, traceparent};
use crate::providers::child::process::Output;
use crate::providers::child::program::Program;
use crate::providers::transport::lines::OutputLimits;
use crate::text::truncated;
use crate::tools::{OwnerPrograms, ProgramFailure, ToolError};
use futures_util::future::BoxFuture;
use secrecy::SecretString;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use tokio::time::timeout;

/// Most bytes that an own tool may write.
const TOOL_OUTPUT_BYTES_MAX: usize = 256 * 1024;
/// Most characters of a failure that are kept.
const FAILURE_CHARS_MAX: usize = 500;
/// Time between SIGTERM and SIGKILL of a program whose time is over.
const STOP_GRACE: Duration = Duration::from_millis(200);

/// A program of the owner, and its bounds.
pub struct OwnerProgram<'a> {
    /// Program and its arguments.
    pub command: &'a [String],
    /// Folder that it is started in, and to which its path is relative.
    pub folder: &'a Path,
    /// Workspace whose next engine ends what this one leaves running.
    pub workspace: &'a Path,
    /// Its whole environment.
    pub environment: Vec<(String, SecretString)>,
    pub output_bytes_max: usize,
    pub timeout: Duration,
}

/// Gives a program one line of JSON and returns what it writes. Past its time, it is killed with everything that it has
/// started.
///
/// Errors: it cannot be started, takes too long, fails or writes too much; for the owner, since it may hold paths.
pub async fn run(program: OwnerProgram<'_>, input: &Value) -> Result<String, ProgramFailure> {
    let within = program.timeout;
    match timeout(within, served(program, input)).await {
        Ok(written) => written.map_err(ProgramFailure::Failed),
        Err(_late) => Err(ProgramFailure::Late(within)),
    }
}

/// Dropped at the time limit, which kills the program.
async fn served(program: OwnerProgram<'_>, input: &Value) -> Result<String, String> {
    let [wanted, args @ ..] = program.command else {
        return Err("it names no program".to_owned());
    };
    let places = (program.folder, program.workspace);
    if let Some(open) = writable_part(program.command, places) {
        return Err(not_trusted(&open));
    }
    let mut environment = program.environment;
    if let Some(run) = input["run"].as_str() {
        // What the program does is of the run's trace (W3C Trace Context, as OpenTelemetry hands it to children).
        let trace = traceparent(&RunId::new(run));
        environment.push(("TRACEPARENT".to_owned(), trace.into()));
    }
    let Some(mut found) = Program::at(wanted, places, environment) else {
        return Err(format!("`{wanted}` is not a program"));
    };
    found.limits = OutputLimits {
        line_bytes_max: program.output_bytes_max,
        total_bytes_max: program.output_bytes_max,
    };
    found.grace = STOP_GRACE;
    let mut process = match found.start(args, program.folder) {
        Ok(process) => process,
        Err(error) => return Err(error.to_string()),
    };
    process.send(&format!("{input}\n"));
    process.close_stdin();
    let mut written = String::new();
    loop {
        match process.next().await {
            Ok(Output::Line(line)) => {
                written.push_str(&line);
                written.push('\n');
            }
            Ok(Output::End(ending)) if ending.code == Some(0) => return Ok(written),
            Ok(Output::End(ending)) => {
                return Err(truncated(&ending.to_string(), FAILURE_CHARS_MAX));
            }
            Err(error) => {
                process.stop().await;
                return Err(error.to_string());
            }
        }
    }
}

/// Says why a program is not run that others may have changed.
fn not_trusted(open: &WritableFile) -> String {
    format!(
        "`{}` may be written by other users of this machine (mode {:04o}), so it is not run: look at it, then `chmod go-w` it",
        open.path.display(),
        open.mode
    )
}

/// Runs own tools as programs of this machine.
#[derive(Debug, Clone, Copy)]
pub struct LocalPrograms;

impl OwnerPrograms for LocalPrograms {
    fn run<'a>(
        &'a self,
        tool: &'a OwnTool,
        input: &'a Value,
        within: Duration,
    ) -> BoxFuture<'a, Result<String, ToolError>> {
        Box::pin(async move {
            let own = ("ATTACHE_TOOL".to_owned(), tool.name.clone().into());
            let program = OwnerProgram {
                command: &tool.command,
                folder: &tool.folder,
                workspace: &tool.workspace,
                environment: tool.values.iter().cloned().chain([own]).collect(),
                output_bytes_max: TOOL_OUTPUT_BYTES_MAX,
                timeout: within,
            };
            run(program, input).await.map_err(|failure| {
                tracing::warn!(tool = tool.name, %failure, "an own tool failed");
                failure.for_model()
            })
        })
    }
}
