//! Bounds of one command.

use serde::{Deserialize, Serialize};

const MIB: u64 = 1024 * 1024;

/// Bounds of one command and of everything that it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandLimits {
    /// Time from start to end; then all its processes are killed.
    pub wall_ms_max: u64,
    /// Computing time of one process.
    pub cpu_seconds_max: u64,
    /// Address space of one process.
    pub address_space_bytes_max: u64,
    /// Memory of all processes together.
    pub memory_bytes_max: u64,
    /// Largest file that a process may write.
    pub file_bytes_max: u64,
    /// Most processes and threads.
    pub processes_max: u64,
    /// Most open files of one process.
    pub open_files_max: u64,
    /// Size of `/tmp`.
    pub tmp_bytes_max: u64,
    /// Bytes of standard output and standard error that are kept; the rest is counted.
    pub output_bytes_max: usize,
    /// Most commands at once.
    pub commands_max: usize,
}

impl Default for CommandLimits {
    fn default() -> Self {
        Self {
            wall_ms_max: 120_000,
            cpu_seconds_max: 60,
            address_space_bytes_max: 1024 * MIB,
            memory_bytes_max: 1024 * MIB,
            file_bytes_max: 256 * MIB,
            processes_max: 128,
            open_files_max: 256,
            tmp_bytes_max: 64 * MIB,
            output_bytes_max: 256 * 1024,
            commands_max: 2,
        }
    }
}
