//! Which process a node is.

use crate::domain::sha256_hex;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A process that works on a database.
pub struct NodeIdentity {
    pub host: String,
    /// Absolute path of the workspace.
    pub workspace: String,
    pub pid: i64,
    pub version: &'static str,
    /// Digest of this boot of the machine and of the folder `data`, as the kernel knows it. Whoever has the lock there knows that
    /// an earlier process of the same identity is gone; of the same host and path there may be others, such as a copy of a machine.
    pub identity: String,
}

impl NodeIdentity {
    /// Returns this process, as the node of a workspace.
    pub fn of(workspace: &Path) -> Self {
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy().into_owned();
        let path = std::path::absolute(workspace).unwrap_or_else(|_| workspace.to_path_buf());
        let path = path.canonicalize().unwrap_or(path);
        let boot = boot().unwrap_or_else(|| host.clone());
        let folder = fs::metadata(path.join("data"));
        let folder = folder.map_or((0, 0), |data| (data.dev(), data.ino()));
        let place = format!("{} {}", folder.0, folder.1);
        Self {
            host,
            workspace: path.display().to_string(),
            pid: i64::from(std::process::id()),
            version: env!("CARGO_PKG_VERSION"),
            identity: sha256_hex(&[b"attache node", boot.trim().as_bytes(), place.as_bytes()]),
        }
    }
}

#[cfg(target_os = "linux")]
fn boot() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()
}

/// Elsewhere the name of the machine stands for it.
#[cfg(not(target_os = "linux"))]
fn boot() -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_identity_by_whatever_path_and_its_copy_another() {
        let place = tempfile::tempdir().expect("a folder");
        let [first_place, moved, copy] =
            ["first", "moved", "copy"].map(|name| place.path().join(name));
        fs::create_dir_all(first_place.join("data")).expect("a folder");
        let identity = |path: &Path| NodeIdentity::of(path).identity;
        let first = identity(&first_place);
        assert_eq!(first, identity(&first_place), "the next start");
        let link = place.path().join("link");
        std::os::unix::fs::symlink(&first_place, &link).expect("a link");
        assert_eq!(first, identity(&link));
        fs::rename(&first_place, &moved).expect("moved");
        assert_eq!(first, identity(&moved), "it is the same folder");
        fs::create_dir_all(first_place.join("data")).expect("a folder");
        assert_ne!(
            first,
            identity(&first_place),
            "another folder at the same path"
        );
        fs::create_dir_all(copy.join("data")).expect("a folder");
        assert_ne!(identity(&first_place), identity(&copy));
    }
}
