//! Arguments of bubblewrap: what the sandbox sees, by exclusion.

use super::limits::CommandLimits;
use super::order::{CommandOrder, STAGE};
use crate::mutants::{is_off, passed_on};
use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// Place of the workspace in the sandbox.
pub const WORKSPACE: &str = "/workspace";
/// Place of this program in the sandbox.
pub const PROGRAM: &str = "/run/attache";
/// Folders at the root of a system that programs in `/usr` need: links into it, or folders of old systems.
const SYSTEM_FOLDERS: [&str; 7] = [
    "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr",
];
/// Files that programs need to be found and linked; nothing else of `/etc` is seen.
const SYSTEM_FILES: [&str; 2] = ["/etc/ld.so.cache", "/etc/alternatives"];
/// User and group in the sandbox, whoever the engine's are.
const USER: &str = "1000";
const SHARED_MEMORY_BYTES_MAX: u64 = 16 * 1024 * 1024;
const HIDDEN_BYTES_MAX: u64 = 4096;

/// Returns the arguments for a command; `program`: this program, outside.
pub fn arguments(order: &CommandOrder, program: &Path, limits: &CommandLimits) -> Vec<OsString> {
    let mut args = Arguments(Vec::new());
    args.words(&[
        "--unshare-user",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-uts",
    ]);
    args.words(&["--unshare-cgroup-try"]);
    if !is_off("G21") {
        args.words(&["--unshare-net"]);
    }
    if !is_off("G22") {
        args.words(&["--clearenv"]);
    }
    if let Some((name, value)) = passed_on() {
        args.words(&["--setenv", name, &value]);
    }
    args.words(&["--die-with-parent", "--new-session", "--as-pid-1"]);
    args.words(&["--uid", USER, "--gid", USER, "--cap-drop", "ALL"]);
    args.words(&["--hostname", "sandbox"]);
    for folder in SYSTEM_FOLDERS {
        args.system_folder(Path::new(folder));
    }
    for file in SYSTEM_FILES {
        args.words(&["--ro-bind-try", file, file]);
    }
    args.words(&["--proc", "/proc", "--dev", "/dev"]);
    args.memory(SHARED_MEMORY_BYTES_MAX, "/dev/shm");
    args.words(&["--remount-ro", "/dev"]);
    args.memory(limits.tmp_bytes_max, "/tmp");
    args.bind("--ro-bind", program, PROGRAM);
    for folder in &order.read_only {
        args.bind("--ro-bind", &folder.from, &folder.to);
    }
    args.bind("--bind", &order.workspace, WORKSPACE);
    for name in &order.hidden {
        let place = format!("{WORKSPACE}/{name}");
        args.memory(HIDDEN_BYTES_MAX, &place);
        args.words(&["--remount-ro", &place]);
    }
    args.words(&["--remount-ro", "/", "--chdir", WORKSPACE]);
    args.words(&["--", PROGRAM, STAGE]);
    args.0
}

struct Arguments(Vec<OsString>);

impl Arguments {
    fn words(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(OsString::from));
    }

    fn bind(&mut self, how: &str, from: &Path, to: &str) {
        self.0.extend([how.into(), from.into(), to.into()]);
    }

    /// Adds a file system in memory, of a bounded size.
    fn memory(&mut self, bytes_max: u64, place: &str) {
        self.words(&["--size", &bytes_max.to_string(), "--tmpfs", place]);
    }

    fn system_folder(&mut self, folder: &Path) {
        if let Ok(target) = fs::read_link(folder) {
            self.0
                .extend(["--symlink".into(), target.into(), folder.into()]);
        } else if folder.is_dir() {
            self.0
                .extend(["--ro-bind".into(), folder.into(), folder.into()]);
        }
    }
}
