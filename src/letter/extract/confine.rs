//! Lock-down of the process that decodes: no files, no sockets, no programs, bounded memory and time. Every decoder works
//! behind it, and what it denies is tried by [`attempts`].

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{bound, lock};
#[cfg(target_os = "linux")]
pub use linux::{bound, lock};

use serde::{Deserialize, Serialize};
use std::path::Path;

/// Outcome of what a hostile decoder would try; `true`: it succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempts {
    pub opens_a_file: bool,
    pub makes_a_file: bool,
    pub makes_a_socket: bool,
    pub starts_a_program: bool,
    pub starts_a_thread: bool,
    pub sends_a_signal: bool,
    pub takes_a_gigabyte: bool,
}

/// Tries what no decoder may do.
pub fn attempts() -> Attempts {
    let mut room: Vec<u8> = Vec::new();
    let made = Path::new("/tmp").join(format!("attache-attempt-{}", std::process::id()));
    let makes_a_file = std::fs::write(&made, b"x").is_ok();
    let _gone = std::fs::remove_file(&made);
    Attempts {
        opens_a_file: std::fs::File::open("/etc/passwd").is_ok(),
        makes_a_file,
        makes_a_socket: std::net::UdpSocket::bind("127.0.0.1:0").is_ok(),
        starts_a_program: std::process::Command::new("/bin/true").status().is_ok(),
        starts_a_thread: std::thread::Builder::new().spawn(|| ()).is_ok(),
        sends_a_signal: rustix::process::test_kill_process(rustix::process::getpid()).is_ok(),
        takes_a_gigabyte: room.try_reserve(1 << 30).is_ok(),
    }
}
