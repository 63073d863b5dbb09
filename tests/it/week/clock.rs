//! The wall clock of one process, set by libfaketime as a test wants it; intervals stay those of the machine.

use chrono::{DateTime, Days, NaiveTime, Utc};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A clock that stands behind a file.
pub struct SetClock {
    library: PathBuf,
    file: PathBuf,
    /// Midnight of the first day.
    begin: DateTime<Utc>,
}

impl SetClock {
    /// One whose file is in the folder; `None`, said on the way: libfaketime is not installed.
    pub fn beside(folder: &Path) -> Option<Self> {
        let architectures = std::fs::read_dir("/usr/lib")
            .into_iter()
            .flatten()
            .flatten();
        let mut libraries = architectures.map(|at| at.path().join("faketime/libfaketimeMT.so.1"));
        let Some(library) = libraries.find(|library| library.exists()) else {
            println!("SKIPPED: libfaketime is not installed");
            return None;
        };
        let tomorrow = Utc::now().date_naive() + Days::new(1);
        Some(Self {
            library,
            file: folder.join("clock"),
            begin: tomorrow.and_time(NaiveTime::MIN).and_utc(),
        })
    }

    /// A minute of a day, counted from 0.
    fn at(&self, day: usize, minute: usize) -> DateTime<Utc> {
        let minutes = i64::try_from(day * 24 * 60 + minute).expect("a number");
        self.begin + chrono::Duration::minutes(minutes)
    }

    /// The same in the words of the database.
    pub fn instant(&self, day: usize, minute: usize) -> String {
        self.at(day, minute)
            .format("%Y-%m-%dT%H:%M:%S.000Z")
            .to_string()
    }

    /// Sets it to a minute of a day.
    pub fn set(&self, day: usize, minute: usize) {
        let wanted = self.at(day, minute);
        let ahead = (wanted - Utc::now()).num_seconds();
        // Replaced at once: a process reads it whenever it asks for the time.
        let next = self.file.with_extension("next");
        std::fs::write(&next, format!("+{ahead}\n")).expect("written");
        std::fs::rename(&next, &self.file).expect("renamed");
    }

    /// Removes what libfaketime leaves of a process that was killed.
    pub fn forget(pid: u32) {
        for name in ["faketime_shm_", "sem.faketime_sem_"] {
            let _removed_at_its_end = std::fs::remove_file(format!("/dev/shm/{name}{pid}"));
        }
    }

    /// Lets a program live by it.
    pub fn govern(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", &self.library)
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("FAKETIME_DONT_RESET", "1")
            // A file is not changed because the clock is set on.
            .env("NO_FAKE_STAT", "1");
    }
}
