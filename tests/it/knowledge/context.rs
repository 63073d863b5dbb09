//! Pieces of knowledge in the context of a run.

use super::*;
use crate::app::{TestApp, Workspace, proven_note};
use crate::extract::made::{docx, pdf};
use attache::context::resolvers::estimate_tokens;
use attache::context::resolvers::knowledge::DocumentReader;
use attache::extract::{ExtractLimits, Extractor};
use serde_json::json;

#[tokio::test]
async fn a_folder_is_looked_at_once_a_second_at_most() {
    let run_deps = RunDeps::new().await;
    let sync = KnowledgeSync::default();
    let refresh = || sync.refresh(&run_deps.ada, &run_deps.folder, run_deps.clock.as_ref());
    run_deps.write("a.md", "apple");
    assert_eq!(refresh().await.expect("a sync"), Some(indexed(&["a.md"])));
    run_deps.write("b.md", "banana");
    run_deps.clock.advance(Duration::from_millis(999));
    assert_eq!(refresh().await.expect("a sync"), None);
    run_deps.clock.advance(Duration::from_millis(1));
    assert_eq!(
        refresh().await.expect("a sync"),
        Some(KnowledgeSyncReport {
            unchanged: 1,
            ..indexed(&["b.md"])
        })
    );
    let bob = run_deps
        .store
        .persona(&PersonaId::parse("bob").expect("an id"));
    assert!(
        sync.refresh(&bob, &run_deps.folder, run_deps.clock.as_ref())
            .await
            .expect("a sync")
            .is_some()
    );
}

#[tokio::test]
async fn personas_do_not_see_each_others_knowledge() {
    let run_deps = RunDeps::new().await;
    let bob = run_deps
        .store
        .persona(&PersonaId::parse("bob").expect("an id"));
    let file = |sha256: &str| KnowledgeFile {
        path: "knowledge/a.md".into(),
        sha256: sha256.into(),
        modified_ms: 1,
        size_bytes: 5,
    };
    let chunk = |body: &str| {
        vec![KnowledgeChunk {
            heading: String::new(),
            body: body.into(),
        }]
    };
    run_deps
        .ada
        .replace_knowledge_file(file("1"), chunk("apple pie"))
        .await
        .expect("a write");
    bob.replace_knowledge_file(file("2"), chunk("apple secret"))
        .await
        .expect("a write");
    let hits = run_deps
        .ada
        .search_knowledge(&["apple".into()], 10)
        .await
        .expect("a search");
    assert_eq!(
        hits.iter().map(|h| h.body.as_str()).collect::<Vec<_>>(),
        ["apple pie"]
    );
    run_deps
        .ada
        .remove_knowledge_file("knowledge/a.md")
        .await
        .expect("a removal");
    assert_eq!(run_deps.ada.knowledge_state().await.expect("a state"), []);
    assert_eq!(bob.knowledge_state().await.expect("a state"), [file("2")]);
    assert_eq!(
        bob.search_knowledge(&["secret".into()], 10)
            .await
            .expect("a search")
            .len(),
        1
    );
}

#[tokio::test]
async fn a_letter_is_given_the_pieces_bearing_on_it_with_their_places() {
    let run_deps = RunDeps::new().await;
    run_deps.write(
        "rooms.md",
        "# Rooms\n\nNine rooms.\n\n## Breakfast\n\nIn the mill room from 7:30.\n",
    );
    run_deps.write("parking.md", "# Parking\n\nEight spaces behind the barn.\n");
    run_deps.sync().await;
    let wanted =
        "From your knowledge, `knowledge/rooms.md#Breakfast`:\n\nIn the mill room from 7:30.";
    let contribution = run_deps
        .resolve("Breakfast", "Dear all, when is breakfast?", None)
        .await;
    let piece = Piece::System {
        text: wanted.into(),
        required: false,
    };
    assert_eq!(
        contribution.pieces,
        [("knowledge/rooms.md#Breakfast".to_owned(), piece)]
    );
    assert_eq!(contribution.note, None);
    // What a reply quotes was answered before.
    let contribution = run_deps
        .resolve(
            "Hi",
            "Where is the barn?\n> breakfast",
            Some("Where is the barn?"),
        )
        .await;
    let sources: Vec<_> = contribution
        .pieces
        .iter()
        .map(|(source, _)| source.as_str())
        .collect();
    assert_eq!(sources, ["knowledge/parking.md#Parking"]);
}

#[tokio::test]
async fn all_of_a_small_folder_is_given_whatever_the_words() {
    let run_deps = RunDeps::new().await;
    run_deps.write(
        "rooms.md",
        "# Rooms\n\nNine rooms.\n\n## Breakfast\n\nFrom 7:30.\n",
    );
    run_deps.write("bicycles.md", "# Bicycles\n\nTwelve euros a day.\n");
    run_deps.sync().await;
    let letter = (
        "Fahrräder",
        "Können wir am Samstag zwei Räder leihen?",
        None,
    );
    let all = run_deps.resolve_within(60_000, letter).await;
    let [(source, Piece::WholeKnowledge(text))] = &all.pieces[..] else {
        panic!("{all:?}")
    };
    assert_eq!(source, "all of knowledge, 2 files");
    for words in [
        "Twelve euros",
        "Nine rooms.",
        "`knowledge/rooms.md#Breakfast`:\n\nFrom 7:30.",
    ] {
        assert!(text.contains(words), "{text}");
    }
    // A model with little room is given what was found, and the list.
    let some = run_deps.resolve_within(100, letter).await;
    let [
        (
            source,
            Piece::System {
                text,
                required: false,
            },
        ),
    ] = &some.pieces[..]
    else {
        panic!("{some:?}")
    };
    assert_eq!(source, "list of 2 files");
    for line in [
        "\n- `knowledge/bicycles.md`: Bicycles",
        "\n- `knowledge/rooms.md`: Rooms",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert_eq!(
        some.left_out[0].1,
        "nothing in `knowledge` matches the input"
    );
}

#[tokio::test]
async fn pieces_of_one_file_stand_in_its_order() {
    let run_deps = RunDeps::new().await;
    let filler = "Something else about the house and its garden. ".repeat(80);
    run_deps.write(
        "prices.md",
        format!("# Bicycles\n\nBicycles cost twelve euros a day, with a helmet and a lock and a map of the lake, and a trailer \
            for luggage costs five more.\n\n## Children\n\nBicycles of children cost eight.\n\n# Garden\n\n{filler}"),
    );
    run_deps.sync().await;
    let said = run_deps
        .resolve("Bicycles", "What do two bicycles cost?", None)
        .await;
    let sources: Vec<&str> = said
        .pieces
        .iter()
        .map(|(source, _)| source.as_str())
        .collect();
    assert_eq!(
        sources,
        [
            "knowledge/prices.md#Bicycles",
            "knowledge/prices.md#Children"
        ]
    );
}

#[tokio::test]
async fn the_list_of_files_is_short_however_many_there_are() {
    let run_deps = RunDeps::new().await;
    for n in 0..150 {
        let heading = "A long heading about the house ".repeat(3);
        run_deps.write(
            &format!("{n:03}.md"),
            format!("# {heading}\n\nText.\n\n# Another\n\nText.\n"),
        );
    }
    run_deps.sync().await;
    let said = run_deps.resolve_within(0, ("Hi", "Zeppelin", None)).await;
    let (source, Piece::System { text, .. }) = &said.pieces[0] else {
        panic!("{said:?}")
    };
    assert!(estimate_tokens(text) <= 300, "{}", estimate_tokens(text));
    let listed = text.matches("\n- `").count();
    assert_eq!(*source, format!("list of {listed} of 150 files"));
    assert!(
        listed >= 20 && text.contains(&format!("and {} more files", 150 - listed)),
        "{text}"
    );
}

/// The system text is the same for every letter, so that a vendor's cache serves it; and a run is assembled again from its record.
#[tokio::test]
async fn small_knowledge_stands_before_what_changes() {
    let workspace = Workspace::new(&json!({ "turns": [{ "say": "Twelve euros.\n\nAda" }] }));
    workspace.set(
        "configs/context.json",
        "/thread",
        json!(["persona", "knowledge", "thread-history", "current-input"]),
    );
    let app: TestApp = workspace.start().await;
    let mut systems = Vec::new();
    for (id, text) in [("1", "Wie ist das Frühstück?"), ("2", "And the bicycles?")] {
        let run = app
            .run_of(&proven_note(&format!("{id}@guest.example"), "", text))
            .await;
        app.drain().await;
        let prompt = app.prompts(&run).await.remove(0);
        assert!(
            prompt["system"].to_string().contains("<knowledge>"),
            "{prompt}"
        );
        assert!(
            prompt["system"].to_string().contains("From seven to ten."),
            "{prompt}"
        );
        assert!(
            !prompt["messages"]
                .to_string()
                .contains("From seven to ten."),
            "{prompt}"
        );
        systems.push(prompt["system"].clone());
    }
    assert_eq!(systems[0], systems[1]);
    app.check().await;
}

#[tokio::test]
async fn the_report_says_why_a_letter_is_given_nothing() {
    let run_deps = RunDeps::new().await;
    run_deps.write("rooms.md", "Thank you for what you will read here.");
    run_deps.sync().await;
    let nothing = |why: &str| Contribution {
        left_out: vec![("sections".to_owned(), why.to_owned())],
        ..Contribution::default()
    };
    let polite = run_deps
        .resolve("Hello", "Thank you, that is all!", None)
        .await;
    assert_eq!(polite, nothing("the input has no words to search for"));
    let other = run_deps
        .resolve("Invoice", "Zeppelin \" OR * NEAR(", None)
        .await;
    assert_eq!(other, nothing("nothing in `knowledge` matches the input"));
}

/// The control is the last scan: bytes that are as they were are not read by the child again.
#[tokio::test]
async fn a_document_is_knowledge_with_its_pages_and_is_read_once() {
    let run_deps = RunDeps::new().await;
    let extractor = |program: &str| Extractor::new(program.into(), ExtractLimits::default());
    let documents = DocumentReader::new(extractor(env!("CARGO_BIN_EXE_attache")));
    let sync = async |documents: Option<&DocumentReader>| {
        let (limits, now) = (SyncLimits::default(), run_deps.clock.now());
        let synced = sync_knowledge(&run_deps.ada, &run_deps.folder, &limits, now, documents);
        synced.await.expect("a sync")
    };
    run_deps.write(
        "ferry.pdf",
        pdf(&[&["Timetable"], &["The ferry leaves at nine."]]),
    );
    run_deps.write("house.docx", docx(&["Pets stay in the barn."]));
    run_deps.write("broken.pdf", b"%PDF-1.7 nothing of it");
    let report = sync(Some(&documents)).await;
    assert_eq!(
        report.indexed,
        ["knowledge/ferry.pdf", "knowledge/house.docx"]
    );
    let skipped: Vec<&str> = report
        .skipped
        .iter()
        .map(|(path, _)| path.as_str())
        .collect();
    assert_eq!(skipped, ["knowledge/broken.pdf"], "{:?}", report.skipped);
    assert_eq!(
        run_deps.found(&["ferry"]).await,
        ["knowledge/ferry.pdf page 2"]
    );
    assert_eq!(run_deps.found(&["pets"]).await, ["knowledge/house.docx"]);
    let file = std::fs::File::options()
        .write(true)
        .open(run_deps.path("ferry.pdf"));
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    file.expect("the file")
        .set_modified(long_ago)
        .expect("a time");
    let nothing_works = DocumentReader::new(extractor("/nonexistent/program"));
    let report = sync(Some(&nothing_works)).await;
    assert_eq!(
        (report.unchanged, report.removed.len()),
        (2, 0),
        "{report:?}"
    );
    run_deps.write("ferry.pdf", pdf(&[&["The ferry leaves at ten."]]));
    let report = sync(None).await;
    assert_eq!(report.removed, ["knowledge/ferry.pdf"], "{report:?}");
}
