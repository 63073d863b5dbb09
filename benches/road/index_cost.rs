//! What the indexes of letters cost when letters are accepted: the same letters with and without them, in pairs.

use crate::app::db;
use crate::client::{Listener, open, send_all, workspace};
use crate::counters::cpu_time;
use std::time::Instant;

const PAIRS: usize = 5;
const CONNECTIONS: usize = 8;
const LETTERS: usize = 3_000;

/// Without the triggers nothing is indexed.
const NO_WORDS: &str = "DROP TRIGGER letter_words_insert";
/// It tells of filed letters besides, of which the bench has none.
const NO_PARTS: &str = "DROP TRIGGER messages_new";

pub async fn index_cost() {
    println!(
        "\naccepted letters over {CONNECTIONS} connections, with both indexes, with the index of words, with none:"
    );
    let mut sums = [(0.0, 0.0); 3];
    for _ in 0..PAIRS {
        let mut line = String::new();
        for (place, without) in [&[][..], &[NO_PARTS], &[NO_PARTS, NO_WORDS]]
            .iter()
            .enumerate()
        {
            let (rate, cpu) = accepted(without).await;
            sums[place].0 += rate / PAIRS as f64;
            sums[place].1 += cpu / PAIRS as f64;
            line += &format!("  {rate:.0}/s ({cpu:.0} µs)");
        }
        println!("{line}");
    }
    let [both, words, none] = sums;
    println!(
        "  means: {:.0}/s, {:.0}/s, {:.0}/s; with both ×{:.2} of none, with words ×{:.2}; CPU {:.0}, {:.0}, {:.0} µs",
        both.0,
        words.0,
        none.0,
        both.0 / none.0,
        words.0 / none.0,
        both.1,
        words.1,
        none.1
    );
}

/// Letters a second, and CPU time of each in microseconds.
async fn accepted(without: &[&'static str]) -> (f64, f64) {
    let workspace = workspace();
    let engine = open(&workspace).await;
    let mut rows = workspace.rows().await;
    for sql in without {
        db::raw_sql(*sql).execute(&mut rows).await.expect("dropped");
    }
    let listener = Listener::of(&engine).await;
    let (began, cpu) = (Instant::now(), cpu_time());
    let sent = send_all(listener.address, "index", CONNECTIONS, LETTERS).await;
    let rate = sent.len() as f64 / began.elapsed().as_secs_f64();
    let cost = (cpu_time() - cpu).as_secs_f64() * 1e6 / sent.len() as f64;
    listener.stop().await;
    (rate, cost)
}
