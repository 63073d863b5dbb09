//! Vectors and readers: nothing is found that a reader may not see, and what others wrote changes no order.

use super::MODEL;
use super::embedding_server::vector;
use crate::app::db;
use crate::app::rows;
use crate::tools::search::connection;
use crate::tools::{RunDeps, address};
use attache::store::{LetterSpan, MessageSearch, NewLetterVector, QuestionVector};
use std::collections::BTreeMap;

const READER: &str = "a@partner.test";
const OTHERS: [&str; 3] = ["b@partner.test", "c@evil.test", "owner@home.test"];
const MAILBOXES: u64 = 25;
const WORDS: [&str; 16] = [
    "boiler", "heating", "radiator", "furnace", "invoice", "bill", "payment", "holiday",
    "vacation", "trip", "house", "roof", "garden", "broken", "kitchen", "tuesday",
];

/// A small generator, so that a mailbox is known by its number.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn words(&mut self, count: u64) -> String {
        let words: Vec<&str> = (0..count)
            .map(|_| WORDS[self.below(WORDS.len() as u64) as usize])
            .collect();
        words.join(" ")
    }
}

fn unit(text: &str) -> Vec<f32> {
    let made = vector(text);
    let length = made.iter().map(|n| n * n).sum::<f32>().sqrt();
    made.iter().map(|n| n / length).collect()
}

/// Letters of a mailbox: in each step one of the reader's threads, of a thread that others read along, or of a thread that the
/// reader is not in. The last is left out where `with_others` is not given.
async fn fill(
    conn: &mut db::Connection,
    mailbox: u64,
    with_others: bool,
) -> BTreeMap<String, String> {
    let mut numbers = Numbers(mailbox + 1);
    let mut texts = BTreeMap::new();
    for step in 0..60 {
        let (kind, thread, length) = (numbers.below(4), numbers.below(3), numbers.below(6) + 3);
        let (body, withheld) = (numbers.words(length), numbers.below(9) == 0);
        let (thread, people): (String, Vec<&str>) = match kind {
            0 | 1 => (format!("own{thread}"), vec![READER]),
            2 => (
                format!("shared{thread}"),
                vec![READER, OTHERS[thread as usize]],
            ),
            _ => (format!("other{thread}"), vec![OTHERS[thread as usize]]),
        };
        if !with_others && kind == 3 {
            continue;
        }
        let at = format!("2026-11-01T{:02}:{:02}:00.000Z", step / 60, step % 60);
        rows::thread(conn, ("ada", &thread, ""), &at, &people).await;
        let id = format!("m{step}");
        let (direction, disposition) = match withheld {
            true => ("outbound", "withheld:automatic"),
            false => ("inbound", "run"),
        };
        let message = rows::Message {
            id: &id,
            persona: "ada",
            thread: &thread,
            direction,
            message_id: &id,
            sender: people[0],
            recipients_json: "{}",
            subject: "",
            body: &body,
            received_at: &at,
            trust: "contact",
            disposition,
        };
        rows::message(conn, message).await;
        texts.insert(id, body);
    }
    texts
}

/// A mailbox whose letters all have a vector.
async fn mailbox(number: u64, with_others: bool) -> (RunDeps, BTreeMap<String, String>) {
    let run_deps = RunDeps::new().await;
    let mut conn = connection(&run_deps).await;
    let texts = fill(&mut conn, number, with_others).await;
    let span = LetterSpan::all();
    let found = run_deps
        .persona
        .letters_without_vector(MODEL, &span, 1000)
        .await;
    let (letters, rest) = found.expect("letters");
    assert_eq!((letters.len(), rest), (texts.len(), None));
    let vectors = letters.into_iter().map(|letter| NewLetterVector {
        seq: letter.seq,
        vector: unit(&letter.text),
        text_sha256: letter.sha256,
    });
    run_deps
        .persona
        .store_vectors(MODEL, vectors.collect())
        .await
        .expect("stored");
    (run_deps, texts)
}

/// Ids of the letters that a search for these readers finds with vectors.
async fn found(run_deps: &RunDeps, question: &str, readers: Option<&[&str]>) -> Vec<String> {
    let search = MessageSearch {
        query: Some(question.to_owned()),
        visible_to: readers.map(|readers| readers.iter().map(|reader| address(reader)).collect()),
        limit: 50,
        ..MessageSearch::default()
    };
    let vector = QuestionVector {
        model: MODEL.to_owned(),
        vector: unit(question),
    };
    let found =
        run_deps
            .persona
            .search_with_vector(&search, None, std::future::ready(Some(vector)));
    found
        .await
        .expect("a search")
        .into_iter()
        .map(|found| found.id.to_string())
        .collect()
}

/// The test: with and without the letters of others, the reader finds the same in the same order.
#[tokio::test]
#[ignore = "second tier"]
async fn what_others_wrote_changes_no_order() {
    let (mut compared, mut by_vectors) = (0, 0);
    for number in 0..MAILBOXES {
        let ((with, _), (without, _)) = (mailbox(number, true).await, mailbox(number, false).await);
        let mut numbers = Numbers(number + 1000);
        for _ in 0..4 {
            let question = numbers.words(3);
            for readers in [&[READER][..], &[READER, OTHERS[0]]] {
                let (a, b) = (
                    found(&with, &question, Some(readers)).await,
                    found(&without, &question, Some(readers)).await,
                );
                assert_eq!(a, b, "mailbox {number}: {question}");
                compared += usize::from(!a.is_empty());
                let search = MessageSearch {
                    query: Some(question.clone()),
                    visible_to: Some(readers.iter().map(|reader| address(reader)).collect()),
                    limit: 50,
                    ..MessageSearch::default()
                };
                let words = with
                    .persona
                    .search_messages(&search)
                    .await
                    .expect("a search");
                let words: Vec<String> = words
                    .into_iter()
                    .map(|found| found.id.to_string())
                    .collect();
                by_vectors += usize::from(words != a);
            }
        }
    }
    println!(
        "{MAILBOXES} mailboxes, {compared} searches identical, {by_vectors} of them with another order than words give"
    );
    assert!(
        by_vectors > MAILBOXES as usize,
        "vectors changed too little to compare: {by_vectors}"
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_search_for_readers_returns_nothing_that_one_of_them_may_not_see() {
    let mut unseen = 0;
    for number in 0..MAILBOXES {
        let (run_deps, texts) = mailbox(number, true).await;
        let mut conn = connection(&run_deps).await;
        let sql = "SELECT m.id FROM messages m WHERE m.disposition NOT LIKE 'withheld:%' AND EXISTS (SELECT 1 FROM thread_participants p
            WHERE p.thread_id = m.thread_id AND p.address = $1)";
        for readers in [&[READER][..], &[READER, OTHERS[0]], &[OTHERS[1], READER]] {
            let mut visible = Vec::new();
            for reader in readers {
                let of_one: Vec<String> = db::query_scalar(sql)
                    .bind(reader)
                    .fetch_all(&mut conn)
                    .await
                    .expect("ids");
                visible.push(of_one);
            }
            let may_see = |id: &String| visible.iter().all(|of_one| of_one.contains(id));
            let mut numbers = Numbers(number + 2000);
            for _ in 0..4 {
                let question = numbers.words(3);
                for id in found(&run_deps, &question, Some(readers)).await {
                    assert!(may_see(&id), "{readers:?} are shown {id}: {}", texts[&id]);
                }
                // The control: without readers the same question finds what they may not see.
                let all = found(&run_deps, &question, None).await;
                unseen += all.iter().filter(|id| !may_see(id)).count();
            }
        }
    }
    assert!(
        unseen > 100,
        "the mailboxes have too little that must not be seen: {unseen}"
    );
}

#[tokio::test]
async fn filters_of_a_search_hold_for_what_vectors_bring_in() {
    let (run_deps, texts) = mailbox(3, true).await;
    let search = MessageSearch {
        query: Some("boiler heating broken".to_owned()),
        from: Some(READER.to_owned()),
        since: Some(
            attache::domain::Timestamp::parse("2026-11-01T00:20:00.000Z").expect("an instant"),
        ),
        limit: 50,
        ..MessageSearch::default()
    };
    let vector = QuestionVector {
        model: MODEL.to_owned(),
        vector: unit("heating"),
    };
    let found = run_deps
        .persona
        .search_with_vector(&search, None, std::future::ready(Some(vector)))
        .await;
    let found = found.expect("a search");
    let by_words = run_deps
        .persona
        .search_messages(&search)
        .await
        .expect("a search");
    assert!(
        found.len() > by_words.len(),
        "{} of {}",
        found.len(),
        texts.len()
    );
    for message in found {
        assert_eq!(message.sender, READER);
        assert!(
            message.received_at.to_string().as_str() >= "2026-11-01T00:20",
            "{message:?}"
        );
    }
}
