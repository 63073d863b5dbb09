//! A file that only takes room on the disk of the database, and is given up when the disk is full: an engine can start then, and
//! `attache gc` can delete, which both write before they free anything.

use super::files::free_disk_bytes;
use std::fs;
use std::io;
use std::path::Path;

/// Below `data`.
static FILE: &str = "spare";
/// Its length: several times what a start and a pruning write at once.
const SPARE_BYTES: usize = 4 * 1024 * 1024;
/// Room that must be there for it to be made.
const FREE_BYTES_MIN: u64 = 64 * 1024 * 1024;
/// Room with which it is given up.
const FULL_BYTES: u64 = 1024 * 1024;

/// Makes the file, unless it is there or the disk has little room.
pub fn keep_spare_room(workspace: &Path) -> io::Result<()> {
    let data = workspace.join("data");
    let path = data.join(FILE);
    if path.exists() || free_disk_bytes(&data)? < FREE_BYTES_MIN {
        return Ok(());
    }
    // Not a byte less: a file with holes takes no room.
    fs::write(path, vec![b'\n'; SPARE_BYTES])
}

/// Removes the file where the disk is full; `true`: there is room now that was not there.
pub fn give_up_spare_room(workspace: &Path) -> bool {
    let data = workspace.join("data");
    let is_full = free_disk_bytes(&data).is_ok_and(|free| free < FULL_BYTES);
    is_full && fs::remove_file(data.join(FILE)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_is_taken_once_and_given_up_on_a_full_disk_only() {
        let workspace = tempfile::tempdir().expect("a folder");
        let data = workspace.path().join("data");
        assert!(
            keep_spare_room(workspace.path()).is_err(),
            "without `data` there is no workspace"
        );
        fs::create_dir(&data).expect("a folder");
        keep_spare_room(workspace.path()).expect("room");
        let made = fs::metadata(data.join(FILE)).expect("a file");
        assert_eq!(made.len(), SPARE_BYTES as u64);
        keep_spare_room(workspace.path()).expect("as before");
        assert_eq!(
            fs::metadata(data.join(FILE))
                .expect("a file")
                .modified()
                .expect("a time"),
            made.modified().expect("a time")
        );
        assert!(!give_up_spare_room(workspace.path()) && data.join(FILE).exists());
    }
}
