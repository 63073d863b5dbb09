//! Installations that are broken below `data`: the database, modes, owners, locks.

use super::Case;
use super::house::{House, Made, NOBODY, kept};
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::process::Command;

const DATABASE: &str = "data/attache.db";

pub static CASES: &[Case] = &[
    Case::note(
        "no database yet",
        "database",
        &["data/attache.db", "there is no database yet"],
        "attache serve",
        |house| house.remove("data"),
    ),
    Case::fault(
        "a database that is gone",
        "database",
        &["the database is missing", "engine.lock"],
        "from a backup",
        |house| house.remove(DATABASE),
    ),
    Case::fault(
        "a log without its database",
        "database",
        &["the database is missing", "attache.db-wal"],
        "from a backup",
        |house| {
            house.remove(DATABASE);
            house.write("data/attache.db-wal", "pages\n")
        },
    ),
    Case::fault(
        "a restore that did not end",
        "database",
        &[
            "a restore into this workspace was interrupted",
            ".attache.db.restoring",
        ],
        "restore again",
        |house| {
            house.remove(DATABASE);
            house.write("data/.attache.db.restoring", "")
        },
    ),
    Case::fault(
        "a database without a byte",
        "database",
        &["data/attache.db", "is empty"],
        "remove the empty file and restore a backup",
        |house| {
            house.remove("data");
            house.write(DATABASE, "")
        },
    ),
    Case::fault(
        "the log of another database",
        "database",
        &["does not belong to the database"],
        "`-wal` and `-shm` away",
        |house| {
            house.run(&["backup", "copy.db"]);
            std::fs::rename(house.path().join("copy.db"), house.path().join(DATABASE))
                .expect("renamed");
            house.write("data/attache.db-wal", "pages\n")
        },
    ),
    Case::fault(
        "a database of a newer program",
        "database",
        &["newer attache", "9999"],
        "put a copy from before",
        |house| {
            house.sql("INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (9999, 'x', 1, x'00', 1)")
        },
    ),
    Case::warning(
        "a database of an older program",
        "database",
        &["older attache"],
        "start the engine once",
        |house| {
            house.sql("DELETE FROM _sqlx_migrations WHERE version = (SELECT max(version) FROM _sqlx_migrations)")
        },
    ),
    Case::warning(
        "an erasure that was interrupted",
        "database",
        &["an erasure of a person was interrupted"],
        "attache erase --resume",
        |house| {
            house.sql("INSERT INTO erasures (id, contact_sha256, addresses_json, with_quotes, state, started_by, started_at)
                VALUES ('x', 'x', '[]', 0, 'begun', 'olga', '2026-11-20T09:00:00.000Z')")
        },
    ),
    Case::fault(
        "a database that is none",
        "database",
        &["the database is damaged"],
        "restore the newest good backup",
        |house| {
            let file = OpenOptions::new()
                .write(true)
                .open(house.path().join(DATABASE));
            let mut file = file.expect("a database");
            file.seek(SeekFrom::Start(0)).expect("its begin");
            file.write_all(&[7; 100]).expect("written");
            kept(file)
        },
    ),
    Case::fault(
        "a journal of another program",
        "database",
        &["data/attache.db-journal", "a rollback journal"],
        "move the journal away",
        |house| house.write("data/attache.db-journal", "pages\n"),
    ),
    Case::fault(
        "a file in the place of data",
        "database",
        &["cannot use `data`"],
        "move the file away",
        |house| {
            house.remove("data");
            house.write("data", "")
        },
    ),
    Case::warning(
        "a database that others may read",
        "modes",
        &["data/attache.db", "mode 0644"],
        "doctor --fix",
        |house| {
            house.chmod("data", 0o755);
            house.chmod(DATABASE, 0o644)
        },
    ),
    Case::warning(
        "mails that others may read",
        "modes",
        &["data/outbox/", "1 file of `data`"],
        "doctor --fix",
        open_mail,
    ),
    Case::warning(
        "tokens that others may read",
        "modes",
        &["data/tokens/house", "mode 0640"],
        "doctor --fix",
        |house| {
            house.write("data/tokens/house", "token\n");
            house.chmod("data", 0o750);
            house.chmod("data/tokens", 0o750);
            house.chmod("data/tokens/house", 0o640)
        },
    ),
    Case::warning(
        "a folder in which others may write",
        "modes",
        &["write into", "`data` (mode 0777)"],
        "doctor --fix",
        |house| house.chmod("data", 0o777),
    ),
    Case::warning(
        "memory that others may read",
        "modes",
        &["personas/porter/active.md", "mode 0604"],
        "doctor --fix",
        |house| {
            house.chmod("personas", 0o711);
            house.chmod("personas/porter", 0o711);
            house.chmod("personas/porter/active.md", 0o604)
        },
    ),
    Case::fault(
        "a file of another user",
        "modes",
        &["1 file of `data` belong", "65534"],
        "chown -R",
        |house| house.chown("data/engine.lock", NOBODY),
    ),
    Case::fault(
        "an engine that is stopped",
        "engine",
        &["holds this workspace and is stopped"],
        "kill -CONT",
        |house| {
            let engine = house.serve();
            let stopped = Command::new("kill")
                .args(["-STOP", &engine.0.id().to_string()])
                .status();
            assert!(stopped.expect("kill runs").success());
            until_stopped(engine.0.id());
            kept(engine)
        },
    ),
    Case::warning(
        "an engine of another version",
        "engine",
        &["is attache 0.0.9"],
        "start the engine anew",
        |house| {
            house.write(
                "data/engine.lock",
                &format!("{}\nopened\nattache 0.0.9\n", std::process::id()),
            );
            kept(locked(house, "data/engine.lock"))
        },
    ),
    Case::warning(
        "half a take-over",
        "engine",
        &["data/engine.lock.new", "take-over"],
        "rm data/engine.lock.new",
        |house| house.write("data/engine.lock.new", "1\n"),
    ),
    Case::warning(
        "a process that opens the database for ever",
        "engine",
        &["process 4711 is opening the database"],
        "kill 4711",
        |house| {
            house.write("data/opening.lock", "4711\n");
            kept(locked(house, "data/opening.lock"))
        },
    ),
];

fn locked(house: &House, path: &str) -> File {
    let file = File::open(house.path().join(path)).expect("a lock");
    file.lock().expect("held by us");
    file
}

fn open_mail(house: &House) -> Made {
    let outbox = house.path().join("data/outbox");
    let mut mails = std::fs::read_dir(&outbox).expect("an outbox").flatten();
    let name = mails.next().expect("a mail").file_name();
    house.chmod("data", 0o711);
    house.chmod("data/outbox", 0o755);
    house.chmod(&format!("data/outbox/{}", name.to_string_lossy()), 0o644)
}

/// Looks until the kernel has stopped every thread.
fn until_stopped(pid: u32) {
    let is_stopped = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| rest.trim_start().starts_with('T'))
    };
    assert!((0..10_000).any(|_| is_stopped()), "it does not stop");
}
