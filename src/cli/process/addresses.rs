//! Addresses of this machine: whether one can be listened on, and which process has it.

use crate::config::ListenAddress;
use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// State of an address of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressState {
    Free,
    /// Another program, or an engine, listens there.
    Taken(Option<AddressHolder>),
    /// A file that is no socket lies at the path of one.
    NoSocket,
    /// It cannot be bound for another reason.
    Unusable(ErrorKind, String),
}

/// The process that has an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressHolder {
    /// User whose socket it is.
    pub uid: u32,
    /// `None`: the process is not this user's to look into.
    pub process: Option<(u32, String)>,
}

/// Tries an address, and leaves it as it was.
pub fn address_state(address: &ListenAddress) -> AddressState {
    match address {
        ListenAddress::Tcp(address) => match TcpListener::bind(address) {
            Ok(_closed) => AddressState::Free,
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                AddressState::Taken(holder(address))
            }
            // The right is asked for first: an engine that has it may listen there.
            Err(error) => match holder(address) {
                Some(holder) if error.kind() == ErrorKind::PermissionDenied => {
                    AddressState::Taken(Some(holder))
                }
                _ => AddressState::Unusable(error.kind(), error.to_string()),
            },
        },
        ListenAddress::Unix { path, .. } => file_state(path),
    }
}

fn file_state(path: &Path) -> AddressState {
    match path.symlink_metadata() {
        Ok(found) if !found.file_type().is_socket() => AddressState::NoSocket,
        Ok(_) => match UnixStream::connect(path) {
            Ok(_closed) => AddressState::Taken(None),
            // The listener is gone, and its successor replaces the file.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => AddressState::Free,
            Err(error) => AddressState::Unusable(error.kind(), error.to_string()),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => AddressState::Free,
        Err(error) => AddressState::Unusable(error.kind(), error.to_string()),
    }
}

/// Returns the remedy for an address that cannot be bound; `kind` is the reason.
pub fn unbound_hint(kind: Option<ErrorKind>) -> &'static str {
    match kind {
        Some(ErrorKind::PermissionDenied) => {
            "ports below 1024 need a right: `setcap cap_net_bind_service=+ep PROGRAM`, or `AmbientCapabilities=CAP_NET_BIND_SERVICE` \
             in a unit of systemd; or write a higher port in `listeners` of configs/gateway.json"
        }
        Some(ErrorKind::AddrNotAvailable) => {
            "this machine does not have that address: `ip address` lists those it has; `listeners` in configs/gateway.json \
             names ours"
        }
        _ => {
            "another program has that address (`ss -lntxp` shows which); `listeners` in configs/gateway.json names ours"
        }
    }
}

/// Finds who listens at a port; `None` where the system does not tell (proc_pid_net(5)).
fn holder(address: &SocketAddr) -> Option<AddressHolder> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    let lines = tables.iter().flatten().flat_map(|table| table.lines());
    let (uid, inode) = lines
        .filter_map(|line| listening(line, address.port()))
        .next()?;
    Some(AddressHolder {
        uid,
        process: process_of(&inode),
    })
}

/// Reads a line of `/proc/net/tcp`: user and inode of a socket that listens at the port.
fn listening(line: &str, port: u16) -> Option<(u32, String)> {
    const LISTEN: &str = "0A";
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [_, local, _, state, _, _, _, uid, _, inode, ..] = fields.as_slice() else {
        return None;
    };
    let (_, hex) = local.rsplit_once(':')?;
    let is_ours = *state == LISTEN && u16::from_str_radix(hex, 16).ok()? == port;
    is_ours.then_some((uid.parse().ok()?, (*inode).to_owned()))
}

/// Finds the process that has a socket open, among those that this user may look into.
fn process_of(inode: &str) -> Option<(u32, String)> {
    let wanted = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has = |pid: &u32| {
        let open = fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten();
        let mut open = open.flatten();
        open.any(|file| fs::read_link(file.path()).is_ok_and(|to| to.as_os_str() == &*wanted))
    };
    let pid = { pids }.find(has)?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some((pid, name.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listener_of_a_port_is_found_in_the_table_of_sockets() {
        let line = "  46: 0100007F:09DD 00000000:0000 0A 00000000:00000000 00:00000000 00000000   113        0 10605 1 0";
        assert_eq!(listening(line, 2525), Some((113, "10605".to_owned())));
        assert_eq!(listening(line, 2526), None);
        let open = line.replace(" 0A ", " 01 ");
        assert_eq!(listening(&open, 2525), None);
    }
}
