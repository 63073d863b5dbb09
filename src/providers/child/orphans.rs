//! Orphans of our programs: processes that left their group, cleared their environment, and lost
//! their parent. Where this process is a child subreaper, the kernel makes it their parent, and
//! nothing that they do changes that.
//!
//! Only on Linux, and only while this process lives; after a `kill -9` the next engine finds
//! processes that have a marker (`marker.rs`).

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Pids of children that were started on purpose, until the runtime has reaped them. The kernel's
/// table of processes is one for all threads, so this is too. Locked while a child is started:
/// until it is recorded here it looks like an orphan.
static STARTED: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Makes this process the subreaper of its descendants. Does nothing on systems other than Linux.
pub fn adopt() {
    system::adopt();
}

/// Permit to start children; a child that is not recorded before the permit is dropped may be
/// killed as an orphan.
pub struct Starting(MutexGuard<'static, BTreeSet<i32>>);

impl Starting {
    pub fn begin() -> Self {
        Self(STARTED.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn note(&mut self, pid: Option<u32>) {
        self.0.extend(pid.and_then(|pid| i32::try_from(pid).ok()));
    }
}

/// Kills and reaps the orphans that belong to no running program; returns their number. Does
/// nothing where this process is no subreaper.
pub fn end() -> usize {
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    system::end(&mut started)
}

#[cfg(target_os = "linux")]
mod system {
    use crate::providers::child::marker;
    use rustix::process::{
        Pid, PidfdFlags, Signal, WaitOptions, child_subreaper, getpid, pidfd_open,
        pidfd_send_signal, set_child_subreaper, waitpid,
    };
    use std::collections::BTreeSet;
    use std::time::Duration;

    /// Rounds of the search: the children of a killed process become ours, too.
    const ROUNDS_MAX: usize = 50;
    /// Time for the kernel to end a killed process.
    const PAUSE: Duration = Duration::from_millis(1);

    pub fn adopt() {
        // Fails on kernels before 3.4 only; then orphans go to `init`, as without it.
        let _unsupported = set_child_subreaper(Some(getpid()));
    }

    struct Child {
        pid: i32,
        is_dead: bool,
        group: i32,
    }

    pub fn end(started: &mut BTreeSet<i32>) -> usize {
        if !matches!(child_subreaper(), Ok(Some(_))) {
            return 0;
        }
        let ours: BTreeSet<i32> = children().map(|child| child.pid).collect();
        started.retain(|pid| ours.contains(pid));
        let mut killed = BTreeSet::new();
        for _ in 0..ROUNDS_MAX {
            let orphans = children()
                .filter(|child| !started.contains(&child.pid) && !is_at_work(child, started));
            let orphans: Vec<Child> = orphans.collect();
            for orphan in &orphans {
                let Some(pid) = Pid::from_raw(orphan.pid) else {
                    continue;
                };
                if !orphan.is_dead
                    && let Ok(handle) = pidfd_open(pid, PidfdFlags::empty())
                    && pidfd_send_signal(&handle, Signal::KILL).is_ok()
                {
                    killed.insert(orphan.pid);
                }
                let _not_dead_yet = waitpid(Some(pid), WaitOptions::NOHANG);
            }
            if orphans.is_empty() {
                break;
            }
            if orphans.iter().any(|orphan| !orphan.is_dead) {
                std::thread::sleep(PAUSE);
            }
        }
        killed.len()
    }

    /// Reports whether an orphan belongs to a running program: it dies with that one.
    fn is_at_work(child: &Child, started: &BTreeSet<i32>) -> bool {
        !child.is_dead
            && (started.contains(&child.group)
                || marker::group_of(child.pid).is_some_and(|group| started.contains(&group)))
    }

    /// Returns our children, zombies included.
    fn children() -> impl Iterator<Item = Child> {
        let ours = getpid().as_raw_nonzero().get();
        let entries = std::fs::read_dir("/proc").into_iter().flatten();
        let pids =
            entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
        pids.filter_map(move |pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // After the name in parentheses: state, parent, group (proc_pid_stat(5)).
            let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
            let is_dead = matches!(fields.next()?, "Z" | "X");
            let (parent, group): (i32, i32) =
                (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
            (parent == ours).then_some(Child {
                pid,
                is_dead,
                group,
            })
        })
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::collections::BTreeSet;

    pub fn adopt() {}
    pub fn end(_started: &mut BTreeSet<i32>) -> usize {
        0
    }
}
