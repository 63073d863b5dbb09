//! What a process of this program keeps from everybody else on the machine: its files, its memory, its core.

use crate::harness::providers::orphans;
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, setrlimit, umask};

/// Protects this process; before anything is opened or started. Nothing here can be switched off (D-08).
pub fn protect() {
    // Letters, memory, configuration, exports: for their owner alone, whatever the shell's umask says. SQLite gives its log
    // the mode of the database, and a socket gets its mode by name.
    umask(Mode::RWXG | Mode::RWXO);
    // A core file would hold keys and letters. Lowering a limit needs no right, so this does not fail.
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let _unlimited = setrlimit(Resource::Core, none);
    hide_memory();
    // What an agent leaves behind comes to us instead of to `init`.
    orphans::adopt();
}

/// `/proc/PID/environ` and `mem` are root's from now on: agents run as the same user, and keys stand in both (prctl(2),
/// PR_SET_DUMPABLE).
#[cfg(target_os = "linux")]
fn hide_memory() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    let _unsupported = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

#[cfg(not(target_os = "linux"))]
fn hide_memory() {}
