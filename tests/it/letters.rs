//! Options of letters by the address that they came to: profile, form and destination of the answer, tools.

use crate::app::{TestApp, Workspace};
use crate::structured::{CANONICAL, GOOD, SCHEMA, WRONG, output};
use attache::config::LetterRules;
use attache::replay::verify::Outcome;
use serde_json::{Value, json};

/// Ada, with an alias and these members of her file.
fn place(script: &Value, members: &Value) -> Workspace {
    let workspace = Workspace::new(script);
    let file = "personas/ada/persona.json";
    workspace.set(file, "/aliases", json!(["sales@engine.test"]));
    for (key, value) in members.as_object().expect("an object") {
        workspace.set(file, &format!("/{key}"), value.clone());
    }
    let steps = json!(["persona", "current-input"]);
    workspace.set("configs/context.json", "/quotes", steps.clone());
    workspace.set("configs/context.json", "/sales", steps);
    workspace.write("personas/ada/schemas/arrivals.json", SCHEMA);
    workspace
}

fn says(texts: &[&str]) -> Value {
    let turns: Value = texts.iter().map(|text| json!({ "say": text })).collect();
    json!({ "turns": turns })
}

fn to(address: &str, id: &str) -> String {
    crate::app::note(id, "", "Who comes?").replace("To: ada@engine.test", &format!("To: {address}"))
}

async fn profile_of(app: &TestApp, run: &str) -> String {
    let row = app.row("SELECT profile FROM runs WHERE id = $1", run).await;
    row[0].clone().expect("a profile")
}

async fn verified(app: &TestApp) {
    for run in app.workspace.verified().await {
        assert!(matches!(run.outcome, Outcome::Identical { .. }), "{run:?}");
    }
}

#[tokio::test]
async fn the_closest_rule_chooses_and_an_unknown_tag_chooses_nothing() {
    let rules = json!({ "letters": {
        "+quotes": { "profile": "quotes" },
        "sales": { "profile": "sales" },
        "sales+urgent@engine.test": { "profile": "responsibility" },
    } });
    let app = place(&json!({ "rules": [{ "say": "Noted." }] }), &rules)
        .start()
        .await;
    let long = format!("ada+{}@engine.test", "q".repeat(60));
    for (number, (address, profile)) in [
        ("ada@engine.test", "thread"),
        ("ada+quotes@engine.test", "quotes"),
        ("Ada+QUOTES@Engine.TEST", "quotes"),
        ("ada+other@engine.test", "thread"),
        ("ada+quotes+x@engine.test", "thread"),
        ("ada+thread@engine.test", "thread"),
        ("sales@engine.test", "sales"),
        ("sales+other@engine.test", "sales"),
        ("sales+quotes@engine.test", "quotes"),
        ("sales+urgent@engine.test", "responsibility"),
        (long.as_str(), "thread"),
    ]
    .into_iter()
    .enumerate()
    {
        // Each from somebody else: one correspondent gets so many answers an hour.
        let letter = to(address, &format!("{number}@guest.example"));
        let letter = letter.replace("bob@", &format!("bob{number}@"));
        let run = app.run_of(&letter).await;
        assert_eq!(profile_of(&app, &run).await, profile, "{address}");
    }
    app.drain().await;
    let answers = app.sent();
    assert!(
        answers
            .iter()
            .all(|mail| mail.from[0].spec == "ada@engine.test"),
        "{answers:?}"
    );
    verified(&app).await;
    app.check().await;
}

/// Of several addresses the closest rule decides, whatever their order.
#[test]
fn the_order_of_recipients_decides_between_equals_only() {
    let workspace = place(
        &says(&[]),
        &json!({ "letters": {
        "+quotes": { "profile": "quotes" }, "sales": { "profile": "sales" }, "+more": { "profile": "responsibility" },
    } }),
    );
    let names = attache::cli::name_catalog();
    let config = attache::config::load(workspace.path(), &names).expect("a configuration");
    let ada = config.personas.iter().next().expect("Ada");
    let rules: &LetterRules = &ada.letters;
    let chosen = |addresses: &[&str]| {
        let parsed: Vec<_> = addresses
            .iter()
            .map(|text| attache::domain::Address::parse(text).expect("one"))
            .collect();
        rules.for_letter_to(&parsed).run_options.profile.clone()
    };
    assert_eq!(
        chosen(&["sales@engine.test", "ada+quotes@engine.test"]),
        "quotes"
    );
    assert_eq!(
        chosen(&["ada+quotes@engine.test", "sales@engine.test"]),
        "quotes"
    );
    assert_eq!(
        chosen(&["ada+more@engine.test", "ada+quotes@engine.test"]),
        "responsibility"
    );
    assert_eq!(chosen(&["ada@engine.test"]), "thread");
    assert_eq!(chosen(&[]), "thread");
}

#[tokio::test]
async fn an_answer_to_a_letter_fits_its_schema_and_is_mailed_in_a_fence() {
    let rules = json!({ "letters": { "+quotes": { "output_schema": "schemas/arrivals.json", "tools": ["read_file"] } } });
    let app = place(&says(&[WRONG, GOOD]), &rules).start().await;
    let run = app
        .run_of(&to("ada+quotes@engine.test", "a@guest.example"))
        .await;
    // What is in force for a letter is what was in force when it came.
    app.workspace.write(
        "personas/ada/schemas/arrivals.json",
        r#"{ "type": "string" }"#,
    );
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    assert_eq!(output(&app, &run).await, Some((CANONICAL.to_owned(), 1)));
    let sent = app.sent();
    assert_eq!(sent.len(), 1);
    assert!(sent[0].text.contains("\"guests\""), "{}", sent[0].text);
    assert_eq!(sent[0].to[0].spec, "bob@guest.example");
    let prompts = app.prompts(&run).await;
    let tools = prompts[0]["tools"].as_array().map_or(0, Vec::len);
    assert!(tools <= 1, "{}", prompts[0]);
    verified(&app).await;
    app.check().await;
}

#[tokio::test]
async fn an_answer_that_never_fits_is_not_mailed() {
    let rules = json!({ "output_schema": "schemas/arrivals.json" });
    let app = place(&says(&[WRONG, WRONG, "no JSON", GOOD]), &rules)
        .start()
        .await;
    let run = app.run_of(&to("ada@engine.test", "a@guest.example")).await;
    app.drain().await;
    let (state, stop, error) = app.outcome(&run).await;
    assert_eq!(
        (state.as_str(), stop.as_deref()),
        ("failed", Some("failed"))
    );
    assert_eq!(error.as_deref(), Some("output_invalid"));
    assert_eq!((output(&app, &run).await, app.sent().len()), (None, 0));
    assert_eq!(
        app.prompts(&run).await.len(),
        3,
        "asked, and asked again twice"
    );
    verified(&app).await;
    app.check().await;
}

#[tokio::test]
async fn an_answer_goes_to_the_owners_or_nowhere() {
    let rules = json!({ "letters": {
        "+inbox": { "deliver_to": "owners", "output_schema": "schemas/arrivals.json" },
        "+file": { "deliver_to": "store", "output_schema": "schemas/arrivals.json" },
    } });
    let app = place(&json!({ "rules": [{ "say": GOOD }] }), &rules)
        .start()
        .await;
    let told = app
        .run_of(&to("ada+inbox@engine.test", "a@guest.example"))
        .await;
    let filed = app
        .run_of(&to("ada+file@engine.test", "b@guest.example"))
        .await;
    app.drain().await;
    let sent = app.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].to[0].spec, "olga@home.test");
    // What the owner is told is nothing of the sender's thread.
    let sql = "SELECT CASE WHEN m.thread_id = r.thread_id THEN '1' ELSE '0' END FROM messages m JOIN runs r ON r.id = m.run_id WHERE r.id = $1";
    assert_eq!(app.row(sql, &told).await[0].as_deref(), Some("0"));
    let sql = "SELECT disposition FROM messages WHERE run_id = $1";
    assert_eq!(
        app.row(sql, &filed).await[0].as_deref(),
        Some("withheld:store_only")
    );
    assert_eq!(output(&app, &filed).await.map(|found| found.1), Some(0));
    verified(&app).await;
    app.check().await;
}

#[test]
fn every_mistake_in_a_rule_is_named() {
    for (members, says) in [
        (json!({ "profile": "nope" }), "no profile `nope`"),
        (
            json!({ "output_schema": "../x.json" }),
            "leads out of the persona's folder",
        ),
        (
            json!({ "output_schema": "schemas/gone.json" }),
            "schemas/gone.json",
        ),
        (json!({ "letters": { "+a.x": {} } }), "belong to the engine"),
        (json!({ "letters": { "+": {} } }), "has no tag"),
        (
            json!({ "letters": { "bob@engine.test": {} } }),
            "is no address of this persona",
        ),
        (
            json!({ "letters": { "+q": { "profile": "nope" } } }),
            "no profile `nope`",
        ),
        (
            json!({ "letters": { "+q": { "tools": ["nope"] } } }),
            "no tool `nope`",
        ),
        (
            json!({ "tools": ["read_file"], "letters": { "+q": { "tools": ["send_email"] } } }),
            "the persona may not use `send_email`",
        ),
        (
            json!({ "letters": { "+q": { "deliver_to": ["eve@new.test"] } } }),
            "no owner and stands not in `send_allow`",
        ),
        (
            json!({ "letters": { "+q": { "deliver_to": [] } } }),
            "names 0 people",
        ),
        (
            json!({ "letters": { "+Q": {}, "+q": {} } }),
            "is for the same letters",
        ),
        (json!({ "reply": "later" }), "later"),
    ] {
        let workspace = place(&json!({ "turns": [] }), &members);
        let names = attache::cli::name_catalog();
        let refused = attache::config::load(workspace.path(), &names).err();
        let refused = refused.unwrap_or_else(|| panic!("{members} was taken"));
        assert!(
            refused.to_string().contains(says) || format!("{refused:?}").contains(says),
            "{members}: {refused}"
        );
    }
}

#[tokio::test]
async fn a_rule_sets_model_length_temperature_turns_and_time() {
    let rules = json!({ "temperature": 1.5, "letters": { "+quotes": {
        "model": "small", "max_output_tokens": 77, "temperature": 0.2, "max_tool_turns": 2, "tool_calls_max": 9,
        "duration_max": "5m", "call_timeout": "30s", "idle_timeout": "10s",
    } } });
    let script = json!({ "rules": [{ "call": [{ "tool": "list_files", "args": {} }] }] });
    let app = place(&script, &rules).start().await;
    let run = app
        .run_of(&to("ada+quotes@engine.test", "a@guest.example"))
        .await;
    let other = app
        .run_of(&to("ada@engine.test", "b@guest.example").replace("bob@", "eve@"))
        .await;
    app.drain().await;
    let asked = &app.prompts(&run).await;
    assert_eq!(asked.len(), 3, "two turns, and the final one");
    let shown = |run: String| {
        let sql = "SELECT model, limits_json FROM runs WHERE id = $1";
        let app = &app;
        async move { app.row(sql, &run).await }
    };
    let row = shown(run.clone()).await;
    assert_eq!(row[0].as_deref(), Some("small"));
    assert_ne!(shown(other).await[0].as_deref(), Some("small"));
    let options = app
        .row("SELECT run_options_json FROM runs WHERE id = $1", &run)
        .await;
    let options: Value =
        serde_json::from_str(options[0].as_deref().expect("options")).expect("JSON");
    for (key, value) in [
        ("model", json!("small")),
        ("max_output_tokens", json!(77)),
        ("max_tool_turns", json!(2)),
        ("tool_calls_max", json!(9)),
    ] {
        assert_eq!(options[key], value, "{options}");
    }
    assert!(asked[0].to_string().contains("77"), "{}", asked[0]);
    verified(&app).await;
    app.check().await;
}

#[test]
fn a_rule_that_names_no_model_or_no_time_is_a_problem_with_its_place() {
    for (rule, expected) in [
        (
            json!({ "provider": "nobody", "model": "m" }),
            "no provider `nobody`",
        ),
        (
            json!({ "provider": "openai" }),
            "a provider without a model",
        ),
        (json!({ "duration_max": "25h" }), "`25h` is out of range"),
        (json!({ "call_timeout": "1ms" }), "`1ms` is out of range"),
        (json!({ "temperature": 3 }), "temperature"),
        (json!({ "max_tool_turns": 0 }), "max_tool_turns"),
    ] {
        let workspace = place(&says(&[]), &json!({ "letters": { "+quotes": rule } }));
        let errors = attache::config::load(workspace.path(), &attache::cli::name_catalog());
        let problems: Vec<String> = match errors {
            Ok(_) => Vec::new(),
            Err(errors) => errors.problems.iter().map(ToString::to_string).collect(),
        };
        assert!(
            problems
                .iter()
                .any(|problem| problem.contains(expected) && problem.contains("persona.json")),
            "{rule}: {problems:?}"
        );
    }
}
