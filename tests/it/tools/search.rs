//! `search_email` and the query under it: finds what is there, shows each caller only what they may see, and takes
//! any text for words. EX01 of the attack battery.

mod parts;
mod syntax;

use super::{RunDeps, answered};
use crate::app::database::is_sqlite_only;
use crate::app::db;
use crate::app::rows;
use attache::store::{MessageSearch, Store};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A message as the tests vary it.
struct Seed<'a> {
    thread: &'a str,
    direction: &'a str,
    sender: &'a str,
    subject: &'a str,
    body: &'a str,
    day: u32,
    disposition: &'a str,
}

const READERS: [&str; 2] = ["carol@partner.test", "dan@partner.test"];

const SUPPER: Seed = Seed {
    thread: "t-carol",
    direction: "inbound",
    sender: "Carol Kern <carol@partner.test>",
    subject: "Late supper",
    body: "May we eat at ten? We are four.",
    day: 1,
    disposition: "run",
};

pub async fn connection(run_deps: &RunDeps) -> db::Connection {
    db::Connection::open(&run_deps.outside(".")).await
}

async fn thread(conn: &mut db::Connection, persona: &str, id: &str, people: &[&str]) {
    let at = "2026-11-01T00:00:00.000Z";
    rows::thread(conn, (persona, id, ""), at, people).await;
}

async fn message(conn: &mut db::Connection, persona: &str, id: &str, seed: Seed<'_>) {
    let row = rows::Message {
        id,
        persona,
        thread: seed.thread,
        direction: seed.direction,
        message_id: id,
        sender: seed.sender,
        recipients_json: r#"{"to": ["ada@engine.test"]}"#,
        subject: seed.subject,
        body: seed.body,
        received_at: &format!("2026-11-{:02}T12:00:00.000Z", seed.day),
        trust: "contact",
        disposition: seed.disposition,
    };
    rows::message(conn, row).await;
}

/// Carol's thread with a question and its answer, the owner's own thread, and somebody else's persona.
pub async fn run_deps() -> RunDeps {
    let run_deps = RunDeps::new().await;
    let mut conn = connection(&run_deps).await;
    let conn = &mut conn;
    thread(conn, "ada", "t-carol", &READERS).await;
    thread(conn, "ada", "t-owner", &["owner@home.test"]).await;
    thread(conn, "bob", "t-bob", &["carol@partner.test"]).await;
    message(conn, "ada", "m1", SUPPER).await;
    let ada = "Ada <ada@engine.test>";
    let answer = Seed {
        direction: "outbound",
        sender: ada,
        body: "Ten is fine, employees stay until eleven.",
        day: 2,
        disposition: "sent",
        ..SUPPER
    };
    message(conn, "ada", "m2", answer).await;
    let withheld = Seed {
        direction: "outbound",
        sender: ada,
        body: "Supper draft",
        day: 3,
        disposition: "withheld:automatic",
        ..SUPPER
    };
    message(conn, "ada", "m3", withheld).await;
    let secret = Seed {
        thread: "t-owner",
        sender: "owner@home.test",
        subject: "Plan",
        body: "Supper secret: K_THREAD für Gäste",
        day: 4,
        ..SUPPER
    };
    message(conn, "ada", "m4", secret).await;
    let prompt = Seed {
        thread: "t-owner",
        direction: "synthetic",
        sender: "system",
        body: "supper prompt",
        day: 5,
        ..SUPPER
    };
    message(conn, "ada", "m5", prompt).await;
    message(
        conn,
        "bob",
        "m6",
        Seed {
            thread: "t-bob",
            day: 6,
            ..SUPPER
        },
    )
    .await;
    run_deps
}

/// What the tool answers when all letters are indexed.
pub async fn searched(run_deps: &RunDeps, args: Value) -> Value {
    index(&run_deps.store).await;
    run_deps.result("search_email", args).await
}

/// The rows came past the engine, so that words and parts of them are made by its upkeep.
async fn index(store: &Store) {
    store.clone().index_open_letters().await.expect("indexed");
}

/// Letters have no words until somebody searches, or enough of them wait. One that takes the number of a deleted letter has its
/// words at once, because the number is behind those that the next upkeep looks at.
#[tokio::test]
async fn a_letter_of_a_moment_ago_is_found_though_its_words_are_made_later() {
    if is_sqlite_only("words that are made behind the commit") {
        return;
    }
    let run_deps = RunDeps::new().await;
    let mut conn = connection(&run_deps).await;
    thread(&mut conn, "ada", "t-carol", &READERS).await;
    let search = async |query: &str| {
        let answer = run_deps.result("search_email", json!({ "query": query }));
        answer.await["messages"].as_array().map_or(0, Vec::len)
    };
    let indexed = "SELECT count(*) FROM letter_words_docsize";
    let quagga = Seed {
        body: "a quagga",
        ..SUPPER
    };
    message(&mut conn, "ada", "m1", quagga).await;
    assert_eq!(db::number(&mut conn, indexed).await, 0);
    assert_eq!(search("quagga").await, 1);
    assert_eq!(db::number(&mut conn, indexed).await, 1);
    let gone = db::raw_sql("DELETE FROM messages WHERE id = 'm1'");
    gone.execute(&mut conn).await.expect("deleted");
    let okapi = Seed {
        body: "an okapi",
        ..SUPPER
    };
    message(&mut conn, "ada", "m2", okapi).await;
    assert_eq!(db::number(&mut conn, indexed).await, 1);
    assert_eq!((search("quagga").await, search("okapi").await), (0, 1));
    let check = "INSERT INTO letter_words (letter_words, rank) VALUES ('integrity-check', 1)";
    let same = db::query(check).execute(&mut conn).await;
    same.expect("the same words");
    // A letter whose words are not made yet changes and goes without a word of it in the index.
    message(&mut conn, "ada", "m3", Seed { ..SUPPER }).await;
    let changed = "UPDATE messages SET text_body = 'a zebra'; DELETE FROM messages WHERE id = 'm3'";
    let changed = db::raw_sql(changed).execute(&mut conn).await;
    changed.expect("changed");
    assert_eq!((search("okapi").await, search("zebra").await), (0, 1));
    let same = db::query(check).execute(&mut conn).await;
    same.expect("the same words");
}

/// Control: without FTS5's `secure-delete` the bytes of the word stay in a segment that is not merged yet.
#[tokio::test]
async fn a_deleted_letter_leaves_no_word_in_the_index() {
    if is_sqlite_only("what FTS5 keeps of a word") {
        return;
    }
    let run_deps = RunDeps::new().await;
    let mut conn = connection(&run_deps).await;
    thread(&mut conn, "ada", "t-carol", &READERS).await;
    for (id, body) in [
        ("m1", "a horse"),
        ("m2", "a quagga 4711AB"),
        ("m3", "a zebra"),
    ] {
        message(&mut conn, "ada", id, Seed { body, ..SUPPER }).await;
    }
    index(&run_deps.store).await;
    let held =
        "SELECT count(*) FROM letter_words_data WHERE instr(block, CAST('quagga' AS BLOB)) > 0";
    assert_eq!(db::number(&mut conn, held).await, 1);
    let changes = "DELETE FROM messages WHERE id = 'm2'; UPDATE messages SET text_body = 'an okapi' WHERE id = 'm3'";
    db::raw_sql(changes)
        .execute(&mut conn)
        .await
        .expect("changed");
    index(&run_deps.store).await;
    assert_eq!(db::number(&mut conn, held).await, 0);
    // The words of the index are those of the letters, as FTS5 itself compares them.
    for check in [
        "INSERT INTO letter_words (letter_words, rank) VALUES ('integrity-check', 1)",
        "INSERT INTO letter_parts (letter_parts, rank) VALUES ('integrity-check', 1)",
    ] {
        let same = db::query(check).execute(&mut conn).await;
        same.expect("the same words");
    }
}

async fn ids(run_deps: &RunDeps, args: Value) -> Vec<String> {
    let result = searched(run_deps, args).await;
    let messages = result["messages"].as_array().expect("a list");
    messages
        .iter()
        .map(|m| m["id"].as_str().expect("an id").to_owned())
        .collect()
}

/// The owner writes, and nobody else is in the thread.
pub fn as_owner(run_deps: &mut RunDeps) {
    run_deps.mail.answers = Some(answered("Owner@home.test"));
    run_deps.mail.participants.clear();
}

#[tokio::test]
async fn an_owner_and_a_schedule_search_everything_of_this_persona() {
    let mut run_deps = run_deps().await;
    as_owner(&mut run_deps);
    for answers in [Some(answered("Owner@Home.test")), None] {
        run_deps.mail.answers = answers;
        let mut found = ids(&run_deps, json!({"query": "supper"})).await;
        found.sort();
        assert_eq!(found, ["m1", "m2", "m3", "m4"]);
    }
    let all = searched(&run_deps, json!({"query": "draft"})).await;
    assert_eq!(all["messages"][0]["sent"], false);
}

#[tokio::test]
async fn an_owner_not_alone_finds_what_everybody_there_may_read() {
    let mut run_deps = run_deps().await;
    run_deps.mail.answers = Some(answered("Owner@home.test"));
    let mut found = ids(&run_deps, json!({"query": "supper"})).await;
    found.sort();
    assert_eq!(found, ["m1", "m2"]);
}

/// Letters of an archive have numbers below 0.
#[tokio::test]
async fn what_was_written_long_ago_is_found_among_many() {
    let mut run_deps = run_deps().await;
    as_owner(&mut run_deps);
    let mut conn = connection(&run_deps).await;
    let fill = "
        WITH RECURSIVE n(i) AS (SELECT 7 UNION ALL SELECT i + 1 FROM n WHERE i < 9000)
        INSERT INTO messages (seq, id, thread_id, persona_id, direction, message_id, sender, subject, text_body,
          received_at, trust)
        SELECT i, 'f' || i, 't-owner', 'ada', 'inbound', 'f' || i, 'x', '', iif(i = 9, 'quagga zeppelin', 'zeppelin'),
          '2026-11-01T00:00:00.000Z', ''
        FROM n
        UNION ALL SELECT -i, 'a' || i, 't-owner', 'ada', 'inbound', 'a' || i, 'x', '', 'zeppelin archived',
          '2026-11-01T00:00:00.000Z', ''
        FROM n WHERE i < 9";
    db::query(fill)
        .execute(&mut conn)
        .await
        .expect("many messages");
    let found = async |word: &str, limit: u32| {
        ids(&run_deps, json!({ "query": word, "limit": limit })).await
    };
    assert_eq!(found("archived", 20).await, ["a7", "a8"]);
    assert_eq!(found("quagga zeppelin", 1).await, ["f9"]);
    assert_eq!(found("supper", 20).await.len(), 4);
    // Of a word that all have, the newest letters are looked at.
    let common = found("zeppelin", 20).await;
    let is_new = |id: &String| id[1..].parse::<u32>().is_ok_and(|n| n > 8_700);
    assert!(
        common.len() == 20 && common.iter().all(is_new),
        "{common:?}"
    );
}

#[tokio::test]
async fn others_search_only_threads_that_they_take_part_in() {
    let mut run_deps = run_deps().await;
    let mut found = ids(&run_deps, json!({"query": "supper"})).await;
    found.sort();
    assert_eq!(found, ["m1", "m2"]);
    assert_eq!(
        ids(&run_deps, json!({"since": "2026-11-01"})).await,
        ["m2", "m1"]
    );
    run_deps.mail.answers = Some(answered("mallory@evil.test"));
    for args in [
        json!({"query": "K_THREAD"}),
        json!({"query": "supper"}),
        json!({"until": "2026-12-31"}),
    ] {
        assert_eq!(ids(&run_deps, args).await, Vec::<String>::new());
    }
    let mut nobody = answered("carol@partner.test");
    nobody.sender = None;
    run_deps.mail.answers = Some(nobody);
    assert_eq!(
        run_deps
            .failure("search_email", json!({"query": "supper"}))
            .await
            .0,
        "search_not_allowed"
    );
}

#[tokio::test]
async fn filters_narrow_and_too_little_of_a_query_finds_nothing() {
    let mut run_deps = run_deps().await;
    as_owner(&mut run_deps);
    let cases = [
        (json!({"query": "ten four"}), vec!["m1", "m2"]),
        (json!({"query": "ten seven"}), vec![]),
        (json!({"query": "employee"}), vec!["m2"]),
        (json!({"query": "FUR gaste"}), vec!["m4"]),
        (json!({"query": "carol@partner.test"}), vec!["m1"]),
        (json!({"query": "supper", "from": "Kern"}), vec!["m1"]),
        (json!({"from": "carol@partner.test"}), vec!["m1"]),
        (json!({"from": "owner"}), vec!["m4"]),
        (json!({"subject": "plan", "query": "secret"}), vec!["m4"]),
        (json!({"subject": "secret"}), vec![]),
        (json!({"since": "2026-11-03"}), vec!["m4", "m3"]),
        (
            json!({"since": "2026-11-02", "until": "2026-11-03"}),
            vec!["m3", "m2"],
        ),
        (json!({"until": "2026-11-01T12:00:00Z"}), vec!["m1"]),
        (json!({"query": "secret", "until": "2026-11-03"}), vec![]),
        (json!({"query": "?!"}), vec![]),
    ];
    for (args, wanted) in cases {
        assert_eq!(ids(&run_deps, args.clone()).await, wanted, "{args}");
    }
    let nothing = searched(&run_deps, json!({"query": "ten seven"})).await;
    assert_eq!(nothing["note"], "nothing relevant was found");
    assert_eq!(
        run_deps
            .failure("search_email", json!({"limit": 3}))
            .await
            .0,
        "no_filter"
    );
    assert_eq!(
        run_deps
            .failure("search_email", json!({"query": " ", "from": null}))
            .await
            .0,
        "no_filter"
    );
    assert_eq!(
        run_deps
            .failure("search_email", json!({"since": "soon"}))
            .await
            .0,
        "bad_date"
    );
}

#[tokio::test]
async fn a_found_message_is_described_with_the_text_around_the_hit() {
    let mut run_deps = run_deps().await;
    as_owner(&mut run_deps);
    let far = format!(
        "{} needle\u{1b}[2J\u{202e} here {}",
        "hay ".repeat(2000),
        "hay ".repeat(2000)
    );
    let mut conn = connection(&run_deps).await;
    message(
        &mut conn,
        "ada",
        "m7",
        Seed {
            body: &far,
            day: 7,
            ..SUPPER
        },
    )
    .await;
    let result = searched(&run_deps, json!({"query": "needle"})).await;
    let snippet = result["messages"][0]["snippet"]
        .as_str()
        .expect("a snippet")
        .to_owned();
    assert!(snippet.contains("needle [2J here"), "{snippet:?}");
    assert!(snippet.len() < 410, "{snippet}");
    let wanted = json!({
        "scope": "all mail", "count": 1, "more": false,
        "messages": [{
            "id": "m7", "thread": "t-carol", "direction": "inbound", "date": "2026-11-07T12:00:00.000Z",
            "from": "Carol Kern <carol@partner.test>", "to": "ada@engine.test", "subject": "Late supper",
            "snippet": snippet, "trust": "contact",
        }],
    });
    assert_eq!(result, wanted);
}

#[tokio::test]
async fn the_answer_is_bounded_in_number_and_size() {
    let mut run_deps = run_deps().await;
    as_owner(&mut run_deps);
    let mut conn = connection(&run_deps).await;
    for n in 0..60 {
        message(
            &mut conn,
            "ada",
            &format!("n{n:02}"),
            Seed {
                body: "tall hay",
                day: 8,
                ..SUPPER
            },
        )
        .await;
    }
    for (asked, count) in [
        (json!(-5), 1),
        (json!(0), 1),
        (json!(3), 3),
        (json!(null), 10),
    ] {
        let result = searched(&run_deps, json!({"query": "hay", "limit": asked})).await;
        assert_eq!(
            (&result["count"], &result["more"]),
            (&json!(count), &json!(true)),
            "{asked}"
        );
    }
    let result = searched(&run_deps, json!({"query": "hay", "limit": 50})).await;
    assert!(
        result.to_string().len() <= 4096 && result["more"] == true,
        "{result}"
    );
    run_deps.limits.result_bytes_max = 1024 * 1024;
    let result = searched(&run_deps, json!({"query": "hay", "limit": 9999})).await;
    assert_eq!(result["count"], 50);
}

/// A letter in a thread of its own that those who are answered may read.
async fn apart(conn: &mut db::Connection, id: &str, subject: &str, sender: &str, body: &str) {
    let own = format!("t-{id}");
    thread(conn, "ada", &own, &READERS).await;
    let seed = Seed {
        thread: &own,
        subject,
        sender,
        body,
        ..SUPPER
    };
    message(conn, "ada", id, seed).await;
}

/// Controls: ordered by number alone, or with the filter of readers left out, this fails.
#[tokio::test]
async fn the_better_hit_comes_first_unreadable_ones_take_no_place() {
    let mut run_deps = run_deps().await;
    let mut conn = connection(&run_deps).await;
    let carol = SUPPER.sender;
    apart(&mut conn, "subject", "Sauna", carol, "When?").await;
    apart(
        &mut conn,
        "both",
        "Hello",
        "Sauna Club <carol@partner.test>",
        "It is warm.",
    )
    .await;
    let hidden = Seed {
        thread: "t-owner",
        subject: "Sauna",
        body: "The sauna is warm.",
        ..SUPPER
    };
    message(&mut conn, "ada", "hidden", hidden).await;
    apart(&mut conn, "body", "Hello", carol, "Sauna, sauna, sauna!").await;
    let query = json!({"query": "Is the sauna warm?"});
    assert_eq!(
        ids(&run_deps, query.clone()).await,
        ["both", "body", "subject"]
    );
    let first = json!({"query": "sauna warm", "limit": 1});
    assert_eq!(ids(&run_deps, first).await, ["both"]);
    as_owner(&mut run_deps);
    // The question names the sauna's club.
    assert_eq!(
        ids(&run_deps, query).await,
        ["both", "hidden", "body", "subject"]
    );
}

/// The control: the same letters in threads of their own, where nothing is beside them.
#[tokio::test]
async fn a_letter_counts_more_for_what_stands_beside_it() {
    let run_deps = run_deps().await;
    let mut conn = connection(&run_deps).await;
    let carol = SUPPER.sender;
    thread(&mut conn, "ada", "t-boat", &READERS).await;
    for (id, body) in [
        ("ask", "How dear is the boat?"),
        ("answer", "Ninety euros a day."),
    ] {
        let seed = Seed {
            thread: "t-boat",
            subject: "",
            body,
            ..SUPPER
        };
        message(&mut conn, "ada", id, seed).await;
    }
    apart(&mut conn, "later", "", carol, "Ninety euros a day.").await;
    apart(&mut conn, "alone", "", carol, "How dear is the boat?").await;
    let found = ids(&run_deps, json!({"query": "What euros for the boat?"})).await;
    assert_eq!(found, ["answer", "ask", "alone", "later"]);
}

/// Controls: with counts of all letters (`documents`, FTS5's own bm25), the order changes.
#[tokio::test]
async fn what_others_write_changes_nothing_in_what_a_reader_finds() {
    let run_deps = run_deps().await;
    let mut conn = connection(&run_deps).await;
    let carol = SUPPER.sender;
    apart(&mut conn, "rare", "", carol, "The quagga.").await;
    for n in 0..3 {
        apart(&mut conn, &format!("z{n}"), "", carol, "A zebra.").await;
    }
    let query = json!({"query": "quagga zebra"});
    let before = searched(&run_deps, query.clone()).await;
    assert_eq!(before["messages"][0]["id"], "rare");
    let fill = "
        WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 600)
        INSERT INTO messages (seq, id, thread_id, persona_id, direction, message_id, sender, subject, text_body,
          received_at, trust)
        SELECT i, 'f' || i, 't-owner', 'ada', 'inbound', 'f' || i, 'x', '', 'quagga', '2026-11-01T00:00:00.000Z', ''
        FROM n";
    db::query(fill).execute(&mut conn).await.expect("letters");
    assert_eq!(searched(&run_deps, query).await, before);
}
