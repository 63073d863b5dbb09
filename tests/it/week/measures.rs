//! What an engine takes of the machine at the end of a day.

use super::house::House;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Rows of each kind with an age that still have what is thrown away.
const KEPT: [(&str, &str); 9] = [
    (
        "turns",
        "SELECT count(*) FROM run_turns WHERE pruned_at IS NULL",
    ),
    ("texts", "SELECT count(*) FROM contents"),
    (
        "letters",
        "SELECT count(*) FROM raw_letters WHERE pruned_at IS NULL",
    ),
    (
        "attachments",
        "SELECT count(*) FROM attachments WHERE pruned_at IS NULL",
    ),
    (
        "mails",
        "SELECT count(*) FROM deliveries WHERE pruned_at IS NULL",
    ),
    ("decisions", "SELECT count(*) FROM audit_log"),
    ("feed", "SELECT count(*) FROM feed"),
    ("counts", "SELECT count(*) FROM correspondence"),
    ("notices", "SELECT count(*) FROM notices"),
];
const PAGE_SUM: &str = "
    SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size";
/// `USER_HZ` is a hundred on every machine.
const TICK_MS: u64 = 10;
const PAGE_BYTES: u64 = 4096;
/// Bytes of a letter and its answer that no age takes: their texts, the words of the index, run, steps, links, and the room
/// that pruned rows leave in their pages.
const BYTES_FOREVER: u64 = 22 * 1024;

/// Time of the processor that an engine takes from the first of some answers to the last.
#[derive(Default)]
pub struct WorkMeter {
    first: Option<Duration>,
    last: Duration,
    letters: u32,
}

impl WorkMeter {
    pub fn answered(&mut self, pid: u32) {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("its times");
        // Behind the name, which may hold anything.
        let (_, fields) = stat.rsplit_once(") ").expect("fields");
        let ticks = fields.split(' ').skip(11).take(2);
        let ticks: u64 = ticks
            .map(|ticks| ticks.parse::<u64>().expect("a number"))
            .sum();
        self.last = Duration::from_millis(ticks * TICK_MS);
        match self.first {
            None => self.first = Some(self.last),
            Some(_) => self.letters += 1,
        }
    }

    fn for_a_letter(&self) -> Duration {
        let taken = self.last.saturating_sub(self.first.unwrap_or_default());
        taken / self.letters.max(1)
    }
}

/// A number, and how far a later one may be above it: by hundredths, and by so many more.
#[derive(Clone, Copy)]
pub struct Measure {
    pub now: u64,
    pub hundredths_max: u64,
    pub slack: u64,
}

#[derive(Default)]
pub struct Day {
    /// Bytes of the database with its log.
    database: u64,
    /// Bytes of its pages that hold something.
    pages: u64,
    backups: u64,
    backup_bytes: u64,
    newest_backup: u64,
    log_bytes: u64,
    files: u64,
    descriptors: u64,
    resident: u64,
    rows: BTreeMap<&'static str, u64>,
    /// Time from a connection to the answer.
    pub median: Duration,
    /// Time of the processor for a letter.
    pub work: Duration,
}

impl Day {
    pub async fn of(house: &mut House, mut took: Vec<Duration>, work: WorkMeter) -> Self {
        took.sort();
        let mut rows = BTreeMap::new();
        for (name, sql) in KEPT {
            rows.insert(name, house.number(sql).await.unsigned_abs());
        }
        let data = house.folder().join("data");
        let size = |name: &str| std::fs::metadata(data.join(name)).map_or(0, |file| file.len());
        let backups = data.join("backups");
        let process = format!("/proc/{}", house.pid());
        let memory = std::fs::read_to_string(format!("{process}/statm")).expect("its memory");
        let resident = memory.split(' ').nth(1).expect("a number");
        Self {
            database: size("attache.db") + size("attache.db-wal"),
            pages: house.number(PAGE_SUM).await.unsigned_abs(),
            backups: entries(&backups),
            backup_bytes: below(&backups).1,
            newest_backup: below(Path::new(&house.newest_backup())).1,
            log_bytes: size("audit.log") + house.log_bytes(),
            files: below(house.folder()).0 - below(&backups).0,
            descriptors: entries(Path::new(&process).join("fd").as_path()),
            resident: resident.parse::<u64>().expect("a number") * PAGE_BYTES,
            rows,
            work: work.for_a_letter(),
            median: took.get(took.len() / 2).copied().unwrap_or_default(),
        }
    }

    /// Each with how far it may grow while so many letters come in.
    pub fn all(&self, letters: u64) -> BTreeMap<&'static str, Measure> {
        let measure = |now, hundredths_max, slack| Measure {
            now,
            hundredths_max,
            slack,
        };
        let (kib, forever) = (1024, letters * BYTES_FOREVER);
        let mut all: BTreeMap<_, _> = [
            // With its log, which has no length of its own.
            (
                "database",
                measure(self.database, 120, forever + 4096 * kib),
            ),
            ("pages", measure(self.pages, 105, forever)),
            ("backups", measure(self.backups, 100, 0)),
            ("newest_backup", measure(self.newest_backup, 110, forever)),
            ("log_bytes", measure(self.log_bytes, 130, 8 * kib)),
            ("files", measure(self.files, 100, 2)),
            ("descriptors", measure(self.descriptors, 100, 8)),
            ("resident", measure(self.resident, 115, 4096 * kib)),
        ]
        .into();
        let rows = self.rows.iter();
        all.extend(rows.map(|(name, rows)| (*name, measure(*rows, 115, 2))));
        all
    }

    pub fn print(&self) {
        let kib = |bytes: u64| bytes / 1024;
        println!(
            "database {} KiB, {} KiB of it in use; {} backups, {} KiB; logs {} KiB; {} files, {} descriptors, {} KiB resident; median {:?}, of the processor {:?}; \
             rows {:?}",
            kib(self.database),
            kib(self.pages),
            self.backups,
            kib(self.backup_bytes),
            kib(self.log_bytes),
            self.files,
            self.descriptors,
            kib(self.resident),
            self.median,
            self.work,
            self.rows
        );
    }
}

fn entries(folder: &Path) -> u64 {
    std::fs::read_dir(folder).map_or(0, |found| found.count() as u64)
}

/// Number and bytes of the files below a folder.
fn below(folder: &Path) -> (u64, u64) {
    let mut sum = (0, 0);
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        // What the engine removes meanwhile is not there.
        let Ok(found) = entry.metadata() else {
            continue;
        };
        let (files, bytes) = match found.is_dir() {
            true => below(&entry.path()),
            false => (1, found.len()),
        };
        sum = (sum.0 + files, sum.1 + bytes);
    }
    sum
}
