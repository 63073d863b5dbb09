//! What a search of letters finds, and how long it takes: questions about conversations (LoCoMo), the letter that a reply
//! answers (lists of R), words that nothing is about, and a million letters.
//!
//! The data is not ours and never in the repository: a folder holds `locomo10.json` and `errors.json` of
//! `dial481/locomo-audit` (CC BY-NC 4.0, only to measure), and `mails.jsonl` with a letter a line. `docs/benchmarks.md`
//! says how to get both. Whatever is absent is said, not skipped in silence.

use crate::app::db;
use crate::app::{Workspace, rows};
use crate::client::{open, workspace};
use crate::counters::percentile;
use attache::app::Engine;
use attache::domain::{PersonaId, Timestamp};
use attache::mime::fresh_text;
use attache::store::{MessageSearch, PersonaStore, Ranking, SHARE_MIN};
use attache::text::rare_words::WordCounts;
use chrono::{DateTime, NaiveDateTime};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::time::{Duration, Instant};

const CUTS: [usize; 4] = [1, 5, 10, 20];
/// Questions about what the conversations do not say.
const ADVERSARIAL: u64 = 5;
/// Words of a reply by which its parent is looked for.
const RAREST: usize = 16;
/// Letters whose subjects are asked of conversations that are about none of them.
const ABSENT: usize = 1_000;
const QUERIES: usize = 1_000;

pub async fn recall() {
    println!("\nwhat a search of letters finds:");
    let named = || std::env::args().skip(1).filter(|arg| !arg.starts_with('-'));
    let many: Option<usize> = named().find_map(|arg| arg.parse().ok());
    let folder = named().nth(1).unwrap_or("no folder was named".to_owned());
    let folder = Path::new(&folder);
    let (locomo, mails) = (folder.join("locomo10.json"), folder.join("mails.jsonl"));
    let mails = std::fs::read_to_string(&mails)
        .inspect_err(|_| absent(&mails.display().to_string()))
        .ok();
    let mails: Vec<Mail> = mails
        .iter()
        .flat_map(|text| text.lines())
        .map(|line| serde_json::from_str(line).expect("a letter a line"))
        .collect();
    match std::fs::read_to_string(&locomo) {
        Ok(text) => {
            let errors = std::fs::read_to_string(folder.join("errors.json"));
            if errors.is_err() {
                absent("errors.json: evidence as it was published, not corrected");
            }
            conversations(&text, &errors.unwrap_or("[]".to_owned()), &mails).await;
        }
        Err(_) => absent(&locomo.display().to_string()),
    }
    if !mails.is_empty() {
        parents(&mails).await;
    }
    if let Some(many) = many {
        growth(many).await;
    }
}

fn absent(what: &str) {
    println!("  ABSENT, NOT MEASURED: {what} (docs/benchmarks.md says where it is from)");
}

/// Letters of one persona in a database of their own.
struct Letters {
    engine: Engine,
    rows: db::Connection,
    _workspace: Workspace,
}

impl Letters {
    async fn new() -> Self {
        let workspace = workspace();
        let engine = open(&workspace).await;
        let mut rows = workspace.rows().await;
        let fast = db::raw_sql("PRAGMA synchronous = OFF; BEGIN");
        fast.execute(&mut rows).await.expect("a transaction");
        Self {
            engine,
            rows,
            _workspace: workspace,
        }
    }

    async fn add(&mut self, letter: rows::Message<'_>) {
        rows::thread(
            &mut self.rows,
            (letter.persona, letter.thread, ""),
            letter.received_at,
            &["bob@guest.example"],
        )
        .await;
        rows::message(&mut self.rows, letter).await;
    }

    async fn done(&mut self) {
        let end = db::raw_sql("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)");
        end.execute(&mut self.rows).await.expect("written");
        // The rows came past the engine, which makes the parts of words.
        let began = Instant::now();
        let made = self.engine.store.clone().index_open_letters().await;
        made.expect("indexed");
        let parts_took = began.elapsed();
        let sizes = "SELECT (SELECT sum(octet_length(subject) + octet_length(coalesce(fresh_text, text_body))) FROM messages),
            (SELECT sum(octet_length(block)) FROM letter_words_data) + (SELECT sum(octet_length(term) + 12) FROM letter_words_idx)
            + (SELECT sum(octet_length(sz) + 6) FROM letter_words_docsize),
            (SELECT sum(octet_length(block)) FROM letter_parts_data)
            + (SELECT coalesce(sum(octet_length(term) + 12), 0) FROM letter_parts_idx)
            + (SELECT coalesce(sum(octet_length(sz) + 6), 0) FROM letter_parts_docsize),
            (SELECT coalesce(sum(octet_length(words) + octet_length(thread) + 8), 0) FROM letter_part_texts)";
        let (text, words, parts, part_texts): (i64, i64, i64, i64) = db::query_as(sizes)
            .fetch_one(&mut self.rows)
            .await
            .expect("sizes");
        let of = |bytes: i64| {
            format!(
                "{:.1} MB ({:.0} %)",
                bytes as f64 / 1e6,
                100.0 * bytes as f64 / text as f64
            )
        };
        println!(
            "  text {}; index of words {}, of parts of words {} and their list {}, made in {:.1} s",
            of(text),
            of(words),
            of(parts),
            of(part_texts),
            parts_took.as_secs_f64()
        );
    }

    async fn ranked(
        &self,
        persona: &str,
        query: &str,
        before: Option<Timestamp>,
    ) -> (Ranking, Duration) {
        let store = self
            .engine
            .store
            .persona(&PersonaId::parse(persona).expect("an id"));
        let search = MessageSearch {
            query: Some(query.to_owned()),
            before,
            ..MessageSearch::default()
        };
        let began = Instant::now();
        let ranking = store.rank_messages(&search).await.expect("a ranking");
        (ranking, began.elapsed())
    }
}

/// Shares of what was looked for, among the first of the hits.
#[derive(Default)]
struct Shares {
    sums: [f64; CUTS.len()],
    /// The same where nothing is shown below the threshold.
    shown: [f64; CUTS.len()],
    queries: usize,
    times: Vec<Duration>,
}

impl Shares {
    fn count(&mut self, wanted: &BTreeSet<i64>, ranking: &Ranking, time: Duration) {
        self.queries += 1;
        self.times.push(time);
        for (place, cut) in CUTS.iter().enumerate() {
            let hits = ranking.hits.iter().take(*cut);
            let found = hits.filter(|(seq, _)| wanted.contains(seq)).count();
            let share = found as f64 / wanted.len() as f64;
            self.sums[place] += share;
            if ranking.share >= SHARE_MIN {
                self.shown[place] += share;
            }
        }
    }

    fn print(&mut self, what: &str) {
        let line = |sums: &[f64; 4]| {
            let of =
                |(cut, sum): (&usize, &f64)| format!("R@{cut} {:.3}", sum / self.queries as f64);
            CUTS.iter().zip(sums).map(of).collect::<Vec<_>>().join("  ")
        };
        println!("  {what}, n = {}: {}", self.queries, line(&self.sums));
        println!(
            "    with nothing below the threshold: {}",
            line(&self.shown)
        );
        println!(
            "    p50 {:.2} ms, p99 {:.2} ms",
            percentile(&mut self.times, 50),
            percentile(&mut self.times, 99)
        );
    }
}

#[derive(Deserialize)]
struct Mail {
    message_id: String,
    in_reply_to: Option<String>,
    from_name: Option<String>,
    date: String,
    subject: Option<String>,
    body: Option<String>,
    thread_id: String,
}

/// Turns of ten conversations as letters: a conversation is a persona, a session a thread.
async fn turns(all: &[Value]) -> (Letters, HashMap<(usize, String), i64>) {
    let mut letters = Letters::new().await;
    let mut seqs: HashMap<(usize, String), i64> = HashMap::new();
    for (number, conversation) in all.iter().enumerate() {
        let turns = &conversation["conversation"];
        let mut at_ms = 0;
        for session in 1..=60 {
            let date = turns[format!("session_{session}_date_time")].as_str();
            let date = date
                .and_then(|date| NaiveDateTime::parse_from_str(date, "%I:%M %p on %d %B, %Y").ok());
            at_ms = date.map_or(at_ms, |date| date.and_utc().timestamp_millis());
            for turn in turns[format!("session_{session}")]
                .as_array()
                .into_iter()
                .flatten()
            {
                let of = |field: &str| turn[field].as_str().unwrap_or_default().to_owned();
                let (id, seq) = (of("dia_id"), seqs.len() as i64 + 1);
                at_ms += 60_000;
                let at = Timestamp::from_millis(at_ms).to_string();
                let body = format!("{} {}", of("text"), of("blip_caption"));
                let message = rows::Message {
                    id: &format!("{number}-{id}"),
                    persona: &format!("c{number}"),
                    thread: &format!("c{number}-s{session}"),
                    direction: "inbound",
                    message_id: &format!("{number}-{id}"),
                    sender: &of("speaker"),
                    recipients_json: "{}",
                    subject: "",
                    body: body.trim(),
                    received_at: &at,
                    trust: "contact",
                    disposition: "run",
                };
                letters.add(message).await;
                seqs.insert((number, id), seq);
            }
        }
    }
    (letters, seqs)
}

/// Questions about conversations, with the turns that answer them.
async fn conversations(text: &str, errors: &str, mails: &[Mail]) {
    let all: Vec<Value> = serde_json::from_str(text).expect("LoCoMo's form");
    let errors: Vec<Value> = serde_json::from_str(errors).expect("the form of the audit");
    let corrected: HashMap<&str, &Value> = errors
        .iter()
        .filter_map(|error| Some((error["question_id"].as_str()?, &error["correct_evidence"])))
        .collect();
    let (mut letters, seqs) = turns(&all).await;
    println!(" LoCoMo, {} turns:", seqs.len());
    letters.done().await;
    let (mut shares, mut silent, mut adversarial) = (Shares::default(), 0, 0);
    for (number, conversation) in all.iter().enumerate() {
        let questions = conversation["qa"].as_array().into_iter().flatten();
        for (place, question) in questions.enumerate() {
            let name = format!("locomo_{number}_qa{place}");
            let evidence = corrected
                .get(name.as_str())
                .filter(|c| c.as_array().is_some_and(|c| !c.is_empty()));
            let evidence = evidence.copied().unwrap_or(&question["evidence"]);
            let named = evidence
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str);
            // Some name several turns in one text.
            let named =
                named.flat_map(|text| text.split(|c: char| !c.is_ascii_alphanumeric() && c != ':'));
            let wanted: BTreeSet<i64> = named
                .filter_map(|id| seqs.get(&(number, id.to_owned())).copied())
                .collect();
            let query = question["question"].as_str().unwrap_or_default();
            let (ranking, time) = letters.ranked(&format!("c{number}"), query, None).await;
            if question["category"] == ADVERSARIAL {
                adversarial += 1;
                silent += usize::from(ranking.share < SHARE_MIN);
            } else if !wanted.is_empty() {
                shares.count(&wanted, &ranking, time);
            }
        }
    }
    shares.print("questions with an answer");
    println!("  nothing shown: {silent} of {adversarial} adversarial questions");
    absent_subjects(&letters, mails).await;
}

/// Subjects of other mail, asked of conversations that are about none of them.
async fn absent_subjects(letters: &Letters, mails: &[Mail]) {
    let subjects = mails.iter().filter_map(|mail| mail.subject.as_deref());
    let subjects = subjects.filter(|subject| subject.split_whitespace().count() > 3);
    let step = (mails.len() / ABSENT / 2).max(1);
    let (mut absent, mut quiet) = (0, 0);
    for subject in subjects.step_by(step).take(ABSENT) {
        let (ranking, _) = letters
            .ranked(&format!("c{}", absent % 10), subject, None)
            .await;
        absent += 1;
        quiet += usize::from(ranking.share < SHARE_MIN);
    }
    println!(
        "  nothing shown: {quiet} of {absent} subjects of R's lists, asked of these conversations"
    );
}

/// Each reply asks by its rarest words for the letter that it answers, among all earlier ones.
async fn parents(mails: &[Mail]) {
    let mut letters = Letters::new().await;
    let mut seqs: HashMap<&str, i64> = HashMap::new();
    let (mut texts, mut counts) = (Vec::new(), WordCounts::default());
    let (mut dates, mut last_ms) = (Vec::new(), 0);
    for (place, mail) in mails.iter().enumerate() {
        let seq = place as i64 + 1;
        // Several have one date: each comes a second after the one before it at least.
        let date = DateTime::parse_from_rfc3339(&mail.date.replace(' ', "T"));
        let date = date.map_or(0, |date| date.timestamp_millis());
        let at = Timestamp::from_millis(date.max(last_ms + 1000));
        last_ms = at.as_millis();
        let subject = mail.subject.clone().unwrap_or_default();
        let fresh = fresh_text(mail.body.as_deref().unwrap_or_default(), &subject);
        let id = format!("m{seq}");
        let message = rows::Message {
            id: &id,
            persona: "ada",
            thread: &mail.thread_id,
            direction: "inbound",
            message_id: &id,
            sender: mail.from_name.as_deref().unwrap_or_default(),
            recipients_json: "{}",
            subject: &subject,
            body: &fresh,
            received_at: &at.to_string(),
            trust: "contact",
            disposition: "run",
        };
        letters.add(message).await;
        seqs.entry(mail.message_id.as_str()).or_insert(seq);
        counts.add(&fresh);
        texts.push(fresh);
        dates.push(at);
    }
    println!(
        " letters of R's lists, {}, {} to {}:",
        mails.len(),
        mails[0].date,
        mails[mails.len() - 1].date
    );
    letters.done().await;
    let mut shares = Shares::default();
    for (place, mail) in mails.iter().enumerate() {
        let parent = mail.in_reply_to.as_deref().and_then(|id| seqs.get(id));
        let Some(parent) = parent.filter(|parent| **parent <= place as i64) else {
            continue;
        };
        let rare = counts.rarest(&texts[place], RAREST);
        if rare.len() < 3 {
            continue;
        }
        let query = rare.join(" ");
        let (ranking, time) = letters.ranked("ada", &query, Some(dates[place])).await;
        shares.count(&BTreeSet::from([*parent]), &ranking, time);
    }
    shares.print("the letter that a reply answers");
}

const FILL: &str = "
    INSERT OR IGNORE INTO conversations (id, persona_id, subject, created_at)
      SELECT 't' || ($1 + key) / 4, 'ada', '', '2026-01-01T00:00:00.000Z' FROM json_each($2);
    INSERT OR IGNORE INTO threads (id, conversation_id, persona_id, subject, created_at, updated_at)
      SELECT 't' || ($1 + key) / 4, 't' || ($1 + key) / 4, 'ada', '', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z'
      FROM json_each($2);
    INSERT OR IGNORE INTO thread_participants (thread_id, address)
      SELECT 't' || ($1 + key) / 4, 'guest' || (($1 + key) / 4) % 5000 || '@guest.example' FROM json_each($2);
    INSERT INTO messages (id, thread_id, persona_id, direction, message_id, sender, subject, text_body, received_at, trust)
      SELECT 'm' || ($1 + key), 't' || ($1 + key) / 4, 'ada', 'inbound', 'm' || ($1 + key), 'Guest', 'A question', value,
        strftime('%Y-%m-%dT%H:%M:%fZ', 1700000000 + ($1 + key) * 30, 'unixepoch'), 'contact' FROM json_each($2)";

/// A word of a language of 500,000, in which the n-th is n times rarer than the first.
fn word(chance: u64, from: f64) -> String {
    let share = (chance.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / f64::from(1 << 24);
    let number = (from * (500_000.0 / from).powf(share)) as u64;
    // No digits: a word with digits would be a code, and no vowels, of which a stem would be made.
    let letter = |digit: char| char::from(b"bcdfghjklm"[digit as usize - '0' as usize]);
    number.to_string().chars().map(letter).collect()
}

/// How long searches take among many letters of sixty words, in threads of four, the first of which has a code.
async fn growth(many: usize) {
    let mut letters = Letters::new().await;
    let began = Instant::now();
    for first in (0..many).step_by(10_000) {
        let body = |number: u64| -> String {
            let words = (0..60).map(|place| word(number * 60 + place, 1.0));
            let words = words.collect::<Vec<_>>().join(" ");
            match number % 4 {
                0 => format!("{words} INV-2026/{number:06}"),
                _ => words,
            }
        };
        let bodies: Vec<String> = (first..many.min(first + 10_000))
            .map(|n| body(n as u64))
            .collect();
        let fill = db::query(FILL)
            .bind(first as i64)
            .bind(serde_json::json!(bodies).to_string());
        fill.execute(&mut letters.rows).await.expect("filled");
        db::raw_sql("COMMIT; BEGIN")
            .execute(&mut letters.rows)
            .await
            .expect("written");
    }
    println!(
        " {many} made letters, stored in {:.0} s:",
        began.elapsed().as_secs_f64()
    );
    letters.done().await;
    let store = letters
        .engine
        .store
        .persona(&PersonaId::parse("ada").expect("an id"));
    time_searches(&store, many).await;
}

/// Words as they are drawn, but for the two hundred most frequent: 5 as in a question, 16 as in a letter; and codes.
async fn time_searches(store: &PersonaStore, many: usize) {
    for (what, count, is_for_guest) in [
        ("a part of a code, all mail", 0, false),
        ("5 words, all mail", 5, false),
        ("16 words, all mail", 16, false),
        ("5 words, for a correspondent", 5, true),
    ] {
        let mut times = Vec::new();
        for query in 0..QUERIES as u64 {
            let words = (0..count).map(|place| word((query + 1) * 1_000_003 + place, 200.0));
            let words = words.collect::<Vec<_>>().join(" ");
            let code = format!("{:06}", query as usize * 7919 % many / 4 * 4);
            let guest = format!("guest{}@guest.example", query % 5000);
            let guest = attache::domain::Address::parse(&guest).expect("an address");
            let search = MessageSearch {
                query: Some(if count == 0 { code } else { words }),
                visible_to: is_for_guest.then(|| vec![guest]),
                limit: 10,
                ..MessageSearch::default()
            };
            let began = Instant::now();
            store.search_messages(&search).await.expect("a search");
            times.push(began.elapsed());
        }
        println!(
            "  {what}: p50 {:.2} ms, p99 {:.2} ms",
            percentile(&mut times, 50),
            percentile(&mut times, 99)
        );
    }
}
