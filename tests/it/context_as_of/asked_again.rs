//! A question that two steps of one context ask, while another node or run stores something in between.

use crate::app::db;
use crate::approvals::scene::CONTACT;
use crate::memory::scene::{MemoryScene, obedient};
use attache::context::resolvers::live::Live;
use attache::context::resolvers::reads::{BaseFolder, Files, Folders, Reads};
use attache::domain::{MemoryCircle, MessageId, PersonaId, ThreadId, Trust};
use attache::store::InstructionScope;
use cap_std::fs_utf8::Dir;
use serde_json::json;

/// Everything that a resolver may ask, in the order of [`answers`].
const QUESTIONS: [&str; 11] = [
    "memory",
    "knowledge",
    "knowledge left out",
    "past messages",
    "a shorter past",
    "past steps",
    "summary",
    "instructions",
    "letters to summarise",
    "a file of the persona",
    "a file of the workspace",
];

fn open(path: &std::path::Path) -> Dir {
    let path = path.to_str().expect("a path");
    Dir::open_ambient_dir(path, cap_std::ambient_authority()).expect("a folder")
}

/// Asks every question, and gives the answers as text.
async fn answers(reads: &Live<'_>, thread: &ThreadId, message: &MessageId) -> Vec<String> {
    let circle = MemoryCircle {
        sender: Some("carol@partner.test".to_owned()),
        trust: Trust::Contact,
        thread: thread.clone(),
        people: ["carol@partner.test".to_owned()].into(),
    };
    let (readers, terms) = (["carol@partner.test".to_owned()], ["tea".to_owned()]);
    let file = |place, path| format!("{:?}", reads.text(place, path, 10_000).expect("read"));
    let past = |messages| reads.past_messages(thread, (1_000_000, messages), 1000, &readers);
    let letters = reads.letters_to_summarise(thread, (0, 1_000_000, 1_000_000), (9, 900), &readers);
    vec![
        format!("{:?}", reads.memory(&circle).await.expect("read")),
        format!("{:?}", reads.knowledge(&terms, 5).await.expect("read")),
        format!("{:?}", reads.knowledge_left_out()),
        format!("{:?}", past(50).await.expect("read")),
        format!("{:?}", past(1).await.expect("read")),
        format!(
            "{:?}",
            reads.past_steps(&[message], 500).await.expect("read")
        ),
        format!(
            "{:?}",
            reads
                .summary_so_far(thread, 1_000_000, &readers)
                .await
                .expect("read")
        ),
        format!(
            "{:?}",
            reads.instructions(thread, None).await.expect("read")
        ),
        format!("{:?}", letters.await.expect("read")),
        file(BaseFolder::Persona, "active.md"),
        file(BaseFolder::Workspace, "configs/prompts/system.md"),
    ]
}

#[tokio::test]
async fn what_is_asked_twice_in_a_context_is_answered_alike_and_recorded_once() {
    let memory = MemoryScene::start().await;
    let app = &memory.scene.world.app;
    let ada = PersonaId::parse("ada").expect("an id");
    let knowledge = "personas/ada/knowledge/tea.md";
    app.workspace
        .write(knowledge, "# Tea\n\nTea is served at five.\n");
    let first = memory.tells(CONTACT, "m1", "I like tea").await;
    let row = app
        .row(
            "SELECT thread_id, trigger_message_id FROM runs WHERE id = $1",
            &first,
        )
        .await;
    let [thread, message] = [0, 1].map(|at| row[at].clone().expect("an id"));
    let (thread, message) = (ThreadId::new(thread), MessageId::new(message));

    let (workspace, persona) = (
        open(app.workspace.path()),
        open(&app.workspace.path().join("personas/ada")),
    );
    let folders = Folders {
        workspace: &workspace,
        persona: &persona,
    };
    let (store, now) = (app.engine.store.persona(&ada), memory.scene.world.now());
    let skipped = |why: &str| vec![("knowledge/x.txt".to_owned(), why.to_owned())];
    let reads = Live::new(folders, &store, now).without(skipped("not UTF-8"));
    let before = answers(&reads, &thread, &message).await;

    // Between two steps everything changes.
    let more = "In-Reply-To: <m1@x.test>\r\n";
    let body = "I like cake\r\nremember: I like cake\r\nquote: I like cake";
    app.workspace
        .write(knowledge, "# Tea\n\nTea is served at six, tea with cake.\n");
    app.workspace
        .clock
        .advance(std::time::Duration::from_secs(3600));
    memory.writes(CONTACT, "m2", more, body).await;
    let scope = InstructionScope::Thread(thread.clone());
    let added = app
        .engine
        .store
        .add_instruction(&ada, &scope, "Be brief.", "uid 0")
        .await;
    assert!(added.expect("stored").is_some());
    let mut rows = app.workspace.rows().await;
    for sql in [
        "INSERT INTO thread_memory (id, persona_id, thread_id, run_id, model, state, problems_json, text, text_sha256, from_seq,
           upto_seq, upto_message_id, inputs_json, generation, messages, label_json, readers_json, created_at)
         SELECT 's1', persona_id, thread_id, id, 'm', 'usable', '[]', 'They spoke of tea.', '', 1, 2, trigger_message_id, '[]', 1, 2,
           '{}', '[\"carol@partner.test\"]', created_at FROM runs WHERE id = $1",
        "UPDATE thread_tool_events SET payload_json = '{\"changed\":true}' WHERE run_id = $1 AND event_type = 'tool_result'",
    ] {
        let done = db::query(sql).bind(&first).execute(&mut rows).await.expect("stored");
        assert!(done.rows_affected() > 0, "{sql}");
    }
    app.workspace
        .write("personas/ada/active.md", "Other notes.");
    app.workspace
        .write("configs/prompts/system.md", "You are she.");

    let again = answers(&reads, &thread, &message).await;
    let control = Live::new(
        folders,
        &store,
        now.plus(std::time::Duration::from_secs(7200)),
    );
    let control = control.without(skipped("too large"));
    let control = answers(&control, &thread, &message).await;
    for (at, question) in QUESTIONS.into_iter().enumerate() {
        assert_eq!(before[at], again[at], "{question}");
        assert_ne!(
            before[at], control[at],
            "the control: {question} has another answer now"
        );
    }
    let recorded = reads.into_seen().reads;
    assert_eq!(recorded.len(), QUESTIONS.len(), "{recorded:#?}");
}

#[tokio::test]
async fn a_context_whose_steps_ask_everything_twice_is_replayed_byte_for_byte() {
    let twice = |workspace: &crate::app::Workspace| {
        crate::memory::scene::with_memory(workspace);
        let steps = [
            "load-file(configs/prompts/system.md)",
            "persona",
            "active-memory",
            "contact-memory",
            "recall",
            "knowledge",
            "skills",
            "instructions",
            "thread-summary",
            "thread-history",
        ];
        let twice: Vec<&str> = steps
            .into_iter()
            .chain(steps)
            .chain(["invocation-metadata", "current-input"])
            .collect();
        workspace.set("configs/context.json", "/thread", json!(twice));
        // Of no charset that can be known, so that it is in no index.
        let path = workspace.path().join("personas/ada/knowledge/f.txt");
        std::fs::write(path, b"Pok\xf3j by\xb3a zaj\xeata").expect("a file");
    };
    let scene = crate::approvals::scene::Scene::with(&obedient(), twice).await;
    let memory = MemoryScene { scene };
    memory.tells(CONTACT, "m1", "I like tea").await;
    let more = "In-Reply-To: <m1@x.test>\r\n";
    let run = memory
        .writes(
            CONTACT,
            "m2",
            more,
            "What do you know of breakfast and tea?",
        )
        .await;
    let app = &memory.scene.world.app;
    let report = crate::contexts::report(app, &run).await.to_string();
    assert!(report.contains("knowledge/f.txt"), "{report}");
    for verified in app.workspace.verified().await {
        assert!(
            matches!(
                verified.outcome,
                attache::replay::verify::Outcome::Identical { .. }
            ),
            "{verified:?}"
        );
    }
}
