//! What history costs: the same letters, contexts and searches with a thousand messages in the store and with many, in
//! turns, so that the machine's moods meet both.

use crate::app::db;
use crate::app::{self, Workspace, note};
use crate::client::{Listener, open, send_all, workspace};
use crate::context_times;
use crate::counters::percentile;
use attache::app::Engine;
use attache::domain::PersonaId;
use attache::store::MessageSearch;
use std::time::{Duration, Instant};

const FEW: usize = 1_000;
/// Messages of a thread.
const THREAD_LENGTH: usize = 4;
const ROUNDS: usize = 5;
const LETTERS: usize = 2_000;
const CONNECTIONS: usize = 32;
const CONTEXTS: usize = 100;
const SEARCHES: usize = 40;

/// What is searched for: a word of every message, a rare one, several, a sender, the newest.
const SEARCHES_FOR: [(&str, Option<&str>, Option<&str>); 5] = [
    ("a word of every message", Some("breakfast"), None),
    ("a rare word", Some("w19999"), None),
    ("three words", Some("breakfast w1 w2"), None),
    ("a sender", None, Some("guest7@guest.example")),
    ("the newest", None, None),
];

/// A workspace with so many messages.
struct Stock {
    _workspace: Workspace,
    engine: Engine,
    accepts: Vec<Duration>,
    contexts: Vec<Duration>,
    searches: [Vec<Duration>; SEARCHES_FOR.len()],
}

pub async fn growth(many: usize) {
    let began = Instant::now();
    let mut stocks = [stock(FEW).await, stock(many).await];
    println!(
        "  {many} messages stored in {:.0} s",
        began.elapsed().as_secs_f64()
    );
    for round in 0..ROUNDS {
        for stock in &mut stocks {
            stock.measure(round).await;
        }
    }
    let [few, lot] = &mut stocks;
    line("accept, 32 connections", &mut few.accepts, &mut lot.accepts);
    line("context", &mut few.contexts, &mut lot.contexts);
    for ((what, ..), (few, lot)) in SEARCHES_FOR
        .iter()
        .zip(few.searches.iter_mut().zip(&mut lot.searches))
    {
        line(&format!("search: {what}"), few, lot);
    }
}

fn line(what: &str, few: &mut [Duration], lot: &mut [Duration]) {
    let [few_50, few_99, lot_50, lot_99] = [
        percentile(few, 50),
        percentile(few, 99),
        percentile(lot, 50),
        percentile(lot, 99),
    ];
    println!(
        "  {what:<32} p50 {few_50:>6.2} -> {lot_50:>6.2} ms (×{:.2}), p99 {few_99:>6.2} -> {lot_99:>6.2} ms (×{:.2})",
        lot_50 / few_50,
        lot_99 / few_99
    );
}

async fn stock(messages: usize) -> Stock {
    let workspace = workspace();
    let engine = open(&workspace).await;
    fill(&workspace, messages).await;
    let searches = std::array::from_fn(|_| Vec::new());
    Stock {
        _workspace: workspace,
        engine,
        accepts: Vec::new(),
        contexts: Vec::new(),
        searches,
    }
}

impl Stock {
    async fn measure(&mut self, round: usize) {
        let listener = Listener::of(&self.engine).await;
        let name = format!("round{round}");
        self.accepts
            .extend(send_all(listener.address, &name, CONNECTIONS, LETTERS).await);
        listener.stop().await;
        let answer = note(
            &format!("{name}@guest.example"),
            &format!("References: <{}>\n", rfc_id(8)),
            "And now?",
        );
        let accepted = self
            .engine
            .intake()
            .accept(app::letter(&answer))
            .await
            .expect("taken");
        let message = &accepted.copies[0].message;
        self.contexts
            .extend(context_times(&self._workspace, &self.engine, message, CONTEXTS).await);
        let store = self
            .engine
            .store
            .persona(&PersonaId::parse("ada").expect("an id"));
        for ((_, query, from), times) in SEARCHES_FOR.iter().zip(&mut self.searches) {
            let (query, from) = (query.map(str::to_owned), from.map(str::to_owned));
            let search = MessageSearch {
                query,
                from,
                limit: 10,
                ..MessageSearch::default()
            };
            for _ in 0..SEARCHES {
                let began = Instant::now();
                let found = store.search_messages(&search).await.expect("found");
                times.push(began.elapsed());
                assert!(!found.is_empty(), "{search:?}");
            }
        }
    }
}

fn rfc_id(number: usize) -> String {
    format!(
        "{:08x}.{number}@guest.example",
        (number as u64 * 2_654_435_761) & 0xffff_ffff
    )
}

/// Writes rows as the store would have written them: a letter, its bytes, its place, its run that is over.
async fn fill(workspace: &Workspace, messages: usize) {
    let mut rows = workspace.rows().await;
    let begin = "PRAGMA synchronous = OFF; PRAGMA cache_size = -262144; PRAGMA temp_store = MEMORY;
        CREATE TEMP TABLE bodies (number INTEGER PRIMARY KEY, body TEXT NOT NULL);
        CREATE TEMP TABLE numbers (i INTEGER PRIMARY KEY)";
    db::raw_sql(begin).execute(&mut rows).await.expect("begun");
    for number in 0..997_u64 {
        // Words as languages have them: the n-th is about n times rarer than the first.
        let word = |place: u64| {
            let chance = (number * 60 + place).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            format!(
                "w{}",
                20_000_f64.powf(chance as f64 / f64::from(1 << 24)) as u64
            )
        };
        let body = format!(
            "breakfast {}",
            (0..60).map(word).collect::<Vec<_>>().join(" ")
        );
        let insert = db::query("INSERT INTO bodies VALUES ($1, $2)")
            .bind(number as i64)
            .bind(body);
        insert.execute(&mut rows).await.expect("a body");
    }
    for first in (0..messages).step_by(20_000) {
        let last = messages.min(first + 20_000) - 1;
        let fill = db::query(FILL)
            .bind(first as i64)
            .bind(last as i64)
            .bind(THREAD_LENGTH as i64);
        fill.execute(&mut rows).await.expect("filled");
    }
    db::raw_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        .execute(&mut rows)
        .await
        .expect("written back");
}

/// The i-th message has a Message-ID that stands anywhere among the others, as real ones do.
const FILL: &str = "
    BEGIN;
    DELETE FROM numbers;
    INSERT INTO numbers WITH RECURSIVE n(i) AS (SELECT $1 UNION ALL SELECT i + 1 FROM n WHERE i < $2) SELECT i FROM n;
    INSERT INTO conversations (id, persona_id, subject, root_message_id, created_at)
      SELECT printf('0000-c-%09d', i / $3), 'ada', 'A question', NULL, '2026-01-01T00:00:00.000Z' FROM numbers WHERE i % $3 = 0;
    INSERT INTO threads (id, conversation_id, persona_id, subject, created_at, updated_at)
      SELECT printf('0000-t-%09d', i / $3), printf('0000-c-%09d', i / $3), 'ada', 'A question', '2026-01-01T00:00:00.000Z',
        '2026-01-01T00:00:00.000Z' FROM numbers WHERE i % $3 = 0;
    INSERT INTO thread_participants (thread_id, address)
      SELECT printf('0000-t-%09d', i / $3), 'bob@guest.example' FROM numbers WHERE i % $3 = 0;
    INSERT INTO message_links (persona_id, rfc_message_id, conversation_id)
      SELECT 'ada', printf('%08x.%d@guest.example', (i * 2654435761) & 4294967295, i), printf('0000-c-%09d', i / $3) FROM numbers;
    INSERT INTO raw_letters (id, persona_id, sha256, envelope_json, size_bytes, bytes)
      SELECT printf('0000-r-%09d', i), 'ada', printf('%064d', i), '{}', 400, randomblob(400) FROM numbers;
    INSERT INTO messages (id, thread_id, persona_id, direction, message_id, sender, subject, text_body, received_at, trust,
        raw_id, dedup_key)
      SELECT printf('0000-m-%09d', i), printf('0000-t-%09d', i / $3), 'ada', 'inbound',
        printf('%08x.%d@guest.example', (i * 2654435761) & 4294967295, i), 'Guest <guest' || (i % 1000) || '@guest.example>',
        'A question ' || i, (SELECT body FROM bodies WHERE number = i % 997) || iif(i % 500 = 0, ' w19999', ''),
        '2026-01-01T00:00:00.000Z', 'unauthenticated', printf('0000-r-%09d', i),
        'mid:' || lower(hex(randomblob(32))) FROM numbers;
    INSERT INTO runs (id, persona_id, thread_id, trigger, trigger_message_id, profile, state, created_at)
      SELECT printf('0000-n-%09d', i), 'ada', printf('0000-t-%09d', i / $3), 'email', printf('0000-m-%09d', i), 'thread',
        'succeeded', '2026-01-01T00:00:00.000Z' FROM numbers;
    COMMIT";
