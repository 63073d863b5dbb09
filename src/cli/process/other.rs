//! Other processes of this machine, as `/proc` shows them.

/// Reports whether a process is stopped (SIGSTOP, a debugger): it lives, and does nothing.
pub fn is_stopped(pid: &str) -> bool {
    // The state follows the name of the program, which may hold any character and ends at the last
    // bracket (proc_pid_stat(5)).
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
    state.starts_with(['T', 't'])
}

/// Returns what to do about a stopped process that holds a workspace. No take-over: the process keeps its addresses.
pub fn stopped_hint(pid: &str) -> String {
    format!(
        "`kill -CONT {pid}` lets it go on; `kill -9 {pid}` ends it, and `attache serve` starts another, which goes on with its work"
    )
}
