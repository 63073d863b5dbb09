//! The knowledge of a persona from its files to a context: synced through the folder's capability, searched, cited.

mod context;

use crate::app::database::is_sqlite_only;
use crate::app::{database, db};
use crate::recording_intake::persona;
use attache::clock::{Clock, ManualClock};
use attache::config::Persona;
use attache::context::resolvers::knowledge::{
    Knowledge, KnowledgeSync, KnowledgeSyncReport, SyncLimits, sync_knowledge,
};
use attache::context::resolvers::live::Live;
use attache::context::resolvers::reads::Folders;
use attache::context::resolvers::{Contribution, Piece, Resolver, ResolverCall, Subject};
use attache::domain::{MessageId, PersonaId, ThreadId, Timestamp, Trigger};
use attache::store::{KnowledgeChunk, KnowledgeFile, PersonaStore, Store, StoredMessage};
use cap_std::fs_utf8::Dir;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

struct RunDeps {
    workspace: tempfile::TempDir,
    store: Store,
    ada: PersonaStore,
    folder: Dir,
    clock: Arc<ManualClock>,
}

impl RunDeps {
    /// The clock stands an hour after now, so that every file is old enough to be believed.
    async fn new() -> Self {
        let workspace = database::folder().await;
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .expect("after 1970");
        let now = Timestamp::from_millis(now.as_millis() as i64).plus(Duration::from_secs(3600));
        let clock = Arc::new(ManualClock::at(now));
        let store = Store::open(workspace.path(), clock.clone())
            .await
            .expect("a database");
        let ada = store.persona(&PersonaId::parse("ada").expect("an id"));
        std::fs::create_dir_all(workspace.path().join("personas/ada")).expect("a folder");
        let path = workspace.path().join("personas/ada");
        let folder =
            Dir::open_ambient_dir(path.to_str().expect("UTF-8"), cap_std::ambient_authority());
        Self {
            folder: folder.expect("the folder"),
            workspace,
            store,
            ada,
            clock,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.workspace
            .path()
            .join("personas/ada/knowledge")
            .join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::create_dir_all(self.path(name).parent().expect("a parent")).expect("folders");
        std::fs::write(self.path(name), text).expect("a file");
    }

    /// Pieces of the index in each of which a search looks up every term.
    async fn index_segments(&self) -> i64 {
        let mut rows = db::Connection::open(self.workspace.path()).await;
        let count = db::query_scalar("SELECT count(DISTINCT segid) FROM knowledge_fts_idx");
        count.fetch_one(&mut rows).await.expect("a count")
    }

    async fn sync(&self) -> KnowledgeSyncReport {
        self.sync_within(&SyncLimits::default()).await
    }

    async fn sync_within(&self, limits: &SyncLimits) -> KnowledgeSyncReport {
        sync_knowledge(&self.ada, &self.folder, limits, self.clock.now(), None)
            .await
            .expect("a sync")
    }

    /// Paths and headings that a search finds, best first.
    async fn found(&self, words: &[&str]) -> Vec<String> {
        let terms: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        let hits = self
            .ada
            .search_knowledge(&terms, 10)
            .await
            .expect("a search");
        hits.iter()
            .map(|hit| {
                format!("{} {}", hit.path, hit.heading)
                    .trim_end()
                    .to_owned()
            })
            .collect()
    }

    /// What the resolver says to a letter where not all of the knowledge has room, without the list of files.
    async fn resolve(&self, subject: &str, text: &str, fresh_text: Option<&str>) -> Contribution {
        let mut said = self.resolve_within(0, (subject, text, fresh_text)).await;
        let (source, _) = said.pieces.remove(0);
        assert!(source.starts_with("list of "), "{source}");
        said
    }

    /// What the resolver says to a letter in a context of that many tokens.
    async fn resolve_within(
        &self,
        room_tokens: usize,
        (subject, text, fresh_text): (&str, &str, Option<&str>),
    ) -> Contribution {
        let folder = self.workspace.path().join("personas/ada");
        let persona = Persona {
            folder,
            ..persona("ada", &["ada@engine.test"])
        };
        let subject = Subject {
            trigger: Trigger::Email,
            message: StoredMessage {
                seq: 1,
                id: MessageId::new("m1"),
                thread: ThreadId::new("t1"),
                direction: "inbound".into(),
                rfc_message_id: "one@partner.test".into(),
                in_reply_to: None,
                references: Vec::new(),
                sender: "carol@partner.test".into(),
                recipients_json: "{}".into(),
                subject: subject.into(),
                text_body: text.into(),
                fresh_text: fresh_text.map(str::to_owned),
                received_at: self.clock.now(),
                trust: "contact".into(),
                run: None,
                disposition: "run".into(),
                hops: 0,
                metadata_json: "{}".into(),
            },
            attachments: Vec::new(),
            files: Vec::new(),
            pdfs: Vec::new(),
            readers: Vec::new(),
            has_past: false,
            tools: Vec::new(),
        };
        let folders = Folders {
            workspace: &self.folder,
            persona: &self.folder,
        };
        let reads = Live::new(folders, &self.ada, self.clock.now());
        let call = ResolverCall {
            summarised_upto: None,
            remembered: &[],
            args: &[],
            is_optional: false,
            budget_tokens: 1000,
            room_tokens,
            persona: &persona,
            reads: &reads,
            subject: &subject,
            now: self.clock.now(),
        };
        Knowledge.resolve(call).await.expect("a contribution")
    }
}

fn indexed(paths: &[&str]) -> KnowledgeSyncReport {
    KnowledgeSyncReport {
        indexed: paths.iter().map(|p| format!("knowledge/{p}")).collect(),
        ..KnowledgeSyncReport::default()
    }
}

#[tokio::test]
async fn files_are_indexed_once_then_only_when_they_change_or_go() {
    let run_deps = RunDeps::new().await;
    assert_eq!(
        run_deps.sync().await,
        KnowledgeSyncReport::default(),
        "no folder, no knowledge"
    );
    run_deps.write("rooms.md", "# Rooms\n## Breakfast\nPorridge from 7.\n");
    run_deps.write("de/haus.md", "Frühstück: Brötchen");
    run_deps.write(".draft.md", "porridge");
    assert_eq!(run_deps.sync().await, indexed(&["de/haus.md", "rooms.md"]));
    assert_eq!(
        run_deps.found(&["porridge"]).await,
        ["knowledge/rooms.md Rooms > Breakfast"]
    );
    assert_eq!(
        run_deps.found(&["fruhstuck"]).await,
        ["knowledge/de/haus.md"]
    );
    assert_eq!(
        run_deps.sync().await,
        KnowledgeSyncReport {
            unchanged: 2,
            ..KnowledgeSyncReport::default()
        }
    );

    run_deps.write(
        "rooms.md",
        "# Rooms\n## Breakfast\nPancakes and more from 7.\n",
    );
    assert_eq!(
        run_deps.sync().await,
        KnowledgeSyncReport {
            unchanged: 1,
            ..indexed(&["rooms.md"])
        }
    );
    assert_eq!(run_deps.found(&["porridge"]).await, Vec::<String>::new());
    assert_eq!(
        run_deps.found(&["pancake"]).await,
        ["knowledge/rooms.md Rooms > Breakfast"]
    );

    std::fs::remove_file(run_deps.path("rooms.md")).expect("a removal");
    let removed = vec!["knowledge/rooms.md".to_owned()];
    assert_eq!(
        run_deps.sync().await,
        KnowledgeSyncReport {
            unchanged: 1,
            removed,
            ..KnowledgeSyncReport::default()
        }
    );
    assert_eq!(run_deps.found(&["pancake"]).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_touched_file_with_the_same_text_is_not_indexed_again() {
    let run_deps = RunDeps::new().await;
    run_deps.write("rooms.md", "Twelve.");
    run_deps.sync().await;
    let before = run_deps.ada.knowledge_state().await.expect("a state");
    let file = std::fs::File::options()
        .write(true)
        .open(run_deps.path("rooms.md"))
        .expect("the file");
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000))
        .expect("a time");
    assert_eq!(
        run_deps.sync().await,
        KnowledgeSyncReport {
            unchanged: 1,
            ..KnowledgeSyncReport::default()
        }
    );
    let after = run_deps.ada.knowledge_state().await.expect("a state");
    let wanted = KnowledgeFile {
        modified_ms: 1_000_000_000,
        ..before[0].clone()
    };
    assert_eq!(after, [wanted]);
}

#[tokio::test]
async fn a_change_that_the_file_time_hides_is_seen_in_a_young_file() {
    let run_deps = RunDeps::new().await;
    let now = run_deps.clock.now();
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(now.as_millis() as u64);
    let write = |text: &str| {
        run_deps.write("rooms.md", text);
        let file = std::fs::File::options()
            .write(true)
            .open(run_deps.path("rooms.md"))
            .expect("the file");
        file.set_modified(at).expect("a time");
    };
    write("apple");
    assert_eq!(run_deps.sync().await, indexed(&["rooms.md"]));
    write("grape");
    assert_eq!(run_deps.sync().await, indexed(&["rooms.md"]));
    assert_eq!(run_deps.found(&["grape"]).await, ["knowledge/rooms.md"]);
    // Later the time is believed, after one more look at the bytes.
    run_deps.clock.advance(Duration::from_secs(3));
    run_deps.sync().await;
    assert_eq!(
        run_deps.ada.knowledge_state().await.expect("a state")[0].modified_ms,
        now.as_millis()
    );
}

#[tokio::test]
async fn what_is_too_much_or_not_a_text_file_is_skipped_and_said() {
    let run_deps = RunDeps::new().await;
    run_deps.write("a.md", "apple");
    run_deps.write("b.md", "banana ".repeat(20));
    run_deps.write("c.md", "cherry");
    run_deps.write("d.md", "damson");
    run_deps.write("deep/er/e.md", "elder");
    run_deps.write("bin.md", [b'f', 0, b'g']);
    let limits = SyncLimits {
        files_max: 3,
        file_bytes_max: 100,
        depth_max: 1,
        ..SyncLimits::default()
    };
    let report = run_deps.sync_within(&limits).await;
    let skipped = [
        ("knowledge/b.md", "too large"),
        ("knowledge/d.md", "too many files"),
        ("knowledge/deep/er", "too many folders deep"),
        ("knowledge/bin.md", "not a text file"),
    ];
    let skipped = skipped
        .map(|(path, why)| (path.to_owned(), why.to_owned()))
        .to_vec();
    assert_eq!(
        report,
        KnowledgeSyncReport {
            skipped,
            ..indexed(&["a.md", "c.md"])
        }
    );
    // A file that was indexed and cannot be read any more is not quoted any more.
    run_deps.write("a.md", [0, 1]);
    let report = run_deps.sync_within(&limits).await;
    assert_eq!(report.removed, ["knowledge/a.md"]);
    assert_eq!(run_deps.found(&["apple"]).await, Vec::<String>::new());
}

#[tokio::test]
async fn text_tables_and_pages_are_knowledge_in_any_case_of_name() {
    let run_deps = RunDeps::new().await;
    run_deps.write("notes.TXT", "# no heading\nThe porter sleeps.");
    let rows: String = (0..200)
        .map(|n| format!("room {n};{} euros\n", 100 + n))
        .collect();
    run_deps.write("prices.csv", format!("Room;Price\n{rows}"));
    let page = "<html><head><title>x</title><style>p{}</style></head><body><h1>Ferry</h1><p>Leaves at <b>nine</b>.\
        <script>alert(1)</script></body></html>";
    run_deps.write("ferry.Html", page);
    run_deps.write("U.MD", "# Umbrellas\nIn the hall.");
    assert_eq!(
        run_deps.sync().await,
        indexed(&["U.MD", "ferry.Html", "notes.TXT", "prices.csv"])
    );
    assert_eq!(
        run_deps.found(&["umbrellas"]).await,
        ["knowledge/U.MD Umbrellas"]
    );
    assert_eq!(run_deps.found(&["porter"]).await, ["knowledge/notes.TXT"]);
    let contribution = run_deps.resolve("Price", "What is room 150?", None).await;
    let is_it = |(source, piece): &(String, Piece)| {
        let Piece::System { text, .. } = piece else {
            return false;
        };
        source == "knowledge/prices.csv"
            && text.contains("Room;Price")
            && text.contains("room 150;250 euros")
    };
    assert!(contribution.pieces.iter().any(is_it), "{contribution:?}");
    let contribution = run_deps.resolve("Ferry", "When?", None).await;
    let Some((_, Piece::System { text, .. })) = contribution.pieces.first() else {
        panic!("nothing")
    };
    assert!(
        text.contains("Leaves at nine.") && !text.contains("alert") && !text.contains('<'),
        "{text}"
    );
}

#[tokio::test]
async fn text_not_in_utf_8_is_read_as_what_it_is_or_left_out_by_name() {
    let run_deps = RunDeps::new().await;
    run_deps.write(
        "a.md",
        b"# F\xe4hre\nEin Caf\xe9 f\xfcr 10 \x80 \x96 \x84gut\x93.\n",
    );
    let utf16: Vec<u8> = "\u{feff}Zimtstern"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    run_deps.write("b.txt", utf16);
    run_deps.write("c.md", b"\xef\xbb\xbf# Kurkuma\nGelb.");
    // Shift_JIS, KOI8-R, and Polish in windows-1250: read as Western European they would say something else.
    run_deps.write(
        "d.md",
        b"\x8f\x68\x94\x91\x97\xbf\x8b\xe0 \x82\xcd 9\x89\x7e",
    );
    run_deps.write(
        "e.txt",
        b"\xeb\xcf\xcd\xce\xc1\xd4\xc1 \xd3\xd7\xcf\xc2\xcf\xc4\xce\xc1",
    );
    run_deps.write("f.txt", b"Pok\xf3j by\xb3a zaj\xeata");
    let report = run_deps.sync().await;
    let indexed = ["knowledge/a.md", "knowledge/b.txt", "knowledge/c.md"];
    assert_eq!(report.indexed, indexed);
    let left_out: Vec<&str> = report
        .skipped
        .iter()
        .map(|(path, _)| path.as_str())
        .collect();
    assert_eq!(
        left_out,
        ["knowledge/d.md", "knowledge/e.txt", "knowledge/f.txt"]
    );
    assert!(
        report
            .skipped
            .iter()
            .all(|(_, why)| why.contains("not UTF-8")),
        "{:?}",
        report.skipped
    );
    assert_eq!(run_deps.found(&["fähre"]).await, ["knowledge/a.md Fähre"]);
    assert_eq!(run_deps.found(&["zimtstern"]).await, ["knowledge/b.txt"]);
    assert_eq!(
        run_deps.found(&["kurkuma"]).await,
        ["knowledge/c.md Kurkuma"]
    );
    let hits = run_deps
        .ada
        .search_knowledge(&["café".to_owned()], 1)
        .await
        .expect("a search");
    assert_eq!(hits[0].body, "Ein Café für 10 € – „gut“.");
}

#[tokio::test]
async fn nothing_outside_the_folder_is_indexed_and_nothing_blocks() {
    let run_deps = RunDeps::new().await;
    run_deps.write("a.md", "apple");
    let outside = run_deps.workspace.path().join("other");
    std::fs::create_dir(&outside).expect("a folder");
    std::fs::write(outside.join("secret.md"), "apple canary").expect("a file");
    std::os::unix::fs::symlink(outside.join("secret.md"), run_deps.path("link.md"))
        .expect("a link");
    std::os::unix::fs::symlink(&outside, run_deps.path("folder")).expect("a link");
    std::os::unix::fs::symlink(".", run_deps.path("circle")).expect("a link");
    // Beneath the persona's folder, where its capability would follow it.
    let private = run_deps.path("../responsibilities");
    std::fs::create_dir_all(&private).expect("a folder");
    std::fs::write(private.join("private.md"), "apple canary").expect("a file");
    std::os::unix::fs::symlink("../responsibilities/private.md", run_deps.path("duty.md"))
        .expect("a link");
    std::os::unix::fs::symlink("../responsibilities", run_deps.path("duties")).expect("a link");
    std::fs::hard_link(outside.join("secret.md"), run_deps.path("hard.md")).expect("a hard link");
    let made = std::process::Command::new("mkfifo")
        .arg(run_deps.path("pipe.md"))
        .status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo");
    let report = tokio::time::timeout(Duration::from_secs(5), run_deps.sync()).await;
    let links = [
        "circle", "duties", "duty.md", "folder", "link.md", "pipe.md",
    ];
    let mut skipped = links
        .map(|name| (format!("knowledge/{name}"), "not a regular file".to_owned()))
        .to_vec();
    let second = "has a second name (a hard link), which may lie anywhere";
    skipped.insert(4, ("knowledge/hard.md".to_owned(), second.to_owned()));
    assert_eq!(
        report,
        Ok(KnowledgeSyncReport {
            skipped,
            ..indexed(&["a.md"])
        })
    );
    assert_eq!(run_deps.found(&["canary"]).await, Vec::<String>::new());

    std::fs::remove_dir_all(run_deps.path("")).expect("a removal");
    std::os::unix::fs::symlink(
        &outside,
        run_deps.workspace.path().join("personas/ada/knowledge"),
    )
    .expect("a link");
    let limits = SyncLimits::default();
    let refused = sync_knowledge(
        &run_deps.ada,
        &run_deps.folder,
        &limits,
        run_deps.clock.now(),
        None,
    )
    .await;
    assert_eq!(
        refused.map_err(|e| e.to_string()),
        Err("cannot read the folder `knowledge`".to_owned())
    );
}

#[tokio::test]
async fn a_sync_leaves_an_index_in_one_piece() {
    if is_sqlite_only("pieces of SQLite's index") {
        return;
    }
    let deps = RunDeps::new().await;
    for number in 0..12 {
        deps.write(
            &format!("note{number}.md"),
            format!("Room {number} has a lake view."),
        );
        deps.sync().await;
    }
    assert_eq!(deps.index_segments().await, 1);
    assert_eq!(deps.found(&["lake"]).await.len(), 10);
    // The control: the same changes without a sync around them.
    for number in 0..3 {
        let file = KnowledgeFile {
            path: format!("knowledge/late{number}.md"),
            sha256: String::new(),
            modified_ms: 0,
            size_bytes: 1,
        };
        let chunk = KnowledgeChunk {
            heading: String::new(),
            body: format!("Boat {number} is on the lake."),
        };
        let replaced = deps.ada.replace_knowledge_file(file, vec![chunk]).await;
        replaced.expect("replaced");
    }
    assert_eq!(deps.index_segments().await, 4);
}
