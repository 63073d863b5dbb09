//! Letters that came faster than their answers: a thread is summarised as far as there is something new, and then no more.

use super::{SIXTY, count, letter, small_house};
use crate::app::{START, TestApp, Workspace, audit, db};
use crate::sql::source::statement;
use serde_json::json;
use std::time::Duration;

const SUMMARIES: &str = "SELECT count(*) FROM runs WHERE trigger = 'summary'";

/// How the letters of a thread come, and what happens meanwhile.
struct Backlog {
    name: &'static str,
    letters: usize,
    /// Bytes of each letter, about.
    bytes: usize,
    /// Letters that are stored before the engine works again.
    together: usize,
    /// Runs at once.
    runs: usize,
    /// Whether another engine takes over with the letters stored and none answered.
    is_restarted: bool,
    /// What the model makes of a thread.
    summary: &'static str,
}

const PLAIN: Backlog = Backlog {
    name: "all at once",
    letters: 30,
    bytes: 300,
    together: 30,
    runs: 4,
    is_restarted: false,
    summary: "{{text}}",
};

/// The writers say nothing that a summary must repeat.
const VAGUE: &str = "The writers of these letters talk about the weir.";

const BACKLOGS: [Backlog; 14] = [
    PLAIN,
    // More messages than a history looks at: answers stand there whose letters do not.
    Backlog {
        name: "short letters",
        letters: 150,
        together: 150,
        bytes: 60,
        summary: VAGUE,
        ..PLAIN
    },
    Backlog {
        name: "short letters and a restart",
        letters: 150,
        together: 150,
        bytes: 60,
        summary: VAGUE,
        is_restarted: true,
        ..PLAIN
    },
    Backlog {
        name: "large letters",
        bytes: 6_000,
        summary: VAGUE,
        ..PLAIN
    },
    Backlog {
        name: "large letters and a restart",
        bytes: 6_000,
        summary: VAGUE,
        is_restarted: true,
        ..PLAIN
    },
    Backlog {
        name: "a restart",
        is_restarted: true,
        ..PLAIN
    },
    Backlog {
        name: "in pairs",
        together: 2,
        ..PLAIN
    },
    Backlog {
        name: "in threes",
        together: 3,
        letters: 12,
        ..PLAIN
    },
    Backlog {
        name: "in two heaps",
        together: 15,
        ..PLAIN
    },
    Backlog {
        name: "one worker",
        runs: 1,
        ..PLAIN
    },
    Backlog {
        name: "many workers",
        runs: 32,
        ..PLAIN
    },
    Backlog {
        name: "more than one look takes",
        letters: 70,
        together: 70,
        summary: VAGUE,
        ..PLAIN
    },
    Backlog {
        name: "a summary that lies",
        summary: "Bob brings 999 eels for Zoe.",
        ..PLAIN
    },
    Backlog {
        name: "an empty summary",
        summary: "",
        ..PLAIN
    },
];

fn house(backlog: &Backlog) -> Workspace {
    let workspace = small_house(&json!({ "say": backlog.summary }));
    let runs = json!({ "runs_max": backlog.runs, "runs_per_persona_max": backlog.runs });
    workspace.set("configs/inference.json", "/concurrency", runs);
    if backlog.bytes > 1_000 {
        workspace.set(
            "configs/context.json",
            "/thread",
            json!(["persona", { "use": "thread-summary", "budget_tokens": 4000 },
                { "use": "thread-history", "budget_tokens": 6000 }, "invocation-metadata", "current-input"]),
        );
    }
    workspace
}

/// Letters from number `from` on, stored before any is answered.
async fn pile_up(app: &TestApp, from: usize, count: usize, bytes: usize) {
    let plain = "The weir is quiet at dusk and the path along it is dry again today. ";
    for n in from..from + count {
        let body = plain.repeat(bytes.div_ceil(plain.len()));
        app.receive(&letter(n, &body)).await.expect("taken");
    }
}

/// Works off what is due; an engine that never rests fails here.
async fn rests(app: &TestApp, name: &str) {
    let rest = tokio::time::timeout(Duration::from_secs(120), app.drain()).await;
    assert!(rest.is_ok(), "{name}: the engine works for ever");
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_backlog_in_one_thread_is_summarised_only_while_there_is_something_new() {
    for backlog in BACKLOGS {
        let (name, mut app) = (backlog.name, house(&backlog).start().await);
        for from in (0..backlog.letters).step_by(backlog.together) {
            let some = backlog.together.min(backlog.letters - from);
            pile_up(&app, from, some, backlog.bytes).await;
            if backlog.is_restarted {
                app = app.restart().await;
            }
            rests(&app, name).await;
        }
        assert_eq!(app.sent().len(), backlog.letters, "{name}");
        let made = count(&app, SUMMARIES).await;
        assert!(
            (1..=backlog.letters as i64).contains(&made),
            "{name}: {made}"
        );
        // An engine with nothing to do does nothing, whoever starts it.
        let app = app.restart().await;
        app.workspace
            .clock
            .advance(Duration::from_secs(2 * 60 * 60));
        rests(&app, name).await;
        assert_eq!(count(&app, SUMMARIES).await, made, "{name}");
        audit(&mut app.workspace.rows().await).await;
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn every_summary_ends_before_its_own_message_and_behind_the_one_before() {
    let app = house(&PLAIN).start().await;
    pile_up(&app, 0, PLAIN.letters, PLAIN.bytes).await;
    rests(&app, "all at once").await;
    let beyond = "SELECT count(*) FROM thread_memory s JOIN runs r ON r.id = s.run_id
        JOIN messages own ON own.id = r.trigger_message_id WHERE s.upto_seq >= own.seq";
    assert_eq!(count(&app, beyond).await, 0);
    let again = "SELECT count(*) FROM (SELECT 1 FROM thread_memory GROUP BY upto_seq HAVING count(*) > 1) AS doubled";
    assert_eq!(count(&app, again).await, 0);
    // The next letter is told of all that came before it.
    let last = app.run_of(&letter(PLAIN.letters, "And now?")).await;
    rests(&app, "the next letter").await;
    let prompt = serde_json::to_string(&app.prompts(&last).await).expect("json");
    assert!(prompt.contains("<thread-summary>"), "{prompt}");
    app.check().await;
}

/// Whether a run is queued is decided by the row of the summary, whatever the run that made it says.
#[tokio::test]
async fn a_chain_goes_on_only_where_its_row_moved() {
    let sql: &'static str = statement("summaries::CONTINUE_SUMMARY").leak();
    // Numbers up to which earlier summaries of the same message go, that of the new one, and whether a run follows.
    let cases: [(&[i64], i64, bool); 8] = [
        (&[], 3, true),
        (&[2], 3, true),
        (&[1, 2], 3, true),
        (&[3], 3, false),
        (&[5], 3, false),
        (&[5, 2], 3, false),
        (&[], 8, false),
        (&[], 1_000, false),
    ];
    let app = small_house(&json!({ "say": VAGUE })).start().await;
    pile_up(&app, 0, 8, 100).await;
    let before = count(&app, "SELECT max(seq) FROM messages").await - 8;
    let mut rows = app.workspace.rows().await;
    rows.unchecked().await;
    for (case, (earlier, upto, goes_on)) in cases.into_iter().enumerate() {
        for (n, seq) in earlier.iter().chain([&upto]).enumerate() {
            let run = "INSERT INTO runs (id, persona_id, thread_id, trigger, trigger_message_id, profile, state, created_at)
                SELECT $1, persona_id, thread_id, 'summary', id, 'thread', 'cancelled', received_at
                FROM messages ORDER BY seq DESC LIMIT 1";
            let id = format!("{case}.{n}");
            db::query(run)
                .bind(&id)
                .execute(&mut rows)
                .await
                .expect("a run");
            let summary = "INSERT INTO thread_memory (id, persona_id, thread_id, run_id, model, state, problems_json, text,
                  text_sha256, from_seq, upto_seq, upto_message_id, inputs_json, generation, messages, label_json, readers_json,
                  created_at)
                SELECT id, persona_id, thread_id, id, '', 'usable', '[]', '', '', 1, $2, trigger_message_id, '[]', 1, 1, '{}',
                  '[]', created_at FROM runs WHERE id = $1";
            let summary = db::query(summary).bind(&id).bind(before + seq);
            summary.execute(&mut rows).await.expect("a summary");
        }
        let go_on = db::query(sql).bind(format!("{case}.{}", earlier.len()));
        let go_on = go_on
            .bind(format!("{case}.next"))
            .bind(START)
            .bind(before + upto);
        let go_on = go_on.bind(START).bind(24_i64);
        let queued = go_on
            .execute(&mut rows)
            .await
            .expect("a statement")
            .rows_affected();
        assert_eq!(queued == 1, goes_on, "{earlier:?} {upto}");
        for table in [
            "DELETE FROM thread_memory",
            "DELETE FROM runs WHERE trigger = 'summary'",
        ] {
            db::query(table).execute(&mut rows).await.expect("gone");
        }
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_thread_has_a_bounded_number_of_summaries_in_an_hour() {
    let workspace = small_house(&json!({ "say": VAGUE }));
    // No room for what was said before: each letter asks for a summary of all others.
    workspace.set(
        "configs/context.json",
        "/thread",
        json!(["persona", { "use": "thread-summary", "budget_tokens": 2000 },
            { "use": "thread-history", "budget_tokens": 80 }, "invocation-metadata", "current-input"]),
    );
    let app = workspace.start().await;
    let body = SIXTY.repeat(3);
    for n in 0..40 {
        app.receive(&letter(n, &body)).await.expect("taken");
        rests(&app, "one after the other").await;
    }
    assert_eq!(count(&app, SUMMARIES).await, 24);
    app.workspace
        .clock
        .advance(Duration::from_secs(2 * 60 * 60));
    app.receive(&letter(40, &body)).await.expect("taken");
    rests(&app, "two hours later").await;
    let made = count(&app, SUMMARIES).await;
    assert!(made > 24, "it goes on with the next letter: {made}");
    app.check().await;
}
