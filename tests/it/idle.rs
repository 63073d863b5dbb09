//! The idle week: after each of these scenarios, an engine to which nobody writes asks no model, sends no mail and stores nothing.
//! A sample of all other tests has the same week at its first check (`app::idle`).

use crate::app::{PROVEN, TestApp, Workspace, db, idle, note};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

/// What a house looks like, and how many letters come.
struct Scenario {
    name: &'static str,
    model: fn() -> Value,
    prepare: fn(&Workspace),
    letters: usize,
    /// Whether all letters are of one thread.
    is_one_thread: bool,
}

fn yes() -> Value {
    json!({ "rules": [{ "say": "Yes." }] })
}

fn failing(class: &str) -> Value {
    json!({ "rules": [{ "error": { "class": class, "message": "no" } }] })
}

const PLAIN: Scenario = Scenario {
    name: "letters are answered",
    model: yes,
    prepare: |_| {},
    letters: 4,
    is_one_thread: false,
};

const SCENARIOS: [Scenario; 16] = [
    PLAIN,
    Scenario {
        name: "nobody ever wrote",
        letters: 0,
        ..PLAIN
    },
    Scenario {
        name: "a long thread is summarised",
        prepare: |house| {
            let steps = json!(["persona", { "use": "thread-summary", "budget_tokens": 2000 },
                { "use": "thread-history", "budget_tokens": 200 }, "invocation-metadata", "current-input"]);
            house.set("configs/context.json", "/thread", steps);
        },
        letters: 30,
        is_one_thread: true,
        ..PLAIN
    },
    Scenario {
        name: "the model refuses",
        model: || failing("permission"),
        ..PLAIN
    },
    Scenario {
        name: "the model is overloaded",
        model: || failing("overloaded"),
        ..PLAIN
    },
    Scenario {
        name: "the model says nothing that is understood",
        model: || failing("protocol"),
        ..PLAIN
    },
    Scenario {
        name: "the money of the day is gone",
        prepare: |house| {
            house.set("configs/inference.json", "/max_output_tokens", json!(100));
            let budget = json!({ "day_usd_max": 0.0012 });
            house.set("configs/inference.json", "/budget", budget);
            let price = json!({ "provider": "scripted", "model": "*", "input": 0, "output": 10 });
            house.write_json(
                "configs/prices.json",
                &json!({ "version": "v1", "prices": [price] }),
            );
        },
        ..PLAIN
    },
    Scenario {
        name: "no mail is left for the day",
        prepare: |house| {
            let budget = json!({ "persona_day_mails_max": 1 });
            house.set("configs/inference.json", "/budget", budget);
        },
        ..PLAIN
    },
    Scenario {
        name: "the organisation has had its answers",
        prepare: |house| {
            let limits = json!({ "domain_runs_per_day_max": 1 });
            house.set("configs/gateway.json", "/limits", limits);
        },
        ..PLAIN
    },
    Scenario {
        name: "answers wait as drafts",
        prepare: |house| house.set("personas/ada/persona.json", "/reply", json!("draft")),
        ..PLAIN
    },
    Scenario {
        name: "the way out is away",
        prepare: |house| {
            // Nothing listens there.
            let away =
                json!({ "kind": "smarthost", "host": "127.0.0.1", "port": 1, "tls": "none" });
            house.set("configs/gateway.json", "/outbound", away);
        },
        ..PLAIN
    },
    Scenario {
        name: "a webhook is away",
        prepare: |house| {
            let secret = "WEBHOOK_SECRET=whsec_dGhpcnR5LXR3byBieXRlcyBvZiBhIHNlY3JldCBrZXk=\n";
            house.write(".secrets", secret);
            let mode = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(house.path().join(".secrets"), mode).expect("its mode");
            let away = json!([{ "name": "ops", "url": "http://127.0.0.1:1/", "private_target": true,
                "secret_variable": "WEBHOOK_SECRET" }]);
            house.set("configs/gateway.json", "/webhooks", away);
        },
        ..PLAIN
    },
    Scenario {
        name: "vectors cannot be made",
        prepare: |house| {
            let providers = json!({
                "scripted": { "script": "configs/script.json" }, "compat:local": { "base_url": "http://127.0.0.1:1/v1" },
            });
            house.set("configs/inference.json", "/providers", providers);
            let vectors = json!({ "provider": "compat:local", "model": "topics" });
            house.set("configs/inference.json", "/embeddings", vectors);
        },
        ..PLAIN
    },
    Scenario {
        name: "letters are filed",
        prepare: |house| {
            house.write_json(
                "configs/security.json",
                &json!({ "access": { "allow": [] } }),
            );
        },
        ..PLAIN
    },
    Scenario {
        name: "a text is missing",
        prepare: |house| {
            std::fs::remove_file(house.path().join("personas/ada/active.md")).expect("a file");
        },
        ..PLAIN
    },
    Scenario {
        name: "one place for all runs",
        prepare: |house| {
            let one = json!({ "runs_max": 1, "runs_per_persona_max": 1 });
            house.set("configs/inference.json", "/concurrency", one);
        },
        letters: 12,
        ..PLAIN
    },
];

fn letter(n: usize, is_one_thread: bool) -> String {
    let more = match is_one_thread && n > 0 {
        true => format!("{PROVEN}References: <i.0@guest.example>\n"),
        false => PROVEN.to_owned(),
    };
    let body = "The weir is quiet at dusk and the path along it is dry. ".repeat(8);
    note(&format!("i.{n}@guest.example"), &more, &body)
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_engine_to_which_nobody_writes_does_nothing_for_a_week() {
    for scenario in SCENARIOS {
        let workspace = Workspace::new(&(scenario.model)());
        // Those that bound something have their own limits.
        let workspace = match scenario.name {
            "the organisation has had its answers" => workspace,
            _ => workspace.talkative(),
        };
        (scenario.prepare)(&workspace);
        let app = workspace.start().await;
        for n in 0..scenario.letters {
            let letter = letter(n, scenario.is_one_thread);
            app.receive(&letter).await.expect("taken");
        }
        // The copy works off what is due: nothing of it has been done.
        let grown = idle::growth(&app.workspace).await;
        assert!(
            grown.is_empty(),
            "{}: before any work: {grown:#?}",
            scenario.name
        );
        app.drain().await;
        let grown = idle::growth(&app.workspace).await;
        assert!(grown.is_empty(), "{}: {grown:#?}", scenario.name);
    }
}

/// The control: a run that queues another an hour later is found, though none asks a model.
#[tokio::test]
#[ignore = "second tier"]
async fn a_chain_of_runs_is_no_idle_week() {
    if crate::app::database::is_sqlite_only("the week is played on a copy of a file") {
        return;
    }
    let app = TestApp::start(yes()).await;
    app.run_of(&letter(0, false)).await;
    app.drain().await;
    let again = "CREATE TRIGGER again AFTER UPDATE OF state ON runs WHEN new.state = 'succeeded' BEGIN
        INSERT INTO runs (id, persona_id, thread_id, trigger, trigger_message_id, profile, state, created_at, next_attempt_at)
        VALUES (lower(hex(randomblob(8))), new.persona_id, new.thread_id, 'summary', new.trigger_message_id, new.profile, 'queued',
          new.created_at, strftime('%Y-%m-%dT%H:%M:%fZ', new.finished_at, '+1 hour'));
        END";
    let mut rows = app.workspace.rows().await;
    rows.unchecked().await;
    db::raw_sql(again)
        .execute(&mut rows)
        .await
        .expect("a trigger");
    assert!(
        idle::growth(&app.workspace).await.is_empty(),
        "it has not begun"
    );
    app.run_of(&letter(1, false)).await;
    app.drain().await;
    let grown = idle::growth(&app.workspace).await;
    assert!(
        grown.iter().any(|line| line.starts_with("runs: ")),
        "{grown:#?}"
    );
}
