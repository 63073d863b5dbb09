//! The disk below `data`: room, files that it can still hold, and what kind of file system it is.

use super::finding::{ExaminedArea, FindingArea, FindingSeverity, InstallCheck, InstallFinding};
use crate::config::Config;
use rustix::fs::{StatVfsMountFlags, statvfs};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// File systems without which SQLite's log cannot be shared between processes (sqlite.org/wal.html), by their numbers in
/// `statfs` (Linux, magic.h).
const NETWORK: &[(i64, &str)] = &[
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x5346_414f, "AFS"),
    (0x00c3_6400, "Ceph"),
    (0x0102_1997, "9P"),
    (0x7461_636f, "OCFS2"),
];
const FUSE: i64 = 0x6573_5546;
const TMPFS: i64 = 0x0102_1994;
const RAMFS: i64 = 0x8584_58f6;
const OVERLAY: i64 = 0x794c_7630;
/// Bytes that the database needs to write at all, whatever the configuration keeps.
const FREE_BYTES_MIN: u64 = 16 * 1024 * 1024;
/// Files that a disk must be able to take.
const FREE_FILES_MIN: u64 = 1000;

/// The disk of a workspace.
pub struct DiskFacts {
    pub free_bytes: u64,
    /// Bytes below which letters are refused.
    pub kept_bytes: u64,
    pub free_files: u64,
    /// 0: the file system has no bound of its own.
    pub files_max: u64,
    /// `None`: the system does not tell.
    pub kind: Option<i64>,
    pub is_read_only: bool,
    /// Why nothing can be written into `data`: a file system that gave up does not say so of itself.
    pub unwritable: Option<String>,
}

static CHECKS: &[InstallCheck<DiskFacts>] = &[
    read_only,
    unwritable,
    full,
    nearly_full,
    no_files,
    network,
    passing,
];

pub fn examine(workspace: &Path, config: Option<&Config>) -> ExaminedArea {
    let data = workspace.join("data");
    let folder = if data.is_dir() { &data } else { workspace };
    match gather(folder, config) {
        Some(facts) => ExaminedArea::of(CHECKS, &facts),
        None => ExaminedArea::default(),
    }
}

fn gather(folder: &Path, config: Option<&Config>) -> Option<DiskFacts> {
    let disk = statvfs(folder).ok()?;
    Some(DiskFacts {
        free_bytes: disk.f_bavail.saturating_mul(disk.f_frsize),
        kept_bytes: config.map_or(0, |config| config.limits.free_disk_bytes_min),
        unwritable: unwritten(folder),
        free_files: disk.f_favail,
        files_max: disk.f_files,
        kind: kind(folder),
        is_read_only: disk.f_flag.contains(StatVfsMountFlags::RDONLY),
    })
}

/// Writes a small file and removes it; returns why that failed. What this user may not write is looked at elsewhere.
fn unwritten(folder: &Path) -> Option<String> {
    let path = folder.join(format!("doctor-{}.try", std::process::id()));
    let written = File::create(&path).and_then(|mut file| {
        file.write_all(b"?")?;
        file.sync_all()
    });
    let _not_made = std::fs::remove_file(&path);
    match written {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => None,
        written => written.err().map(|error| error.to_string()),
    }
}

#[cfg(target_os = "linux")]
fn kind(folder: &Path) -> Option<i64> {
    // The number has 32 bits, in a word whose width and sign differ between processors.
    let kind = rustix::fs::statfs(folder).ok()?.f_type;
    Some(i64::from(
        u32::try_from(i128::from(kind) & 0xffff_ffff).ok()?,
    ))
}

#[cfg(not(target_os = "linux"))]
fn kind(_: &Path) -> Option<i64> {
    None
}

fn finding(severity: FindingSeverity, what: String, remedy: &str) -> Vec<InstallFinding> {
    vec![InstallFinding::new(FindingArea::Disk, severity, what, remedy).of_file("data")]
}

fn read_only(facts: &DiskFacts) -> Vec<InstallFinding> {
    if !facts.is_read_only {
        return Vec::new();
    }
    let what = "its disk is mounted read-only: nothing can be stored".to_owned();
    let remedy = "see the log of the system for why (`dmesg`), then `mount -o remount,rw`; what only looks works all the same";
    finding(FindingSeverity::Fault, what, remedy)
}

fn unwritable(facts: &DiskFacts) -> Vec<InstallFinding> {
    let Some(why) = facts.unwritable.as_ref().filter(|_| !facts.is_read_only) else {
        return Vec::new();
    };
    let what = format!("nothing can be written into it: {why}");
    let remedy = "see the log of the system for why (`dmesg`); a disk that failed is unmounted and checked (`fsck`) before an engine starts again";
    finding(FindingSeverity::Fault, what, remedy)
}

fn full(facts: &DiskFacts) -> Vec<InstallFinding> {
    if facts.free_bytes >= facts.kept_bytes.max(FREE_BYTES_MIN) {
        return Vec::new();
    }
    if facts.free_bytes >= facts.kept_bytes {
        let what = format!(
            "letters are refused when nothing can be written: the disk below `data` has {} bytes free",
            facts.free_bytes
        );
        let remedy = "make room: `attache gc --older-than 90d`, then a backup in place of the database, which is smaller; \
            `limits.free_disk_bytes_min` in configs/gateway.json keeps some free";
        return finding(FindingSeverity::Fault, what, remedy);
    }
    let what = format!(
        "letters are refused: the disk below `data` has {} bytes free, and `limits.free_disk_bytes_min` in \
         configs/gateway.json keeps {}",
        facts.free_bytes, facts.kept_bytes
    );
    let remedy = "make room: `attache gc --older-than 90d`, then a backup in place of the database, which is smaller";
    finding(FindingSeverity::Fault, what, remedy)
}

fn nearly_full(facts: &DiskFacts) -> Vec<InstallFinding> {
    let kept_bytes = facts.kept_bytes.max(FREE_BYTES_MIN);
    let is_near = facts.free_bytes >= kept_bytes && facts.free_bytes / 2 < facts.kept_bytes;
    if !is_near {
        return Vec::new();
    }
    let what = format!(
        "{} bytes are free, and from {} on letters are refused",
        facts.free_bytes, facts.kept_bytes
    );
    finding(FindingSeverity::Warning, what, "make room before that")
}

fn no_files(facts: &DiskFacts) -> Vec<InstallFinding> {
    if facts.files_max == 0 || facts.free_files >= FREE_FILES_MIN {
        return Vec::new();
    }
    let what = format!("the disk can take {} more files (inodes)", facts.free_files);
    let remedy =
        "remove small files there (`df -i` shows the disk), or make it anew with more inodes";
    finding(FindingSeverity::Fault, what, remedy)
}

fn network(facts: &DiskFacts) -> Vec<InstallFinding> {
    let remedy = "put the workspace on a disk of this machine: the database's log needs memory that processes share, and locks";
    let known = NETWORK.iter().find(|(kind, _)| facts.kind == Some(*kind));
    match known {
        Some((_, name)) => {
            let what = format!("it lies on a network file system ({name})");
            finding(FindingSeverity::Fault, what, remedy)
        }
        None if facts.kind == Some(FUSE) => {
            let what =
                "it lies on a file system of a program (FUSE), which may be one of a network"
                    .to_owned();
            finding(FindingSeverity::Warning, what, remedy)
        }
        None => Vec::new(),
    }
}

fn passing(facts: &DiskFacts) -> Vec<InstallFinding> {
    match facts.kind {
        Some(TMPFS | RAMFS) => {
            let what = "it lies in memory (tmpfs): it is gone with the next start of the machine"
                .to_owned();
            finding(
                FindingSeverity::Warning,
                what,
                "put the workspace on a disk",
            )
        }
        Some(OVERLAY) => {
            let what =
                "it lies in a layer of a container: it is gone with the container".to_owned();
            finding(
                FindingSeverity::Note,
                what,
                "mount a volume for the workspace",
            )
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> DiskFacts {
        DiskFacts {
            free_bytes: 100 << 30,
            kept_bytes: 64 << 20,
            free_files: 5000,
            files_max: 10_000,
            kind: Some(0xef53),
            is_read_only: false,
            unwritable: None,
        }
    }

    /// The only finding of a disk.
    fn only(facts: &DiskFacts) -> Option<(FindingSeverity, String)> {
        let found = ExaminedArea::of(CHECKS, facts).findings;
        assert!(found.len() < 2, "{found:?}");
        found.into_iter().next().map(|one| (one.severity, one.what))
    }

    #[test]
    fn a_disk_is_named_by_its_fault() {
        type Change = fn(&mut DiskFacts);
        let changes: [(Change, FindingSeverity, &str); 10] = [
            (
                |disk| disk.free_bytes = (64 << 20) - 1,
                FindingSeverity::Fault,
                "letters are refused: the disk",
            ),
            (
                |disk| disk.free_bytes = (128 << 20) - 1,
                FindingSeverity::Warning,
                "134217727 bytes are free",
            ),
            (
                |disk| (disk.free_bytes, disk.kept_bytes) = (12 << 10, 0),
                FindingSeverity::Fault,
                "has 12288 bytes free",
            ),
            (
                |disk| (disk.free_bytes, disk.kept_bytes) = ((16 << 20) - 1, 1000),
                FindingSeverity::Fault,
                "when nothing can be written",
            ),
            (
                |disk| (disk.free_bytes, disk.kept_bytes) = (0, 0),
                FindingSeverity::Fault,
                "has 0 bytes free",
            ),
            (
                |disk| disk.unwritable = Some("Read-only file system (os error 30)".to_owned()),
                FindingSeverity::Fault,
                "nothing can be written into it: Read-only",
            ),
            (
                |disk| disk.unwritable = Some("Input/output error (os error 5)".to_owned()),
                FindingSeverity::Fault,
                "Input/output",
            ),
            (
                |disk| disk.free_files = 999,
                FindingSeverity::Fault,
                "inodes",
            ),
            (
                |disk| disk.is_read_only = true,
                FindingSeverity::Fault,
                "read-only",
            ),
            (
                |disk| disk.kind = Some(TMPFS),
                FindingSeverity::Warning,
                "tmpfs",
            ),
        ];
        assert_eq!(only(&good()), None);
        for (change, severity, words) in changes {
            let mut disk = good();
            change(&mut disk);
            let (found, what) = only(&disk).expect(words);
            assert!(found == severity && what.contains(words), "{words}: {what}");
        }
        let no_bound = DiskFacts {
            files_max: 0,
            free_files: 0,
            ..good()
        };
        assert_eq!(only(&no_bound), None, "btrfs makes inodes as it needs them");
        let nothing_kept = DiskFacts {
            free_bytes: 32 << 20,
            kept_bytes: 0,
            ..good()
        };
        assert_eq!(only(&nothing_kept), None, "there is room to write");
        let remounted = DiskFacts {
            is_read_only: true,
            unwritable: Some("Read-only file system".to_owned()),
            ..good()
        };
        assert!(only(&remounted).is_some(), "it is said once");
    }

    #[test]
    fn a_folder_is_written_into_and_nothing_stays_there() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(unwritten(folder.path()), None);
        let left = std::fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 0);
        let gone = unwritten(&folder.path().join("gone"));
        assert!(gone.is_some_and(|why| why.contains("No such file")));
    }

    #[test]
    fn file_systems_of_networks_are_known_by_their_numbers() {
        let kinds = [
            (0x6969, FindingSeverity::Fault, "NFS"),
            (0xff53_4d42, FindingSeverity::Fault, "CIFS"),
            (0xfe53_4d42, FindingSeverity::Fault, "SMB"),
            (0x0102_1997, FindingSeverity::Fault, "9P"),
            (FUSE, FindingSeverity::Warning, "FUSE"),
            (OVERLAY, FindingSeverity::Note, "container"),
        ];
        for (kind, severity, words) in kinds {
            let disk = DiskFacts {
                kind: Some(kind),
                ..good()
            };
            let (found, what) = only(&disk).expect(words);
            assert!(found == severity && what.contains(words), "{words}: {what}");
        }
    }
}
