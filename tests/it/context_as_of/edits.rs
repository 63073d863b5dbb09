//! Whatever is edited, written, merged or returned after a run: its contexts come out as they were.

use super::workspace::{cause, contexts, correspond, house, letter, meddle, told};
use crate::app::TestApp;
use attache::context::resolvers::live::Live;
use attache::context::resolvers::reads::Folders;
use attache::context::{self, Sources};
use attache::domain::RunId;
use proptest::prelude::*;
use serde_json::json;

/// What may happen to a house.
#[derive(Debug, Clone, Copy)]
enum Edit {
    Memory,
    PersonaText,
    StandingText,
    Knowledge,
    MoreKnowledge,
    Steps,
    Name,
    Budget,
    LaterLetter,
    MergedThreads,
    FailedDelivery,
    NewFile,
    RepeatedRun,
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let one = prop_oneof![
        Just(Edit::Memory),
        Just(Edit::PersonaText),
        Just(Edit::StandingText),
        Just(Edit::Knowledge),
        Just(Edit::MoreKnowledge),
        Just(Edit::Steps),
        Just(Edit::Name),
        Just(Edit::Budget),
        Just(Edit::LaterLetter),
        Just(Edit::MergedThreads),
        Just(Edit::FailedDelivery),
        Just(Edit::NewFile),
        Just(Edit::RepeatedRun),
    ];
    prop::collection::vec(one, 1..8)
}

async fn repeat_steps(app: &TestApp) {
    // As another attempt of an old run leaves its trace: further steps under an old message.
    let sql = "INSERT INTO thread_tool_events (id, thread_id, persona_id, parent_message_id, run_id,
                step_index, event_type, tool_name, tool_call_id, payload_json, created_at)
                SELECT 'new-' || id || step_index, thread_id, persona_id, parent_message_id, run_id,
                step_index + 1, 'tool_call', tool_name, 'n' || step_index, payload_json, created_at
                FROM thread_tool_events e
                WHERE step_index = (SELECT max(step_index) FROM thread_tool_events l WHERE l.run_id = e.run_id)";
    meddle(app, sql).await;
}

/// Does it, and lets the engine begin anew with what is there then.
async fn happen(app: TestApp, edit: Edit, n: usize) -> TestApp {
    let workspace = &app.workspace;
    match edit {
        Edit::Memory => workspace.write("personas/ada/active.md", &format!("Memory {n}.")),
        Edit::PersonaText => {
            workspace.write("personas/ada/PERSONA.md", &format!("Ada is terse, {n}."));
        }
        Edit::StandingText => {
            workspace.write("configs/prompts/system.md", &format!("{n} {{{{ time }}}}"));
        }
        Edit::Knowledge => {
            let page = format!("# Breakfast\n\nFrom {n}.\n");
            workspace.write("personas/ada/knowledge/house.md", &page);
        }
        Edit::MoreKnowledge => {
            let path = format!("personas/ada/knowledge/more-{n}.md");
            workspace.write(&path, "# Breakfast with tea\n\nTea, cake and breakfast.\n");
        }
        Edit::Steps => {
            let steps = json!(["invocation-metadata", "current-input", "persona", { "use": "thread-history",
                "budget_tokens": 50 + n }]);
            workspace.set("configs/context.json", "/thread", steps);
        }
        Edit::Name => {
            workspace.set(
                "personas/ada/persona.json",
                "/name",
                json!(format!("Ada {n}")),
            );
            workspace.set(
                "personas/ada/persona.json",
                "/timezone",
                json!("Asia/Tokyo"),
            );
        }
        Edit::Budget => {
            let budget = json!({ "context_tokens_max": 1000 + n });
            workspace.set("configs/inference.json", "/budget", budget);
        }
        Edit::LaterLetter => {
            app.run_of(&letter(0, 100 + n, "Please look it up again."))
                .await;
            app.drain().await;
        }
        Edit::MergedThreads => {
            let both = "References: <0.0@guest.example> <1.0@guest.example>\n";
            app.run_of(&crate::app::note(
                &format!("both-{n}@guest.example"),
                both,
                "About both.",
            ))
            .await;
            app.drain().await;
        }
        Edit::FailedDelivery => {
            meddle(&app, "UPDATE delivery_recipients SET state = 'failed'").await;
            meddle(
                &app,
                "UPDATE messages SET disposition = 'withheld:x' WHERE direction = 'outbound'",
            )
            .await;
        }
        Edit::NewFile => workspace.write("personas/ada/house-rules.md", &format!("Rule {n}.")),
        Edit::RepeatedRun => {
            repeat_steps(&app).await;
        }
    }
    app.restart().await
}

async fn is_as_it_was(edits: &[Edit]) -> Option<String> {
    let mut app = house().start().await;
    let runs = correspond(&app).await;
    for (n, edit) in edits.iter().enumerate() {
        app = happen(app, *edit, n).await;
    }
    for run in &runs {
        if let Some(cause) = cause(&app, run).await {
            return Some(format!("{run}: {cause:?}"));
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "second tier"]
    fn whatever_happens_later_every_context_comes_out_as_it_was(edits in edits()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let difference = runtime.block_on(is_as_it_was(&edits));
        prop_assert!(difference.is_none(), "{difference:?}");
    }
}

/// The control: whether the sources of today give what the run was told.
async fn is_live_the_same(app: &TestApp, run: &RunId) -> bool {
    let then = contexts(app, run).await.remove(0);
    let store = app.engine.store.persona(&then.persona);
    let open = |path: &str| {
        let path = app.workspace.path().join(path);
        let path = path.to_str().expect("a path");
        cap_std::fs_utf8::Dir::open_ambient_dir(path, cap_std::ambient_authority())
            .expect("a folder")
    };
    let (workspace, persona) = (open("."), open("personas/ada"));
    let reads = Live::new(
        Folders {
            workspace: &workspace,
            persona: &persona,
        },
        &store,
        then.now,
    );
    let subject = {
        let run = app.engine.store.run_summary(run).await.expect("a run");
        let now = store
            .trigger_message(&run.trigger_message, &[])
            .await
            .expect("a message");
        attache::context::resolvers::Subject::of(run.trigger, now)
    };
    let config = &app.engine.config;
    let sources = Sources {
        persona: config.personas.get(&then.persona).expect("Ada"),
        reads: &reads,
        subject: &subject,
        now: then.now,
    };
    let profile = (then.profile.as_str(), &config.context[&then.profile]);
    let (context, _) = context::assemble(sources, profile, then.allowed_tokens, then.budget_tokens)
        .await
        .expect("a context");
    let told = told(app, run).await;
    told["system"] == json!(context.system()) && told["messages"] == json!(context.messages())
}

#[tokio::test]
#[ignore = "second tier"]
async fn each_of_these_changes_what_the_sources_of_today_give() {
    let all = [
        Edit::Memory,
        Edit::PersonaText,
        Edit::StandingText,
        Edit::Knowledge,
        Edit::MoreKnowledge,
        Edit::Steps,
        Edit::Name,
        Edit::LaterLetter,
        Edit::MergedThreads,
        Edit::FailedDelivery,
        Edit::NewFile,
        Edit::RepeatedRun,
    ];
    for edit in all {
        let app = house().start().await;
        let runs = correspond(&app).await;
        let app = happen(app, edit, 1).await;
        // The index of knowledge is brought up to date by the next run.
        app.run_of(&letter(7, 0, "Something else.")).await;
        app.drain().await;
        let last = runs.last().expect("a run");
        assert!(
            !is_live_the_same(&app, last).await,
            "{edit:?} does not show in today's sources"
        );
        assert_eq!(
            cause(&app, last).await,
            None,
            "{edit:?} shows in those of then"
        );
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn the_house_has_every_kind_of_context() {
    let app = house().start().await;
    let runs = correspond(&app).await;
    let (mut several, mut resolvers) = (0, std::collections::BTreeSet::new());
    for run in &runs {
        let contexts = contexts(&app, run).await;
        several += usize::from(contexts.len() > 1);
        for context in &contexts {
            let entries = context
                .report
                .entries
                .iter()
                .filter(|entry| entry.sha256.is_some());
            resolvers.extend(entries.map(|entry| entry.resolver.clone()));
        }
        assert_eq!(cause(&app, run).await, None);
    }
    assert!(several > 0, "no context had to be made shorter");
    let all = [
        "active-memory",
        "current-input",
        "invocation-metadata",
        "knowledge",
        "load-file",
        "persona",
        "thread-history",
    ];
    assert_eq!(
        resolvers.iter().map(String::as_str).collect::<Vec<_>>(),
        all
    );
    app.check().await;
}
