//! Copies of the other program's databases. SQLite makes files beside a database that it reads, so it is given a copy; and a
//! copy of one that is being written is no database, so one that a program has open is refused.

use super::personas::SourcePersona;
use super::source::{SourceEntry, SourceFolder, below};
use crate::cli::{Exit, Failure};
use crate::config::environment;
use crate::store::sqlite::files::begins_as_database;
use cap_std::fs::File;
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, Pid, fcntl_getlk, getuid, test_kill_process};
use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// Begin of the name of a folder of copies; the process and a number follow.
const COPY_FOLDER: &str = "attache-migrate-";
const ENDINGS: [&str; 3] = [".db", ".sqlite", ".sqlite3"];
/// Files of SQLite beside a database that hold pages of it.
const BESIDE: [&str; 3] = ["", "-wal", "-journal"];
/// Most bytes of one of these files.
const FILE_BYTES_MAX: u64 = 32 * 1024 * 1024 * 1024;
/// Folders inside each other that are looked through.
const DEPTH_MAX: usize = 2;

/// A copy, removed when it is dropped.
pub struct DatabaseCopy {
    /// Path of the original below its folder.
    pub place: String,
    folder: PathBuf,
}

impl DatabaseCopy {
    pub fn file(&self) -> PathBuf {
        self.folder.join("copy.db")
    }
}

impl Drop for DatabaseCopy {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            tracing::warn!(%error, folder = %self.folder.display(), "a copy of a database was not removed");
        }
    }
}

fn temporary() -> PathBuf {
    environment("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
}

/// Removes the copies that migrations left when they were killed: they hold mail.
pub fn remove_left_copies() {
    for entry in std::fs::read_dir(temporary())
        .into_iter()
        .flatten()
        .flatten()
    {
        let name = entry.file_name();
        let process = name.to_str().and_then(process_of);
        let is_ours = || {
            let found = entry.path().symlink_metadata();
            found.is_ok_and(|found| found.is_dir() && found.uid() == getuid().as_raw())
        };
        if process.is_some_and(is_dead) && is_ours() {
            let folder = entry.path();
            if let Err(error) = std::fs::remove_dir_all(&folder) {
                tracing::warn!(%error, folder = %folder.display(), "a copy of a database that was left was not removed");
            }
        }
    }
}

/// The process whose folder of copies has this name.
fn process_of(folder: &str) -> Option<Pid> {
    let (process, number) = folder.strip_prefix(COPY_FOLDER)?.split_once('-')?;
    number.parse::<u32>().ok()?;
    Pid::from_raw(process.parse().ok()?)
}

fn is_dead(process: Pid) -> bool {
    test_kill_process(process) == Err(Errno::SRCH)
}

/// Finds the databases of a persona: files of that kind in its folders.
pub fn of_persona(source: &SourceFolder, persona: &SourcePersona) -> Vec<String> {
    let mut found = Vec::new();
    for above in ["memory", "personas", "data", "db"] {
        search(source, &below(above, &persona.folder), 0, &mut found);
    }
    found
}

/// Finds databases that lie in no persona's folder.
pub fn of_nobody(source: &SourceFolder) -> Vec<String> {
    let mut found = Vec::new();
    for folder in ["", "memory", "data", "db"] {
        search(source, folder, DEPTH_MAX, &mut found);
    }
    found
}

/// Finds the databases in folders that have the name of no persona that comes over.
pub fn of_others(source: &SourceFolder, personas: &[SourcePersona]) -> Vec<String> {
    let mut found = Vec::new();
    for above in ["memory", "personas", "data", "db"] {
        let is_other = |entry: &SourceEntry| {
            entry.is_folder && !personas.iter().any(|persona| persona.folder == entry.name)
        };
        for entry in source.entries(above).into_iter().filter(is_other) {
            search(source, &below(above, &entry.name), 0, &mut found);
        }
    }
    found
}

fn search(source: &SourceFolder, folder: &str, depth: usize, found: &mut Vec<String>) {
    for entry in source.entries(folder) {
        let path = below(folder, &entry.name);
        if entry.is_folder && depth < DEPTH_MAX {
            search(source, &path, depth + 1, found);
        } else if ENDINGS.iter().any(|ending| entry.name.ends_with(ending)) {
            found.push(path);
        }
    }
}

/// Copies a database. `Ok(Err(what))`: it cannot be read. Errors: a program has it open, or the copy cannot be written.
pub fn copy(source: &SourceFolder, place: &str) -> Result<Result<DatabaseCopy, String>, Failure> {
    match is_database(source, place) {
        Ok(true) => {}
        Ok(false) => return Ok(Err("is no database of SQLite".to_owned())),
        Err(what) => return Ok(Err(what)),
    }
    let before = states(source, place);
    if before.iter().any(|state| state.is_open) {
        return Err(in_use(source, place));
    }
    static COPIES: AtomicU32 = AtomicU32::new(0);
    let number = COPIES.fetch_add(1, Ordering::Relaxed);
    let folder = temporary().join(format!("{COPY_FOLDER}{}-{number}", std::process::id()));
    let cannot = |source: io::Error| {
        Failure::new(Exit::CannotCreate, "a copy of a database cannot be written").because(source)
    };
    DirBuilder::new()
        .mode(0o700)
        .create(&folder)
        .map_err(cannot)?;
    let copy = DatabaseCopy {
        place: place.to_owned(),
        folder,
    };
    for end in BESIDE {
        let opened = match source.open_file(&format!("{place}{end}")) {
            Ok(opened) => opened,
            Err(what) => return Ok(Err(format!("the file `{place}{end}` {what}"))),
        };
        let Some((mut file, bytes)) = opened else {
            continue;
        };
        if bytes > FILE_BYTES_MAX {
            return Ok(Err(format!(
                "has {bytes} bytes; at most {FILE_BYTES_MAX} are read"
            )));
        }
        let to = copy.folder.join(format!("copy.db{end}"));
        let to = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(to);
        io::copy(&mut file, &mut to.map_err(cannot)?).map_err(cannot)?;
    }
    // What changed while it was copied is no copy.
    match states(source, place) == before {
        true => Ok(Ok(copy)),
        false => Err(in_use(source, place)),
    }
}

fn in_use(source: &SourceFolder, place: &str) -> Failure {
    let message = format!(
        "`{}` is in use by another program",
        source.path.join(place).display()
    );
    Failure::new(Exit::TryAgain, message)
        .hint("stop Protege, and say the command again; nothing was written")
}

fn is_database(source: &SourceFolder, place: &str) -> Result<bool, String> {
    let Some((file, _)) = source.open_file(place)? else {
        return Ok(false);
    };
    begins_as_database(file).map_err(|error| format!("cannot be read: {error}"))
}

/// What tells whether a file is at rest.
#[derive(PartialEq, Eq)]
struct RestState {
    bytes: u64,
    changed: Option<std::time::SystemTime>,
    is_open: bool,
}

fn states(source: &SourceFolder, place: &str) -> Vec<RestState> {
    let of = |end: &&str| {
        let (file, bytes) = source.open_file(&format!("{place}{end}")).ok()??;
        let changed = file.metadata().ok().and_then(|found| found.modified().ok());
        Some(RestState {
            bytes,
            changed: changed.map(cap_std::time::SystemTime::into_std),
            is_open: is_locked(&file),
        })
    };
    BESIDE.iter().filter_map(of).collect()
}

/// Reports whether another process has a lock on the file, as every connection to a database with a log has.
fn is_locked(file: &File) -> bool {
    let whole = Flock::from(FlockType::WriteLock);
    matches!(fcntl_getlk(file, &whole), Ok(Some(_)))
}
