//! What everything that one of our programs starts inherits: a variable that says for which workspace, by which process
//! and in which group it was started. By it a child is found that has left its group, even after the engine is gone.
//!
//! Only where there is `/proc`. A child that throws its environment away is found by `orphans.rs`, while this engine lives.

use std::path::Path;

/// The variable; its value ends with the group's number.
pub const VARIABLE: &str = "ATTACHE_AGENT_GROUP";

/// The value of one group: `PLACE:STARTER:GROUP`, which no other living group has.
pub struct Mark(String);

impl Mark {
    /// The mark of a group that this process starts for a workspace.
    pub fn new(workspace: Option<&Path>, group: i32) -> Self {
        let place = workspace.and_then(system::place).unwrap_or_else(|| "-".to_owned());
        let starter = system::starter(std::process::id()).unwrap_or_else(|| "-".to_owned());
        Self(format!("{place}:{starter}:{group}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Kills every process that has it.
    pub fn kill(&self) {
        let entry = format!("{VARIABLE}={}", self.0);
        system::kill(|theirs| theirs == entry.as_bytes());
    }
}

/// The group in whose name a process was started, if it still says so.
pub fn group_of(pid: i32) -> Option<i32> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let entries = environment.split(|byte| *byte == 0).filter_map(|entry| std::str::from_utf8(entry).ok());
    let value = entries.into_iter().find_map(|entry| entry.strip_prefix(VARIABLE)?.strip_prefix('='))?;
    value.rsplit(':').next()?.parse().ok()
}

/// Kills what programs left behind whose engine died before it could end them: all that carries this workspace's
/// mark and was started by a process that is no more. What another workspace, or a living process of this one, has
/// started is left alone. How many there were.
pub fn sweep(workspace: &Path) -> usize {
    let Some(place) = system::place(workspace) else { return 0 };
    // Where not even this process can be seen, nothing says who is alive.
    if system::starter(std::process::id()).is_none() {
        return 0;
    }
    let begins = format!("{VARIABLE}={place}:");
    system::kill(|entry| {
        let rest = std::str::from_utf8(entry).ok().and_then(|entry| entry.strip_prefix(&begins));
        let starter = rest.and_then(|rest| rest.split_once(':')).map(|(starter, _)| starter);
        let pid = starter.and_then(|starter| starter.split_once('-')?.0.parse().ok());
        pid.is_some_and(|pid| system::starter(pid).as_deref() != starter)
    })
}

#[cfg(target_os = "linux")]
mod system {
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    /// A process may have started another one while we looked.
    const ROUNDS_MAX: usize = 20;

    /// A folder, by what it is rather than what it is called: in a container another one may have its path. With the
    /// namespace of our process numbers, outside of which they mean others.
    pub fn place(folder: &Path) -> Option<String> {
        let (folder, numbers) = (folder.metadata().ok()?, Path::new("/proc/self/ns/pid").metadata().ok()?);
        Some(format!("{:x}-{:x}-{:x}", folder.dev(), folder.ino(), numbers.ino()))
    }

    /// `PID-START`, which no later process with the same number has; `None` when there is no such process.
    pub fn starter(pid: u32) -> Option<String> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Behind the name in parentheses: the state, and nineteen fields later the start (proc_pid_stat(5)).
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let is_dead = matches!(fields.next()?, "Z" | "X");
        fields.nth(18).filter(|_| !is_dead).map(|start| format!("{pid}-{start}"))
    }

    /// Kills every process with such an entry in its environment, but this one. A handle is taken before the environment
    /// is read, so that the process that is killed is the one that was looked at.
    pub fn kill(is_marked: impl Fn(&[u8]) -> bool) -> usize {
        let mut killed = std::collections::BTreeSet::new();
        for _ in 0..ROUNDS_MAX {
            let Ok(entries) = std::fs::read_dir("/proc") else { break };
            let known = killed.len();
            let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
            for pid in pids.filter(|pid| *pid > 1 && u32::try_from(*pid) != Ok(std::process::id())) {
                let handle = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
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
