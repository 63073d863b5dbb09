//! Protects the process from other users of the machine: its files, its memory, its core dumps.

use super::exit::{Exit, Failure, refuse};
use crate::providers::child::orphans;
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, geteuid, setrlimit, umask};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Protects this process; called before anything is opened or started. Nothing here can be switched
/// off (D-36).
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
    keep_capabilities();
    // Orphaned processes of an agent are reparented to this process instead of `init`.
    orphans::adopt();
}

/// Keeps what a service manager gave this process, such as the right to listen below 1024, from the programs that it starts:
/// they need none, and the sandbox of commands refuses to start with any (capabilities(7), ambient set).
#[cfg(target_os = "linux")]
fn keep_capabilities() {
    let _unsupported = rustix::thread::clear_ambient_capability_set();
}

#[cfg(not(target_os = "linux"))]
fn keep_capabilities() {}

/// Makes `/proc/PID/environ` and `mem` readable only by root: agents run as the same user, and both
/// hold keys (prctl(2), PR_SET_DUMPABLE).
#[cfg(target_os = "linux")]
fn hide_memory() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    let _unsupported = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

#[cfg(not(target_os = "linux"))]
fn hide_memory() {}

/// Refuses to work as root in a workspace that belongs to another user: what root writes there (the
/// log of the database, a token) the engine of that user could not open.
pub fn refuse_root(workspace: &Path) -> Result<(), Failure> {
    let Some(owner) = workspace.metadata().ok().map(|folder| folder.uid()) else {
        return Ok(());
    };
    if !geteuid().is_root() || owner == 0 {
        return Ok(());
    }
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let user = user_name(&passwd, owner).unwrap_or_else(|| format!("'#{owner}'"));
    let folder = workspace.display();
    refuse(
        Exit::Workspace,
        format!("`{folder}` belongs to {user}, who could not open what root writes there"),
        format!("work as that user: `runuser -u {user} -- attache --workspace {folder} …`"),
    )
}

/// Name of a user, from the lines of passwd(5).
fn user_name(passwd: &str, uid: u32) -> Option<String> {
    let mut users = passwd.lines().map(|line| line.split(':'));
    users.find_map(|mut fields| {
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::user_name;

    #[test]
    fn a_user_is_found_by_number() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\nattache:x:998:998::/var/lib/attache:/usr/sbin/nologin\n";
        assert_eq!(user_name(passwd, 998).as_deref(), Some("attache"));
        assert_eq!(user_name(passwd, 99), None);
        assert_eq!(user_name("broken\n:::\n", 998), None);
    }
}
