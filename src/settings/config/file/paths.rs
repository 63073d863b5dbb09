//! Paths of the configuration files, and absolute paths of the files that they name.

use std::path::{Component, Path, PathBuf};

pub const GATEWAY_FILE: &str = "configs/gateway.json";
pub const INFERENCE_FILE: &str = "configs/inference.json";
pub const PRICES_FILE: &str = "configs/prices.json";
pub const CONTEXT_FILE: &str = "configs/context.json";
pub const HOOKS_FILE: &str = "configs/hooks.json";
pub const POLICY_FILE: &str = "configs/policy.json";
pub const KEEPING_FILE: &str = "configs/keeping.json";
pub const WEB_FILE: &str = "configs/web.json";
pub const SKILLS_FILE: &str = "configs/skills.json";
pub const MCP_FILE: &str = "configs/mcp.json";
/// Definitions that the owner has approved.
pub const MCP_LOCK_FILE: &str = "configs/mcp.lock.json";
pub const SECURITY_FILE: &str = "configs/security.json";

/// Folder of the owner's tools, each in a folder of its own.
pub const OWN_TOOLS_FOLDER: &str = "configs/tools";

/// Bytes of a program by which its kind is told.
const PROGRAM_START_BYTES: u64 = 256;

/// Path of an owner's tool below the workspace.
pub fn own_tool_file(name: &str) -> String {
    format!("{OWN_TOOLS_FOLDER}/{name}/tool.json")
}

/// Path of a persona's file below the workspace.
pub fn persona_file(id: &str) -> String {
    format!("personas/{id}/persona.json")
}

/// Path of a persona's policy below the workspace.
pub fn persona_policy_file(id: &str) -> String {
    format!("personas/{id}/policy.json")
}

/// Builds an absolute path without `.` and `..`, so that equal paths compare equal.
pub fn below(workspace: &Path, typed: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in workspace.join(typed).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(path.pop()),
            other => path.push(other),
        }
    }
    path
}

/// Reports whether a program is a text whose first line names no interpreter: execve(2) fails with ENOEXEC, because only a shell
/// would take it for a shell script.
pub fn is_text_without_interpreter(path: &Path) -> bool {
    use std::io::Read;
    let mut start = Vec::new();
    let opened = std::fs::File::open(path);
    let read = opened.and_then(|file| file.take(PROGRAM_START_BYTES).read_to_end(&mut start));
    // A machine's format has zero bytes near its start (ELF, Mach-O).
    read.is_ok() && !start.starts_with(b"#!") && !start.contains(&0)
}

/// Reports whether a path is a file that somebody may execute.
pub fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}
