//! Letters that wait together share their statements: what becomes of each is what would have become of it alone, and
//! one that cannot be stored takes no other along.

use crate::app::database::is_sqlite_only;
use crate::app::db;
use crate::app::{TestApp, Workspace, letter, note};
use attache::gateway::intake_contract::{CopyOutcome, Refusal};
use futures_util::future::join_all;
use serde_json::json;

async fn quiet() -> TestApp {
    Workspace::new(&json!({ "rules": [{ "say": "Noted." }] }))
        .talkative()
        .start()
        .await
}

/// Letters of all kinds, many of which depend on one before: answers, a parent that comes late and joins two threads, a
/// second arrival, notes without a name.
fn letters() -> Vec<String> {
    let named = |id: &str, more: &str| {
        note(
            &format!("{id}@guest.example"),
            more,
            &format!("This is {id}."),
        )
    };
    let mut letters: Vec<String> = (0..70).map(|n| named(&format!("new{n}"), "")).collect();
    letters.push(named("answer", "References: <new3@guest.example>\n"));
    letters.push(named(
        "answer-of-answer",
        "References: <new3@guest.example> <answer@guest.example>\n",
    ));
    letters.push(named("orphan1", "In-Reply-To: <late@guest.example>\n"));
    letters.push(named("orphan2", "In-Reply-To: <later@guest.example>\n"));
    letters.push(named("late", "References: <later@guest.example>\n"));
    letters.push(named("new5", ""));
    letters.push(named("new6", "").replace("This is", "That was"));
    let nameless = named("x", "").replace("Message-ID: <x@guest.example>\n", "");
    letters.extend([nameless.clone(), nameless]);
    letters.push(named("report", "Auto-Submitted: auto-replied\n"));
    letters
}

/// What is stored, without ids and times: each thread by its letters in their order, with what became of them.
async fn threads(app: &TestApp) -> Vec<String> {
    let sql = "SELECT group_concat(line, ' | ') FROM (SELECT m.thread_id, m.message_id || ' ' || m.disposition || ' '
        || coalesce((SELECT r.state || r.behind FROM runs r WHERE r.trigger_message_id = m.id), '-') || ' '
        || (SELECT group_concat(address) FROM thread_participants p WHERE p.thread_id = m.thread_id) || ' '
        || (SELECT count(*) FROM audit_log a WHERE a.subject_id = m.id) || ' '
        || (SELECT size_bytes FROM raw_letters l WHERE l.id = m.raw_id) AS line
      FROM messages m ORDER BY m.seq) told GROUP BY thread_id ORDER BY 1";
    let rows = db::query(sql)
        .fetch_all(&mut app.workspace.rows().await)
        .await
        .expect("threads");
    rows.iter().map(|row| row.get(0)).collect()
}

fn word(outcome: Result<CopyOutcome, Refusal>) -> String {
    match outcome {
        Ok(CopyOutcome::Run(_)) => "run".to_owned(),
        Ok(CopyOutcome::Filed(rule)) => rule,
        Ok(CopyOutcome::Duplicate) => "duplicate".to_owned(),
        Ok(CopyOutcome::Held) => "held".to_owned(),
        Err(refusal) => refusal.to_string(),
    }
}

async fn together(app: &TestApp, letters: &[String]) -> Vec<String> {
    let intake = app.engine.intake();
    let taken = join_all(letters.iter().map(|eml| intake.accept(letter(eml)))).await;
    taken
        .into_iter()
        .map(|taken| word(taken.map(|mut taken| taken.copies.remove(0).outcome)))
        .collect()
}

#[tokio::test]
#[ignore = "second tier"]
async fn letters_waiting_together_become_what_they_would_have_alone() {
    if is_sqlite_only("writes that share a commit, in the order of their letters") {
        return;
    }
    let (one_by_one, at_once) = (quiet().await, quiet().await);
    let mut alone = Vec::new();
    for eml in letters() {
        alone.push(word(
            one_by_one
                .receive(&eml)
                .await
                .map(|mut taken| taken.copies.remove(0).outcome),
        ));
    }
    assert_eq!(together(&at_once, &letters()).await, alone);
    let duplicates = alone.iter().filter(|word| *word == "duplicate").count();
    assert_eq!(
        (
            duplicates,
            alone.iter().filter(|word| *word == "run").count()
        ),
        (2, letters().len() - 3)
    );
    assert_eq!(threads(&at_once).await, threads(&one_by_one).await);
    at_once.drain().await;
    at_once.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_letter_that_cannot_be_stored_takes_no_other_along() {
    let app = quiet().await;
    let mut rows = app.workspace.rows().await;
    let when = "new.message_id LIKE 'new1%'";
    rows.refuse("not_this_one", "INSERT ON messages", when)
        .await;
    let letters = letters();
    let became = together(&app, &letters).await;
    for (eml, became) in letters.iter().zip(&became) {
        let is_refused = eml.contains("<new1");
        assert_eq!(
            *became == Refusal::NotStored(attache::store::StoreError::Closed).to_string(),
            is_refused,
            "{eml} {became}"
        );
    }
    let stored = threads(&app).await.join("\n");
    assert!(
        !stored.contains("new1") && stored.contains("new69") && stored.contains("answer-of-answer"),
        "{stored}"
    );
    app.drain().await;
    app.check().await;
}
