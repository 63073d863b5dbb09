//! The watched folder: which files are letters, for whom they are, and where they end.

use crate::recording_intake::RecordingDoor;
use attache::config::WatchedFolder;
use attache::domain::{Address, Via};
use attache::gateway::ingress::folder::{FolderWatch, SweepReport, envelope_for_file, watch};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

const LETTER_BYTES_MAX: usize = 2000;
const LETTER: &str = "From: Bob <bob@client.example>\nTo: ada@engine.test\nSubject: hi\n\nhello\n";

struct Fixture {
    folder: TempDir,
    intake: Arc<RecordingDoor>,
    watch: FolderWatch,
}

impl Fixture {
    fn new() -> Self {
        let (folder, intake) = (TempDir::new().unwrap(), Arc::new(RecordingDoor::new()));
        let watch = FolderWatch::new(
            watched(folder.path()),
            None,
            intake.clone(),
            LETTER_BYTES_MAX,
        );
        Self {
            folder,
            intake,
            watch,
        }
    }

    fn put(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    /// Sweeps twice: a file is taken when it has not changed since the last look.
    async fn settle(&mut self) -> SweepReport {
        self.watch.sweep().await.unwrap();
        self.watch.sweep().await.unwrap()
    }

    /// Paths below the folder, sorted, folders left out.
    fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        for folder in ["", "processed", "rejected"] {
            let entries = std::fs::read_dir(self.folder.path().join(folder)).unwrap();
            for entry in entries
                .map(|entry| entry.unwrap())
                .filter(|e| e.file_type().unwrap().is_file())
            {
                let name = entry.file_name().into_string().unwrap();
                found.push(if folder.is_empty() {
                    name
                } else {
                    format!("{folder}/{name}")
                });
            }
        }
        found.sort();
        found
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    fn refuse(&self, word: &str) {
        word.clone_into(&mut self.intake.refuses.lock().unwrap());
    }
}

fn watched(path: &Path) -> WatchedFolder {
    WatchedFolder {
        path: path.to_owned(),
        fallback: None,
        poll: Duration::from_millis(1),
    }
}

fn address(text: &str) -> Address {
    Address::parse(text).unwrap()
}

#[tokio::test]
async fn a_file_becomes_a_letter_with_crlf_and_moves_to_processed() {
    let mut fixture = Fixture::new();
    fixture.put("hi.eml", LETTER);
    assert_eq!(
        fixture.settle().await,
        SweepReport {
            stored: 1,
            ..SweepReport::default()
        }
    );
    let letters = std::mem::take(&mut *fixture.intake.letters.lock().unwrap());
    assert_eq!(letters[0].bytes, LETTER.replace('\n', "\r\n").as_bytes());
    assert_eq!(
        letters[0].envelope.mail_from,
        Some(address("bob@client.example"))
    );
    assert_eq!(letters[0].envelope.rcpt_to, [address("ada@engine.test")]);
    assert_eq!(
        (letters[0].envelope.via, letters[0].envelope.peer),
        (Via::Folder, None)
    );
    assert_eq!(fixture.files(), ["processed/hi.eml"]);
    assert_eq!(
        fixture.text("processed/hi.eml"),
        LETTER,
        "the file itself is not rewritten"
    );
    assert_eq!(fixture.intake.confirmed.load(SeqCst), 1);
}

#[tokio::test]
async fn dos_line_ends_stay_as_they_are_and_mixed_ones_become_crlf() {
    let mut fixture = Fixture::new();
    fixture.put("dos.eml", LETTER.replace('\n', "\r\n"));
    fixture.put("mixed.eml", LETTER.replacen('\n', "\r\n", 2));
    fixture.settle().await;
    let letters = fixture.intake.letters.lock().unwrap();
    assert_eq!(letters[0].bytes, LETTER.replace('\n', "\r\n").as_bytes());
    assert_eq!(letters[0].bytes, letters[1].bytes);
}

#[tokio::test]
async fn a_file_that_still_grows_waits_until_it_does_not() {
    let mut fixture = Fixture::new();
    fixture.put("slow.eml", &LETTER[..40]);
    assert_eq!(fixture.watch.sweep().await.unwrap().waiting, 1);
    fixture.put("slow.eml", LETTER);
    assert_eq!(fixture.watch.sweep().await.unwrap().waiting, 1);
    assert_eq!(fixture.intake.stored(), 0);
    assert_eq!(fixture.watch.sweep().await.unwrap().stored, 1);
    assert_eq!(
        fixture.intake.letters.lock().unwrap()[0].bytes.len(),
        LETTER.replace('\n', "\r\n").len()
    );
}

#[tokio::test]
async fn temporary_hidden_and_foreign_files_and_links_are_left_alone() {
    let mut fixture = Fixture::new();
    for name in [".hidden.eml", "a.eml.tmp", "b.tmp", "notes.txt", "eml"] {
        fixture.put(name, LETTER);
    }
    std::fs::create_dir(fixture.folder.path().join("folder.eml")).unwrap();
    std::os::unix::fs::symlink("notes.txt", fixture.folder.path().join("link.eml")).unwrap();
    assert_eq!(fixture.settle().await, SweepReport::default());
    assert_eq!(
        fixture.files(),
        [".hidden.eml", "a.eml.tmp", "b.tmp", "eml", "notes.txt"]
    );
    fixture.put("UPPER.EML", LETTER);
    assert_eq!(fixture.settle().await.stored, 1);
}

#[tokio::test]
async fn files_are_taken_in_name_order_and_never_overwrite_each_other() {
    let mut fixture = Fixture::new();
    for (name, subject) in [("2.eml", "second"), ("1.eml", "first")] {
        fixture.put(name, LETTER.replace("hi", subject));
    }
    fixture.settle().await;
    fixture.put("1.eml", LETTER.replace("hi", "third"));
    fixture.settle().await;
    let letters = std::mem::take(&mut *fixture.intake.letters.lock().unwrap());
    let subjects: Vec<_> = letters
        .iter()
        .map(|l| String::from_utf8_lossy(&l.bytes[52..]).into_owned())
        .collect();
    for (text, subject) in subjects.iter().zip(["first", "second", "third"]) {
        assert!(text.contains(subject), "{subjects:?}");
    }
    assert_eq!(
        fixture.files(),
        ["processed/1-1.eml", "processed/1.eml", "processed/2.eml"]
    );
    assert!(fixture.text("processed/1.eml").contains("first"));
}

#[tokio::test]
async fn refused_letters_move_to_rejected_with_the_reason_beside_them() {
    let mut fixture = Fixture::new();
    fixture.put("nobody.eml", LETTER.replace("ada@", "nobody@"));
    fixture.put(
        "large.eml",
        [LETTER, &"x".repeat(LETTER_BYTES_MAX)].concat(),
    );
    // Within the limit as a file, over it once every line has its CR.
    fixture.put(
        "many.eml",
        [LETTER, &"\n".repeat(LETTER_BYTES_MAX - LETTER.len())].concat(),
    );
    assert_eq!(fixture.settle().await.rejected, 3);
    fixture.refuse("hostile");
    fixture.put("nobody.eml", LETTER);
    assert_eq!(fixture.settle().await.rejected, 1);
    assert_eq!(
        fixture.files(),
        [
            "rejected/large.eml",
            "rejected/large.eml.reason.txt",
            "rejected/many.eml",
            "rejected/many.eml.reason.txt",
            "rejected/nobody-1.eml",
            "rejected/nobody-1.eml.reason.txt",
            "rejected/nobody.eml",
            "rejected/nobody.eml.reason.txt",
        ]
    );
    assert_eq!(
        fixture.text("rejected/nobody.eml.reason.txt"),
        "no persona is addressed\n"
    );
    assert_eq!(
        fixture.text("rejected/large.eml.reason.txt"),
        "larger than 2000 bytes\n"
    );
    assert_eq!(
        fixture.text("rejected/many.eml.reason.txt"),
        "larger than 2000 bytes\n"
    );
    assert_eq!(
        fixture.text("rejected/nobody-1.eml.reason.txt"),
        "secret detail\n"
    );
    assert_eq!(
        (
            fixture.intake.stored(),
            fixture.intake.confirmed.load(SeqCst)
        ),
        (0, 0)
    );
}

#[tokio::test]
async fn what_cannot_be_stored_now_stays_and_is_stored_later() {
    let mut fixture = Fixture::new();
    fixture.put("hi.eml", LETTER);
    fixture.refuse("not-stored");
    assert_eq!(
        fixture.settle().await,
        SweepReport {
            deferred: 1,
            ..SweepReport::default()
        }
    );
    assert_eq!(fixture.files(), ["hi.eml"]);
    fixture.refuse("");
    fixture.intake.room.store(false, SeqCst);
    assert_eq!(fixture.watch.sweep().await.unwrap().deferred, 1);
    fixture.intake.room.store(true, SeqCst);
    assert_eq!(fixture.watch.sweep().await.unwrap().stored, 1);
    assert_eq!(fixture.files(), ["processed/hi.eml"]);
}

#[tokio::test]
async fn a_crash_between_commit_and_move_stores_nothing_twice() {
    let mut fixture = Fixture::new();
    fixture.put("hi.eml", LETTER);
    fixture.settle().await;
    let processed = fixture.folder.path().join("processed/hi.eml");
    std::fs::rename(processed, fixture.folder.path().join("hi.eml")).unwrap();
    let mut restarted = FolderWatch::new(
        watched(fixture.folder.path()),
        None,
        fixture.intake.clone(),
        LETTER_BYTES_MAX,
    );
    restarted.sweep().await.unwrap();
    let report = restarted.sweep().await.unwrap();
    assert_eq!(
        report,
        SweepReport {
            duplicates: 1,
            ..SweepReport::default()
        }
    );
    assert_eq!(fixture.files(), ["processed/hi.eml"]);
}

#[tokio::test]
async fn a_letter_is_not_confirmed_until_its_file_is_moved() {
    let mut fixture = Fixture::new();
    fixture.put("hi.eml", LETTER);
    fixture.watch.sweep().await.unwrap();
    let processed = fixture.folder.path().join("processed");
    *fixture.intake.meanwhile.lock().unwrap() =
        Some(Box::new(move || std::fs::remove_dir(processed).unwrap()));
    assert_eq!(
        fixture.watch.sweep().await.unwrap(),
        SweepReport {
            deferred: 1,
            ..SweepReport::default()
        }
    );
    assert_eq!(
        (
            fixture.intake.stored(),
            fixture.intake.confirmed.load(SeqCst)
        ),
        (1, 0)
    );
    assert_eq!(
        fixture.watch.sweep().await.unwrap(),
        SweepReport {
            duplicates: 1,
            ..SweepReport::default()
        }
    );
    assert_eq!(
        (fixture.files(), fixture.intake.confirmed.load(SeqCst)),
        (vec!["processed/hi.eml".to_owned()], 1)
    );
}

#[tokio::test]
async fn a_folder_that_cannot_be_prepared_takes_nothing_until_it_can() {
    let mut fixture = Fixture::new();
    fixture.put("hi.eml", LETTER);
    fixture.watch.sweep().await.unwrap();
    let processed = fixture.folder.path().join("processed");
    std::fs::remove_dir(&processed).unwrap();
    std::fs::write(&processed, "").unwrap();
    assert!(fixture.watch.sweep().await.is_err());
    assert_eq!(fixture.intake.stored(), 0);
    std::fs::remove_file(&processed).unwrap();
    assert_eq!(fixture.watch.sweep().await.unwrap().stored, 1);
}

#[tokio::test]
async fn the_longest_file_names_are_put_away_too() {
    let mut fixture = Fixture::new();
    let long = |c: &str| format!("{}.eml", c.repeat(250 / c.len()));
    fixture.put(&long("x"), LETTER);
    fixture.put(&long("ä"), LETTER.replace("ada@", "nobody@"));
    let report = fixture.settle().await;
    assert_eq!(
        report,
        SweepReport {
            stored: 1,
            rejected: 1,
            ..SweepReport::default()
        }
    );
    fixture.put(&long("x"), LETTER);
    assert_eq!(fixture.settle().await.duplicates, 1);
    let moved = fixture.files();
    assert_eq!(moved.len(), 4, "{moved:?}");
    assert!(
        moved
            .iter()
            .all(|name| name.contains(".eml") && name.contains('/')),
        "{moved:?}"
    );
}

#[tokio::test]
async fn the_watch_takes_what_is_left_in_the_folder_until_stopped() {
    let fixture = Fixture::new();
    let stop = CancellationToken::new();
    let task = tokio::spawn(watch(fixture.watch, stop.clone()));
    std::fs::write(fixture.folder.path().join("hi.eml"), LETTER).unwrap();
    let moved = fixture.folder.path().join("processed/hi.eml");
    while !moved.exists() {
        crate::app::glance().await;
    }
    stop.cancel();
    task.await.unwrap();
    assert_eq!(fixture.intake.stored(), 1);
}

#[test]
fn the_envelope_is_read_off_the_header_by_its_best_witness() {
    let intake = RecordingDoor::new();
    let fallback = address("bob@engine.test");
    #[rustfmt::skip]
    let cases: [(&str, Option<&str>, &[&str]); 16] = [
        ("From: a@b.test\nTo: ada@engine.test", Some("a@b.test"), &["ada@engine.test"]),
        (
            "From: a@b.test\nTo: x@b.test\nCc: y@b.test, ADA+t@engine.test",
            Some("a@b.test"),
            &["ADA+t@engine.test"],
        ),
        (
            "From: a@b.test\nTo: ada@engine.test, Bob <bob@engine.test>, Ada@engine.test",
            Some("a@b.test"),
            &["ada@engine.test", "bob@engine.test"],
        ),
        // Whom it was delivered to counts, not whom it mentions.
        (
            "Delivered-To: ada@engine.test\nFrom: a@b.test\nTo: bob@engine.test",
            Some("a@b.test"),
            &["ada@engine.test"],
        ),
        (
            "X-Original-To: ada@engine.test\nFrom: a@b.test\nTo: bob@engine.test",
            Some("a@b.test"),
            &["ada@engine.test"],
        ),
        (
            "Delivered-To: me@other.test\nFrom: a@b.test\nTo: bob@engine.test",
            Some("a@b.test"),
            &["bob@engine.test"],
        ),
        ("From: a@b.test\nTo: team: ada@engine.test, c@d.test;", Some("a@b.test"), &["ada@engine.test"]),
        ("From: a@b.test\nTo: undisclosed-recipients:;", Some("a@b.test"), &["bob@engine.test"]),
        (
            "Return-Path: <bounce-7@list.test>\nFrom: a@b.test\nTo: ada@engine.test",
            Some("bounce-7@list.test"),
            &["ada@engine.test"],
        ),
        ("Return-Path: <>\nFrom: a@b.test\nTo: ada@engine.test", None, &["ada@engine.test"]),
        ("From: a@b.test, c@d.test\nTo: ada@engine.test", None, &["ada@engine.test"]),
        // A server leaves the tag out of the mailbox that it names.
        (
            "Delivered-To: ada@engine.test\nFrom: a@b.test\nTo: Ada <ada+a.token@engine.test>",
            Some("a@b.test"),
            &["ada+a.token@engine.test"],
        ),
        (
            "Delivered-To: ada@engine.test\nFrom: a@b.test\nTo: bob@engine.test\nCc: ADA+x@Engine.test",
            Some("a@b.test"),
            &["ADA+x@engine.test"],
        ),
        (
            "Delivered-To: ada@engine.test\nFrom: a@b.test\nTo: bob+x@engine.test, ada+x@b.test",
            Some("a@b.test"),
            &["ada@engine.test"],
        ),
        (
            "Delivered-To: ada+y@engine.test\nFrom: a@b.test\nTo: ada+x@engine.test",
            Some("a@b.test"),
            &["ada+y@engine.test"],
        ),
        ("Subject: no address at all", None, &["bob@engine.test"]),
    ];
    for (header, mail_from, rcpt_to) in cases {
        let letter = format!(
            "{}\r\n\r\nTo: body@engine.test\r\n",
            header.replace('\n', "\r\n")
        );
        let envelope =
            envelope_for_file(letter.as_bytes(), &intake, Some(&fallback), Via::File).unwrap();
        assert_eq!(
            envelope.mail_from.map(|a| a.to_string()).as_deref(),
            mail_from,
            "{header}"
        );
        let recipients: Vec<String> = envelope.rcpt_to.iter().map(Address::to_string).collect();
        assert_eq!(recipients, rcpt_to, "{header}");
    }
    assert_eq!(
        envelope_for_file(
            b"To: x@b.test\r\n\r\nada@engine.test",
            &intake,
            None,
            Via::File
        ),
        None
    );
}
