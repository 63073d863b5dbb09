//! Waiting letters of one thread that one run answers (decision D-170).

use crate::app::{PROVEN, TestApp, Workspace, db, note};
use crate::maintenance::workspace::attache;
use serde_json::json;

const FOLLOWS: &str = "References: <q1@guest.example>\n";

async fn house(letters_max: usize) -> TestApp {
    let workspace = Workspace::new(&json!({ "rules": [{ "say": "Noted, all of it." }] }));
    let key = "/limits/letters_per_run_max";
    workspace.set("configs/gateway.json", key, json!(letters_max));
    workspace.start().await
}

/// How each run ended, oldest first, with the number of letters that it answered.
async fn ends(app: &TestApp) -> Vec<(String, i64)> {
    let sql = "SELECT coalesce(stop_reason, state) AS ending, letters FROM runs ORDER BY seq";
    let rows = db::query(sql)
        .fetch_all(&mut app.workspace.rows().await)
        .await
        .expect("runs");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

fn ended(ends: &[(&str, i64)]) -> Vec<(String, i64)> {
    ends.iter()
        .map(|(end, letters)| ((*end).to_owned(), *letters))
        .collect()
}

const TOGETHER: &str = "answered_together";

#[tokio::test]
async fn letters_that_wait_in_a_thread_have_one_answer() {
    let app = house(8).await;
    let mut runs = Vec::new();
    for (id, more, text) in [
        ("q1", "", "When is breakfast?"),
        ("q2", FOLLOWS, "And is there tea?"),
        ("q3", FOLLOWS, "Forget the tea. May my dog come?"),
    ] {
        let letter = note(&format!("{id}@guest.example"), more, text);
        runs.push(app.run_of(&letter).await);
    }
    assert_eq!(app.drain().await.runs, 1);
    let wanted = ended(&[(TOGETHER, 1), (TOGETHER, 2), ("answered", 3)]);
    assert_eq!(ends(&app).await, wanted);
    let sent = app.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].in_reply_to, ["q3@guest.example"]);
    let prompt = app.prompts(&runs[2]).await.remove(0).to_string();
    let place = |text: &str| prompt.find(text).expect(text);
    let order = [
        "When is breakfast?",
        "is there tea?",
        "May my dog come?",
        "3 letters in a row",
    ];
    assert!(
        order.windows(2).all(|pair| place(pair[0]) < place(pair[1])),
        "{prompt}"
    );
    let (code, shown, _) = attache(app.workspace.path(), &["runs", "show", &runs[0]]).await;
    assert_eq!(code, 0);
    assert!(
        shown.contains(TOGETHER) && shown.contains(&runs[1]),
        "{shown}"
    );
    app.check().await;
}

#[tokio::test]
async fn one_run_answers_no_more_letters_than_it_may() {
    for (letters_max, ended_as) in [
        (1, ended(&[("answered", 1); 4])),
        (
            3,
            ended(&[
                (TOGETHER, 1),
                (TOGETHER, 2),
                ("answered", 3),
                ("answered", 1),
            ]),
        ),
    ] {
        let app = house(letters_max).await;
        for n in 1..=4 {
            let more = if n == 1 { "" } else { FOLLOWS };
            app.run_of(&note(&format!("q{n}@guest.example"), more, "And?"))
                .await;
        }
        app.drain().await;
        assert_eq!(ends(&app).await, ended_as);
        app.check().await;
    }
}

#[tokio::test]
async fn a_letter_whose_run_has_begun_keeps_it() {
    let app = house(8).await;
    app.run_of(&note("q1@guest.example", "", "When is breakfast?"))
        .await;
    let claimed = app.engine.store.claim_runs(1, 1).await.expect("claimed");
    for id in ["q2", "q3"] {
        app.run_of(&note(&format!("{id}@guest.example"), FOLLOWS, "And?"))
            .await;
    }
    let begun = ended(&[("running", 1), (TOGETHER, 1), ("queued", 2)]);
    assert_eq!(ends(&app).await, begun);
    let put_back = app
        .engine
        .store
        .requeue_run(&claimed[0].id, claimed[0].worked);
    put_back.await.expect("queued again");
    app.drain().await;
    let wanted = ended(&[("answered", 1), (TOGETHER, 1), ("answered", 2)]);
    assert_eq!(ends(&app).await, wanted);
    app.check().await;
}

/// An attachment, a long text, another sender, another trust, other recipients, a run of another profile.
#[tokio::test]
async fn what_the_run_of_the_next_letter_would_not_do_alike_is_answered_alone() {
    let plain = |id: &str, more: &str| note(id, more, "When is breakfast?");
    let with_file = "From: Bob <bob@guest.example>\nTo: ada@engine.test\nSubject: Breakfast\nMessage-ID: <q1@guest.example>\n\
        Date: Fri, 20 Nov 2026 09:00:00 +0000\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\
        Content-Type: text/plain\n\nLook at this.\n--b\nContent-Type: text/csv; name=a.csv\n\
        Content-Disposition: attachment; filename=a.csv\n\na,b\n--b--\n";
    let carol = plain("q2@guest.example", FOLLOWS).replace("Bob <bob@", "Carol <carol@");
    let first = plain("q1@guest.example", "");
    let to_all = |letter: &str| {
        letter.replace(
            "To: ada@",
            "To: bob@guest.example, carol@guest.example, ada@",
        )
    };
    let next = plain("q2@guest.example", FOLLOWS);
    for (earlier, later, why) in [
        (with_file.to_owned(), next.clone(), "attachment"),
        (
            note("q1@guest.example", "", &"a b ".repeat(751)),
            next.clone(),
            "length",
        ),
        (to_all(&first), to_all(&carol), "sender"),
        (to_all(&first), next.clone(), "recipients"),
        (plain("q1@guest.example", PROVEN), next, "trust"),
    ] {
        let app = house(8).await;
        app.run_of(&earlier).await;
        app.run_of(&later).await;
        app.drain().await;
        let alone = ended(&[("answered", 1); 2]);
        assert_eq!(ends(&app).await, alone, "{why}");
        app.check().await;
    }
}
