//! Other processes of this machine, as `/proc` shows them.

/// Reports whether a process is stopped (SIGSTOP, a debugger): it lives, and does nothing.
pub fn is_stopped(pid: &str) -> bool {
    // The state follows the name of the program, which may hold any character and ends at the last
    // bracket (proc_pid_stat(5)).
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
    state.starts_with(['T', 't'])
}
