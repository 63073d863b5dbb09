//! Commands that a model chose, in a sandbox: bubblewrap's namespaces, and within them a stage of this binary that takes more
//! from itself before it starts the command (D-88).
//!
//! A command sees `/usr`, an empty `/tmp` and the workspace of its persona; it has no network, no variables of the engine, and
//! ends with everything that it started. In reading order:
//!
//! - `limits`: bounds of one command
//! - `order`: what is to be run, and what became of it, as values
//! - `confine`: the second layer: resource limits, Landlock, seccomp
//! - `process_table`, `capture`: what the stage watches
//! - `stage`: the process in the sandbox; `arguments`: those of bubblewrap
//! - `sandbox`: the parent
//!
//! Absent on purpose: who may run a command (`policy`), the quota and the versions of the workspace (`tools`).

mod limits;
mod order;
mod confine;
mod process_table;
mod capture;
mod stage;
mod arguments;
mod sandbox;

pub use limits::CommandLimits;
pub use order::{
    CapturedText, CommandEnd, CommandOrder, CommandResult, ReadOnlyFolder, STAGE, StopCause,
};
pub use sandbox::{CommandSandbox, SandboxError};
pub use stage::work;
