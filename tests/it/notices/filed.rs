//! The owners hear of letters that were filed, once a day, and of correspondents who meet a limit.

use crate::app::{TestApp, Workspace};
use crate::guest_house::GuestHouse;
use serde_json::json;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Nobody is allowed, so whoever proves nothing is filed.
fn strict() -> Workspace {
    let workspace = Workspace::new(&json!({ "rules": [{ "say": "Yes." }] }));
    workspace.write_json(
        "configs/security.json",
        &json!({ "access": { "allow": ["*@friend.example"] } }),
    );
    workspace
}

fn from(sender: &str, id: &str, more: &str) -> String {
    format!(
        "From: {sender}\nTo: ada@engine.test\nSubject: Spare helmets\nMessage-ID: <{id}@x.example>\n{more}\nHave you any?\n"
    )
}

async fn receive(app: &TestApp, eml: &str) -> String {
    app.receive(eml).await.expect("the letter is taken").copies[0]
        .message
        .to_string()
}

/// Lets time pass, and what is due happen.
async fn pass(app: &TestApp, time: Duration) {
    app.workspace.clock.advance(time);
    app.drain().await;
}

#[tokio::test]
async fn the_first_filed_letter_is_told_at_once_later_ones_once_a_day() {
    let app = strict().start().await;
    let first = receive(&app, &from("Bob <bob@stranger.example>", "1", "")).await;
    app.drain().await;
    let told = app.notices();
    assert_eq!(told.len(), 1);
    assert_eq!(
        told[0].subject,
        "[attache] letters of ada were filed and not answered"
    );
    let said = &told[0].text;
    let wanted = [
        "`bob@stranger.example` about `Spare helmets` is filed as `unauthenticated`: nothing proves who sent it",
        &first,
        "`attache runs answer ID`",
        "`allow` under `access`",
    ];
    for wanted in wanted {
        assert!(said.contains(wanted), "no `{wanted}` in {said}");
    }
    assert!(
        !said.contains("Bob") && !said.contains("Have you any"),
        "{said}"
    );

    for number in 2..=20 {
        receive(&app, &from("bob@stranger.example", &number.to_string(), "")).await;
    }
    receive(
        &app,
        &from(
            "news@stranger.example",
            "list",
            "List-Id: <news.stranger.example>\n",
        ),
    )
    .await;
    for _hour in 0..22 {
        pass(&app, HOUR).await;
    }
    assert_eq!(app.notices().len(), 1, "a day is not over");
    for _hour in 0..3 {
        pass(&app, HOUR).await;
    }
    let told = app.notices();
    assert_eq!(told.len(), 2);
    let said = &told[1].text;
    assert!(
        said.contains("20 letters to ada were filed since 2026-11-20T09:00:00"),
        "{said}"
    );
    assert!(said.contains("1 `list`, 19 `unauthenticated`"), "{said}");
    pass(&app, DAY).await;
    pass(&app, DAY).await;
    assert_eq!(app.notices().len(), 2, "nothing came since");
    app.check().await;
}

#[tokio::test]
async fn mail_of_programs_is_not_told_and_who_wants_none_gets_none() {
    let app = strict().start().await;
    for (id, more) in [
        ("1", "List-Id: <news.x.example>\n"),
        ("2", "Auto-Submitted: auto-replied\n"),
    ] {
        receive(&app, &from("bob@stranger.example", id, more)).await;
    }
    pass(&app, DAY).await;
    assert!(app.notices().is_empty());

    let workspace = strict();
    workspace.set(
        "configs/gateway.json",
        "/notices",
        json!({ "filed_interval": "0s" }),
    );
    let app = workspace.start().await;
    receive(&app, &from("bob@stranger.example", "1", "")).await;
    pass(&app, DAY).await;
    assert!(app.notices().is_empty());
}

#[tokio::test]
async fn letters_to_two_personas_are_told_apart() {
    let workspace = strict();
    workspace.persona("bea", "Bea");
    let app = workspace.start().await;
    receive(&app, &from("bob@stranger.example", "1", "")).await;
    receive(
        &app,
        &from("carl@stranger.example", "2", "").replace("ada@", "bea@"),
    )
    .await;
    app.drain().await;
    let told = app.notices();
    assert_eq!(told.len(), 2);
    for mail in &told {
        let is_adas = mail.from[0].to_string().contains("ada@");
        let (own, other) = if is_adas {
            ("bob@", "carl@")
        } else {
            ("carl@", "bob@")
        };
        assert!(
            mail.text.contains(own) && !mail.text.contains(other),
            "{}",
            mail.text
        );
    }
}

#[tokio::test]
async fn a_correspondent_who_meets_a_limit_is_told_once_a_day() {
    let workspace = strict();
    workspace.set(
        "configs/gateway.json",
        "/limits",
        json!({ "replies_per_hour_max": 2, "alternations_max": 1000 }),
    );
    let app = workspace.start().await;
    for number in 1..=5 {
        receive(&app, &from("anna@friend.example", &number.to_string(), "")).await;
        app.drain().await;
    }
    let told = app.notices();
    assert_eq!(told.len(), 1, "{told:#?}");
    assert_eq!(
        told[0].subject,
        "[attache] `unverified:anna@friend.example` has had as many answers of ada as they may have"
    );
    let said = &told[0].text;
    assert!(
        said.contains("`replies_per_hour_max` or `replies_per_day_max`")
            && said.contains("rate_limited"),
        "{said}"
    );
    assert_eq!(app.sent().len(), 2);

    app.workspace.clock.advance(DAY);
    for number in 6..=9 {
        receive(&app, &from("anna@friend.example", &number.to_string(), "")).await;
        app.drain().await;
    }
    assert_eq!(app.notices().len(), 2);
    app.check().await;
}

#[tokio::test]
async fn a_conversation_that_is_cut_short_is_told() {
    let workspace = strict();
    workspace.set(
        "configs/gateway.json",
        "/limits",
        json!({ "alternations_max": 1 }),
    );
    let app = workspace.start().await;
    for number in 1..=4 {
        let before = if number > 1 {
            "In-Reply-To: <1@x.example>\n"
        } else {
            ""
        };
        receive(
            &app,
            &from("anna@friend.example", &number.to_string(), before),
        )
        .await;
        app.drain().await;
    }
    let told = app.notices();
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(
        told[0].text.contains("`alternations_max`"),
        "{}",
        told[0].text
    );
    app.check().await;
}

/// A guest house with a duty that says nothing of where its answers go.
fn counting() -> GuestHouse {
    let house = GuestHouse::new();
    house.write(
        "personas/concierge/responsibilities/count.md",
        "---\nname: Count\nschedule: \"0 9 * * *\"\n---\nCount the letters.\n",
    );
    house
}

#[test]
fn a_duty_that_mails_without_owners_is_a_problem_of_its_file() {
    let house = counting();
    house.ok(&["config", "check"]);
    house.set("configs/gateway.json", "/owners", json!([]));
    let checked = house.run(&["config", "check"]);
    assert_eq!(checked.code, 65, "{}", checked.stdout);
    let said = "personas/concierge/responsibilities/count.md: line 4: its answers go to the owners, and there are none; name one \
                in `owners` of `configs/gateway.json`, or write `deliver_to: store`";
    assert!(checked.stdout.contains(said), "{}", checked.stdout);
    for (key, value) in [
        ("enabled", "false"),
        ("deliver_to", "store"),
        ("deliver_to", "{ mail: [laundry@suppliers.example] }"),
    ] {
        let file = format!(
            "---\nname: Count\nschedule: \"0 9 * * *\"\n{key}: {value}\n---\nCount the letters.\n"
        );
        house.write("personas/concierge/responsibilities/count.md", &file);
        house.ok(&["config", "check"]);
    }
}

#[test]
fn a_run_whose_answer_nobody_gets_has_not_answered() {
    let house = counting();
    house.ok(&["schedule", "run", "Count"]);
    // The owner goes while the run waits.
    house.set("configs/gateway.json", "/owners", json!([]));
    let drained = house.run(&["drain"]);
    assert!(
        drained.stdout.contains("0 succeeded, 1 failed"),
        "{}{}",
        drained.stdout,
        drained.stderr
    );
    let shown = house.json(&["runs", "show", "last"]);
    let run = &shown["run"];
    assert_eq!(
        (&run["state"], &run["stop_reason"]),
        (&json!("failed"), &json!("failed")),
        "{run}"
    );
    assert!(
        run["error"]["message"]
            .as_str()
            .is_some_and(|why| why.contains("nobody to send it to")),
        "{run}"
    );
    assert_eq!(
        shown["mails"][0]["message"]["disposition"],
        "withheld:no_recipient"
    );
    let told = house.json(&["notices", "list"]);
    assert!(told.to_string().contains("run_failed"), "{told}");
}
