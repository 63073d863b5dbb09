//! Instructions of the owner for one thread and for one correspondent.

use super::letter;
use crate::app::{PROVEN, TestApp, Workspace, note};
use crate::contexts::report;
use attache::domain::{PersonaId, ThreadId};
use attache::store::InstructionScope;
use serde_json::json;

fn house() -> Workspace {
    let workspace = Workspace::new(&json!({ "rules": [{ "say": "Yes." }] })).talkative();
    workspace.set(
        "configs/context.json",
        "/thread",
        json!(["persona", { "use": "instructions", "budget_tokens": 400 }, "thread-history", "invocation-metadata", "current-input"]),
    );
    workspace
}

async fn system(app: &TestApp, run: &str) -> String {
    serde_json::to_string(&app.prompts(run).await).expect("json")
}

#[tokio::test]
async fn the_owners_words_stand_in_every_run_of_the_thread_and_of_the_correspondent_and_no_other() {
    let app = house().start().await;
    let ada = PersonaId::parse("ada").expect("a name");
    let first = app.run_of(&letter(0, "When is breakfast?")).await;
    app.drain().await;
    let thread = app
        .row("SELECT thread_id FROM runs WHERE id = $1", &first)
        .await[0]
        .clone()
        .expect("a thread");
    let scope = InstructionScope::Thread(ThreadId::new(thread));
    let store = &app.engine.store;
    let of_thread = store
        .add_instruction(&ada, &scope, "Answer in French.", "uid 0")
        .await
        .expect("added")
        .expect("an id");
    let contact = InstructionScope::Contact("bob@guest.example".to_owned());
    store
        .add_instruction(&ada, &contact, "Call him Robert.", "uid 0")
        .await
        .expect("added");

    let second = app.run_of(&letter(1, "And tea?")).await;
    let other =
        note("o.1@guest.example", PROVEN, "Boats?").replace("Subject: Breakfast", "Subject: Boats");
    let other = app.run_of(&other).await;
    let stranger =
        note("s.1@else.test", PROVEN, "Boats?").replace("bob@guest.example", "carol@guest.example");
    let stranger = app.run_of(&stranger).await;
    // Somebody who only writes the name.
    let unproven = app.run_of(&note("u.1@guest.example", "", "Boats?")).await;
    app.drain().await;
    let second_prompt = system(&app, &second).await;
    assert!(
        second_prompt.contains("Answer in French.") && second_prompt.contains("Call him Robert."),
        "{second_prompt}"
    );
    let other_prompt = system(&app, &other).await;
    assert!(
        !other_prompt.contains("French") && other_prompt.contains("Robert"),
        "{other_prompt}"
    );
    for run in [&first, &stranger, &unproven] {
        let prompt = system(&app, run).await;
        assert!(
            !prompt.contains("French") && !prompt.contains("Robert"),
            "{prompt}"
        );
    }
    let reported = report(&app, &second).await;
    assert!(
        reported.to_string().contains("2 of the owner"),
        "{reported}"
    );

    // What is taken back is not shown, and past runs are still told as they were.
    app.engine
        .store
        .remove_instruction(&of_thread, "uid 0")
        .await
        .expect("removed");
    let third = app.run_of(&letter(2, "And coffee?")).await;
    app.drain().await;
    assert!(!system(&app, &third).await.contains("French"));
    app.check().await;
}

#[tokio::test]
async fn there_is_an_end_to_instructions() {
    let app = house().start().await;
    let ada = PersonaId::parse("ada").expect("a name");
    let scope = InstructionScope::Contact("bob@guest.example".to_owned());
    for n in 0..20 {
        let text = format!("Rule {n}: {}", "be brief and kind. ".repeat(10));
        let added = app
            .engine
            .store
            .add_instruction(&ada, &scope, &text, "uid 0")
            .await
            .expect("added");
        assert!(added.is_some(), "{n}");
    }
    let more = app
        .engine
        .store
        .add_instruction(&ada, &scope, "One more.", "uid 0")
        .await
        .expect("asked");
    assert_eq!(more, None);
    let run = app.run_of(&letter(0, "When is breakfast?")).await;
    app.drain().await;
    let prompt = system(&app, &run).await;
    assert!(
        prompt.contains("Rule 19:") && !prompt.contains("Rule 0:"),
        "the newest count: {prompt}"
    );
    let report = report(&app, &run).await;
    assert!(
        report.to_string().contains("the budget is used up"),
        "{report}"
    );
    app.check().await;
}
