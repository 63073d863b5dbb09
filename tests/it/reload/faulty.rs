//! A faulty file leaves what was good before in force, whatever file it is, and is told once.

use super::answering;
use crate::app::{TestApp, Workspace, note};
use attache::app::{ReloadError, Reloader};
use attache::domain::{PersonaId, RunId};
use attache::store::files::guard::guard;
use serde_json::json;

const TOLD: &str = "SELECT CAST(count(*) AS TEXT), max(summary) FROM notices WHERE kind = $1";

async fn told(app: &TestApp) -> String {
    let row = app.row(TOLD, "config_faulty").await;
    row[0].clone().unwrap_or_default()
}

async fn settled(reloader: &mut Reloader) {
    for _seen_and_read in 0..2 {
        reloader.look().await.expect("looked");
    }
}

/// A file, what makes it faulty, and what makes it faulty in another way.
const FAULTY: [(&str, &str, &str); 9] = [
    ("configs/policy.json", "{ \"rules\": [ ", "{ \"rule\": [] }"),
    ("configs/prices.json", "{ \"prices\": 7 }", "[ ]"),
    (
        "configs/inference.json",
        "{ \"provider\": \"nobody\", \"model\": \"x\" }",
        "",
    ),
    ("configs/context.json", "{ \"thread\": [] ", "{ }"),
    (
        "configs/security.json",
        "{ \"access\": { \"allow\": [7] } }",
        "nonsense",
    ),
    (
        "configs/gateway.json",
        "{ \"mail_domain\": \"engine.test\", \"tls\": { \"certificate\": \"none.pem\", \"key\": \"none.key\" } }",
        "{ \"mail_domain\": \"\" }",
    ),
    ("configs/hooks.json", "{ \"hooks\": 1 }", "{"),
    (
        "personas/ada/persona.json",
        "{ \"name\": ",
        "{ \"colour\": 1 }",
    ),
    (".secrets", "no key at all", "KEY=value\nno key at all"),
];

#[tokio::test]
#[ignore = "second tier"]
async fn every_faulty_file_leaves_the_last_good_in_force_and_is_told_once() {
    for (file, faulty, otherwise) in FAULTY {
        let app = TestApp::start(answering()).await;
        let path = app.workspace.path().join(file);
        let good = std::fs::read_to_string(&path).ok();
        let mut reloader = app.engine.reloader();
        let before = app.engine.config_in_force();
        app.workspace.write(file, faulty);
        for _again in 0..3 {
            settled(&mut reloader).await;
        }
        assert_eq!(told(&app).await, "1", "{file}");
        app.workspace.write(file, otherwise);
        settled(&mut reloader).await;
        assert_eq!(told(&app).await, "2", "{file}: another problem");
        let now = app.engine.config_in_force();
        assert!(std::sync::Arc::ptr_eq(&before, &now), "{file}");
        let run = app.run_of(&note("q@guest.example", "", "When?")).await;
        app.drain().await;
        assert_eq!(app.outcome(&run).await.0, "succeeded", "{file}");
        match good {
            Some(good) => app.workspace.write(file, &good),
            None => std::fs::remove_file(&path).expect("removed"),
        }
        app.workspace.set(
            "configs/gateway.json",
            "/limits",
            json!({ "replies_per_day_max": 77 }),
        );
        settled(&mut reloader).await;
        assert_eq!(told(&app).await, "2", "{file}");
        let now = app.engine.config_in_force();
        assert_eq!(now.limits.replies_per_day_max, 77, "{file}: good again");
        app.check().await;
    }
}

#[tokio::test]
async fn a_persona_that_becomes_faulty_stays_as_it_was_and_holds_nobody_up() {
    let workspace = Workspace::new(&answering());
    workspace.persona("eve", "Eve");
    let app = workspace.start().await;
    let mut reloader = app.engine.reloader();
    app.workspace
        .set("personas/eve/persona.json", "/colour", json!("red"));
    app.workspace.persona("ben", "Ben");
    settled(&mut reloader).await;
    assert_eq!(told(&app).await, "1");
    let personas = app.engine.config_in_force().personas.clone();
    assert_eq!(
        personas.iter().count(),
        3,
        "the new one and the last good one"
    );
    assert!(personas.out_of_service().is_empty());
    let to = |who: &str| {
        note(&format!("{who}@guest.example"), "", "Hello").replace("ada@", &format!("{who}@"))
    };
    for who in ["eve", "ben"] {
        let run = app.run_of(&to(who)).await;
        app.drain().await;
        assert_eq!(app.outcome(&run).await.0, "succeeded", "{who}");
    }
    // One that never worked is out of service, as at a start.
    app.workspace.write(
        "personas/zoe/persona.json",
        "{ \"name\": \"Zoe\", \"colour\": 1 }",
    );
    settled(&mut reloader).await;
    let personas = app.engine.config_in_force().personas.clone();
    assert_eq!(
        (personas.iter().count(), personas.out_of_service().len()),
        (3, 1)
    );
    app.workspace.persona("zoe", "Zoe");
    app.workspace.persona("eve", "Evelyn");
    settled(&mut reloader).await;
    let personas = app.engine.config_in_force().personas.clone();
    assert_eq!(
        (personas.iter().count(), personas.out_of_service().len()),
        (4, 0)
    );
    assert!(personas.iter().any(|persona| persona.name == "Evelyn"));
    assert_eq!(told(&app).await, "1");
    app.check().await;
}

#[tokio::test]
async fn what_cannot_be_built_is_refused_like_what_cannot_be_read() {
    let app = TestApp::start(answering()).await;
    let before = app.engine.config_in_force();
    app.workspace.set(
        "configs/inference.json",
        "/providers/scripted/script",
        json!("configs/none.json"),
    );
    let refused = app.engine.reload().await.expect_err("no script");
    let ReloadError::Faulty(errors) = refused else {
        panic!("{refused}")
    };
    assert_eq!(errors.problems[0].file, "configs/inference.json");
    assert!(std::sync::Arc::ptr_eq(
        &before,
        &app.engine.config_in_force()
    ));
}

#[tokio::test]
async fn a_faulty_prompt_is_told_and_runs_read_the_last_good_one() {
    let app = TestApp::start(answering()).await;
    let mut reloader = app.engine.reloader();
    let good = "You are {{ persona.name }}. Today is {{ date }}.";
    for (number, (written, read)) in [
        (
            "You are {{ persona.name }} of {{ nowhere }}.",
            "You are Ada. Today is",
        ),
        ("You are {{ persona.name ", "You are Ada. Today is"),
        ("You are {{ persona.name }} again.", "You are Ada again."),
        ("{% for x in %}", "You are Ada again."),
        (good, "You are Ada. Today is"),
    ]
    .into_iter()
    .enumerate()
    {
        app.workspace.write("configs/prompts/system.md", written);
        settled(&mut reloader).await;
        let letter = note(&format!("p{number}@guest.example"), "", "When?");
        let run = app.run_of(&letter).await;
        app.drain().await;
        let told = app.prompts(&run).await[0]["system"][0].to_string();
        assert!(told.contains(read), "{written}: {told}");
    }
    assert_eq!(told(&app).await, "3");
    app.check().await;
}

#[tokio::test]
async fn what_an_agent_writes_into_its_personas_file_is_not_in_force() {
    let app = TestApp::start(answering()).await;
    let mut reloader = app.engine.reloader();
    let ada = PersonaId::parse("ada").expect("an id");
    let home = app.engine.config.workspace.join("personas/ada");
    let now = app.engine.store.clock().now();
    guard(&home, &ada, &RunId::new("r"), now).expect("an agent works");
    app.workspace.persona("ada", "Another");
    app.workspace.persona("eve", "Eve");
    for _again in 0..2 {
        settled(&mut reloader).await;
        let personas = app.engine.config_in_force().personas.clone();
        assert_eq!(personas.get(&ada).expect("she is there").name, "Ada");
        assert_eq!(personas.iter().count(), 2, "others are read");
    }
    // The agent has ended, and the edit was its owner's.
    std::fs::remove_dir_all(app.workspace.path().join("data/agents/ada")).expect("ended");
    reloader.look().await.expect("looked");
    let personas = app.engine.config_in_force().personas.clone();
    assert_eq!(personas.get(&ada).expect("she is there").name, "Another");
    assert_eq!(told(&app).await, "0");
}
