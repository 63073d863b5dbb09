//! Environment variable that every process of an agent inherits: it names the workspace, the engine
//! process and the process group. It identifies a child that has left its group, even after the
//! engine is gone.
//!
//! Only where there is `/proc`. A child that clears its environment is found by `orphans.rs`, while
//! this engine lives.

use std::path::Path;

/// Name of the variable; its value ends with the group's number.
pub const VARIABLE: &str = "ATTACHE_AGENT_GROUP";

/// Value for one group: `PLACE:STARTER:GROUP`, which no other living group has.
pub struct ProcessMarker(String);

impl ProcessMarker {
    /// Builds the marker of a group that this process starts for a workspace.
    pub fn new(workspace: Option<&Path>, group: i32) -> Self {
        let place = workspace
            .and_then(system::place)
            .unwrap_or_else(|| "-".to_owned());
        let starter = system::starter(std::process::id()).unwrap_or_else(|| "-".to_owned());
        Self(format!("{place}:{starter}:{group}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Kills every process that has the marker.
    pub fn kill(&self) {
        let entry = format!("{VARIABLE}={}", self.0);
        system::kill(|theirs| theirs == entry.as_bytes());
    }
}

/// Returns the group that a process was started in, if its environment still names it.
pub fn group_of(pid: i32) -> Option<i32> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let entries = environment
        .split(|byte| *byte == 0)
        .filter_map(|entry| std::str::from_utf8(entry).ok());
    let value = entries
        .into_iter()
        .find_map(|entry| entry.strip_prefix(VARIABLE)?.strip_prefix('='))?;
    value.rsplit(':').next()?.parse().ok()
}

/// Kills processes that a dead engine left behind: all that carry this workspace's marker and whose
/// starter no longer exists. Processes of another workspace, or of a living engine of this one, are
/// left alone. Returns their number.
pub fn sweep(workspace: &Path) -> usize {
    let Some(place) = system::place(workspace) else {
        return 0;
    };
    // Where not even this process is visible, no process can be known to be alive.
    if system::starter(std::process::id()).is_none() {
        return 0;
    }
    let begins = format!("{VARIABLE}={place}:");
    system::kill(|entry| {
        let rest = std::str::from_utf8(entry)
            .ok()
            .and_then(|entry| entry.strip_prefix(&begins));
        let starter = rest
            .and_then(|rest| rest.split_once(':'))
            .map(|(starter, _)| starter);
        let pid = starter.and_then(|starter| starter.split_once('-')?.0.parse().ok());
        pid.is_some_and(|pid| system::starter(pid).as_deref() != starter)
    })
}

#[cfg(target_os = "linux")]
mod system {
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    /// A process may start another one during the scan.
    const ROUNDS_MAX: usize = 20;

    /// Returns the identity of a folder, not its path: in a container another folder may have that
    /// path. It includes the PID namespace of our process, outside of which the numbers mean other
    /// processes.
    pub fn place(folder: &Path) -> Option<String> {
        let (folder, numbers) = (
            folder.metadata().ok()?,
            Path::new("/proc/self/ns/pid").metadata().ok()?,
        );
        Some(format!(
            "{:x}-{:x}-{:x}",
            folder.dev(),
            folder.ino(),
            numbers.ino()
        ))
    }

    /// Returns `PID-START`, which no later process with that number has; `None` when there is no
    /// such process.
    pub fn starter(pid: u32) -> Option<String> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // After the name in parentheses: the state, and nineteen fields later the start
        // (proc_pid_stat(5)).
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let is_dead = matches!(fields.next()?, "Z" | "X");
        fields
            .nth(18)
            .filter(|_| !is_dead)
            .map(|start| format!("{pid}-{start}"))
    }

    /// Kills every process with such an entry in its environment, except this one. A handle is
    /// taken before the environment is read, so that the process that is killed is the one that was
    /// checked.
    pub fn kill(is_marked: impl Fn(&[u8]) -> bool) -> usize {
        let mut killed = std::collections::BTreeSet::new();
        for _ in 0..ROUNDS_MAX {
            let Ok(entries) = std::fs::read_dir("/proc") else {
                break;
            };
            let known = killed.len();
            let pids =
                entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
            for pid in pids.filter(|pid| *pid > 1 && u32::try_from(*pid) != Ok(std::process::id()))
            {
                let handle =
                    Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
                let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                if let Some(handle) = handle
                    && environment.split(|byte| *byte == 0).any(&is_marked)
                    && pidfd_send_signal(&handle, Signal::KILL).is_ok()
                {
                    killed.insert(pid);
                }
            }
            if killed.len() == known {
                break;
            }
        }
        killed.len()
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::path::Path;

    pub fn place(_folder: &Path) -> Option<String> {
        None
    }
    pub fn starter(_pid: u32) -> Option<String> {
        None
    }
    pub fn kill(_is_marked: impl Fn(&[u8]) -> bool) -> usize {
        0
    }
}
