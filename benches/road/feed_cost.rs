//! What the feed costs a letter that is accepted and one that is answered: the same with and without its triggers, in pairs, on
//! databases that already hold many letters.

use crate::app::db;
use crate::client::{Listener, open, send_all};
use crate::counters::{cpu_time, disk_bytes, median, record};
use crate::history::Serving;
use serde_json::json;
use std::time::Instant;

const PAIRS: usize = 7;
const CONNECTIONS: usize = 8;
const LETTERS: usize = 2_000;

/// Triggers that write the feed, each as a statement that drops it and the one that made it.
const TRIGGERS: &str = "SELECT 'DROP TRIGGER ' || name || ';' || sql FROM sqlite_schema
    WHERE type = 'trigger' AND sql LIKE '%INSERT INTO feed %'";

/// Drops a trigger, and makes it anew with what it does besides.
fn without_the_feed(trigger: &str) -> String {
    let (head, body) = trigger.split_once("BEGIN\n").expect("a body");
    let (drop, create) = head.split_once(';').expect("two statements");
    let body = body.trim_end().trim_end_matches("END");
    let others = body.split(";\n").filter(|one| {
        let one = one.trim_start();
        !one.is_empty() && !one.starts_with("INSERT INTO feed ")
    });
    match others.collect::<Vec<_>>().join(";\n") {
        none if none.is_empty() => drop.to_owned(),
        others => format!("{drop};{create}BEGIN\n{others};\nEND"),
    }
}

/// Figures of one round: a rate, CPU time of each in microseconds, kilobytes written for each.
type Round = [f64; 3];

pub async fn feed_cost(letters: usize) {
    let mut pair = [Serving::of(letters).await, Serving::of(letters).await];
    let mut rows = pair[1].workspace().rows().await;
    let drops: Vec<String> = db::query_scalar(TRIGGERS)
        .fetch_all(&mut rows)
        .await
        .expect("triggers");
    assert!(drops.len() > 10, "{drops:?}");
    for trigger in drops {
        db::raw_sql(sqlx::AssertSqlSafe(without_the_feed(&trigger)))
            .execute(&mut rows)
            .await
            .expect("dropped");
    }
    let mut replies = [Vec::new(), Vec::new()];
    for round in 0..PAIRS {
        // Each comes first in turn: who does meets an idle disk.
        for at in [round % 2, 1 - round % 2] {
            replies[at].push(pair[at].measure(round).await);
        }
    }
    tell("replies", letters, &replies);
    let [with, without] = pair;
    let workspaces = [with.stop().await, without.stop().await];
    let mut accepts = [Vec::new(), Vec::new()];
    for round in 0..PAIRS {
        for at in [round % 2, 1 - round % 2] {
            let engine = open(&workspaces[at]).await;
            let listener = Listener::of(&engine).await;
            let (began, cpu, disk) = (Instant::now(), cpu_time(), disk_bytes());
            let name = format!("feed{round}");
            let sent = send_all(listener.address, &name, CONNECTIONS, LETTERS)
                .await
                .len() as f64;
            let took = began.elapsed().as_secs_f64();
            let cpu = (cpu_time() - cpu).as_secs_f64() * 1e6 / sent;
            let written = (disk_bytes()[1] - disk[1]) as f64 / 1e3 / sent;
            accepts[at].push([sent / took, cpu, written]);
            listener.stop().await;
            engine.store.clone().close().await;
        }
    }
    tell("accepts", letters, &accepts);
}

/// Prints every pair and the medians, with the feed first.
fn tell(what: &str, letters: usize, rounds: &[Vec<Round>; 2]) {
    println!("  {what} beside {letters} letters, with the feed and without:");
    for (with, without) in rounds[0].iter().zip(&rounds[1]) {
        println!(
            "    {:.0}/s and {:.0}/s (×{:.3}); {:.0} and {:.0} µs of CPU, {:.1} and {:.1} kB written each",
            with[0],
            without[0],
            with[0] / without[0],
            with[1],
            without[1],
            with[2],
            without[2]
        );
    }
    let figure =
        |at: usize, figure: usize| median(rounds[at].iter().map(|round| round[figure]).collect());
    let ratios = |figure: usize| {
        let pairs = rounds[0].iter().zip(&rounds[1]);
        median(
            pairs
                .map(|(with, without)| with[figure] / without[figure])
                .collect(),
        )
    };
    println!(
        "    medians: {:.0}/s and {:.0}/s, of the pairs ×{:.3}; CPU {:.0} and {:.0} µs, of the pairs ×{:.3}; {:.1} and {:.1} kB",
        figure(0, 0),
        figure(1, 0),
        ratios(0),
        figure(0, 1),
        figure(1, 1),
        ratios(1),
        figure(0, 2),
        figure(1, 2)
    );
    record(&json!({
        "bench": "feed", "what": what, "letters": letters, "per_s": [figure(0, 0), figure(1, 0)], "ratio": ratios(0),
        "cpu_us": [figure(0, 1), figure(1, 1)], "cpu_ratio": ratios(1), "written_kb": [figure(0, 2), figure(1, 2)],
    }));
}
