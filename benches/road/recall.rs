//! What a search of letters finds, and how long it takes: questions about conversations (LoCoMo), the letter that a reply
//! answers (lists of R), words that nothing is about, and a million letters.
//!
//! The data is not ours and never in the repository: a folder holds `locomo10.json` and `errors.json` of
//! `dial481/locomo-audit` (CC BY-NC 4.0, only to measure), and `mails.jsonl` with a letter a line. `docs/benchmarks.md`
//! says how to get both. Whatever is absent is said, not skipped in silence.

use crate::app::{Workspace, rows};
use crate::client::{open, workspace};
use crate::counters::percentile;
use attache::app::Engine;
use attache::domain::{PersonaId, Timestamp};
use attache::mime::fresh_text;
use attache::store::{MessageSearch, Ranking, SHARE_MIN};
use serde::Deserialize;
use serde_json::Value;
use sqlx::SqliteConnection;
use std::collections::{BTreeMap, BTreeSet, HashMap};
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
    rows: SqliteConnection,
    _workspace: Workspace,
}

impl Letters {
    async fn new() -> Self {
        let workspace = workspace();
        let engine = open(&workspace).await;
        let mut rows = workspace.rows().await;
        let fast = sqlx::raw_sql("PRAGMA synchronous = OFF; BEGIN");
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
        let end = sqlx::raw_sql("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)");
        end.execute(&mut self.rows).await.expect("written");
        let sizes = "SELECT (SELECT sum(octet_length(subject) + octet_length(coalesce(fresh_text, text_body))) FROM messages),
            (SELECT sum(octet_length(block)) FROM letter_words_data) + (SELECT sum(octet_length(term) + 12) FROM letter_words_idx)
            + (SELECT sum(octet_length(sz) + 6) FROM letter_words_docsize)";
        let (text, index): (i64, i64) = sqlx::query_as(sizes)
            .fetch_one(&mut self.rows)
            .await
            .expect("sizes");
        println!(
            "  text {:.1} MB, index {:.1} MB ({:.0} %)",
            text as f64 / 1e6,
            index as f64 / 1e6,
            100.0 * index as f64 / text as f64
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
        for session in 1..=60 {
            for turn in turns[format!("session_{session}")]
                .as_array()
                .into_iter()
                .flatten()
            {
                let of = |field: &str| turn[field].as_str().unwrap_or_default().to_owned();
                let (id, seq) = (of("dia_id"), seqs.len() as i64 + 1);
                let at = Timestamp::from_millis(seq * 60_000).to_string();
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
    let (mut texts, mut counts) = (Vec::new(), BTreeMap::<String, u32>::new());
    let mut dates = Vec::new();
    for (place, mail) in mails.iter().enumerate() {
        let seq = place as i64 + 1;
        // In the order of the file, one a second: several have one date.
        let at = Timestamp::from_millis(seq * 1000);
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
        let words = words(&fresh);
        for word in &words {
            *counts.entry(word.clone()).or_default() += 1;
        }
        texts.push(words);
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
        let mut rare: Vec<&String> = texts[place]
            .iter()
            .filter(|word| counts[*word] > 1)
            .collect();
        rare.sort_by_key(|word| counts[*word]);
        rare.truncate(RAREST);
        if rare.len() < 3 {
            continue;
        }
        let query = rare
            .iter()
            .map(|word| word.as_str())
            .collect::<Vec<_>>()
            .join(" ");
        let (ranking, time) = letters.ranked("ada", &query, Some(dates[place])).await;
        shares.count(&BTreeSet::from([*parent]), &ranking, time);
    }
    shares.print("the letter that a reply answers");
}

fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let long = words.filter(|word| word.chars().count() > 2);
    long.map(str::to_lowercase).collect()
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
    format!("w{}", (from * (500_000.0 / from).powf(share)) as u64)
}

/// How long searches take among many letters of sixty words, in threads of four.
async fn growth(many: usize) {
    let mut letters = Letters::new().await;
    let began = Instant::now();
    for first in (0..many).step_by(10_000) {
        let body = |number: u64| -> String {
            let words = (0..60).map(|place| word(number * 60 + place, 1.0));
            words.collect::<Vec<_>>().join(" ")
        };
        let bodies: Vec<String> = (first..many.min(first + 10_000))
            .map(|n| body(n as u64))
            .collect();
        let fill = sqlx::query(FILL)
            .bind(first as i64)
            .bind(serde_json::json!(bodies).to_string());
        fill.execute(&mut letters.rows).await.expect("filled");
        sqlx::raw_sql("COMMIT; BEGIN")
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
    // Words as they are drawn, but for the two hundred most frequent: 5 as in a question, 16 as in a letter.
    for (what, count, readers) in [
        ("5 words, all mail", 5, None),
        ("16 words, all mail", 16, None),
        ("5 words, for a correspondent", 5, Some(())),
    ] {
        let mut times = Vec::new();
        for query in 0..QUERIES as u64 {
            let words = (0..count).map(|place| word((query + 1) * 1_000_003 + place, 200.0));
            let guest = format!("guest{}@guest.example", query % 5000);
            let search = MessageSearch {
                query: Some(words.collect::<Vec<_>>().join(" ")),
                visible_to: readers
                    .map(|()| vec![attache::domain::Address::parse(&guest).expect("an address")]),
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
