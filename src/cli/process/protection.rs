//! Protects the process from other users of the machine: its files, its memory, its core dumps.

use crate::providers::child::orphans;
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, setrlimit, umask};

/// Protects this process; called before anything is opened or started. Nothing here can be switched
/// off (D-08).
pub fn protect() {
    // Letters, memory, configuration and exports are for their owner alone, whatever the shell's
    // umask. SQLite gives its log the mode of the database, and sockets get their mode explicitly.
    umask(Mode::RWXG | Mode::RWXO);
    // A core file would hold keys and letters. Lowering a limit needs no privilege, so this does
    // not fail.
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _unlimited = setrlimit(Resource::Core, none);
    hide_memory();
    // Orphaned processes of an agent are reparented to this process instead of `init`.
    orphans::adopt();
}

/// Makes `/proc/PID/environ` and `mem` readable only by root: agents run as the same user, and both
/// hold keys (prctl(2), PR_SET_DUMPABLE).
#[cfg(target_os = "linux")]
fn hide_memory() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    let _unsupported = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

#[cfg(not(target_os = "linux"))]
fn hide_memory() {}
