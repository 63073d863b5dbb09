//! The real binary is killed in the middle of its work, again and again, while letters come in: what got a yes is
//! stored once, worked on once and answered once, and a mail that came twice was announced as a possible duplicate.
//!
//! `ATTACHE_KILLS=1000` is the long form.

use crate::app::audit;
use crate::app::db;
use crate::recovery::place::{Running, Sink, attache, workspace};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Result, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Letters that get a yes between two kills.
const LETTERS_BETWEEN_KILLS: [usize; 8] = [1, 13, 2, 29, 5, 17, 3, 8];
/// How many kills there are instead: the long form.
const KILLS_VARIABLE: &str = "ATTACHE_KILLS";
const CLIENTS: usize = 4;

/// Where the engine of the moment listens, and whether letters still come.
#[derive(Default)]
struct LetterIntake {
    port: AtomicU16,
    closed: AtomicBool,
}

/// Sends letter after letter, each until it gets its yes; tells of every yes.
fn write_letters(intake: &LetterIntake, client: usize, yes: &Sender<String>) {
    let mut connection = None;
    for letter in 0.. {
        let id = format!("{client}-{letter}@guest.example");
        while !intake.closed.load(Ordering::Relaxed) {
            let taken = connection
                .take()
                .map_or_else(|| connect(intake), Ok)
                .and_then(|mut open| {
                    send(&mut open, &id)?;
                    Ok(open)
                });
            connection = taken.ok();
            if connection.is_some() {
                yes.send(id.clone()).expect("somebody counts");
                break;
            }
            crate::app::blink();
        }
        if intake.closed.load(Ordering::Relaxed) {
            return;
        }
    }
}

fn connect(intake: &LetterIntake) -> Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(("127.0.0.1", intake.port.load(Ordering::Relaxed)))?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut open = BufReader::new(stream);
    expect(&mut open, "220")?;
    say(&mut open, "HELO guest.example\r\n", "250")?;
    Ok(open)
}

fn send(open: &mut BufReader<TcpStream>, id: &str) -> Result<()> {
    say(open, "MAIL FROM:<bob@guest.example>\r\n", "250")?;
    say(open, "RCPT TO:<concierge@guesthouse.example>\r\n", "250")?;
    say(open, "DATA\r\n", "354")?;
    let head = "From: bob@guest.example\r\nTo: concierge@guesthouse.example\r\nSubject: Breakfast";
    say(
        open,
        &format!("{head}\r\nMessage-ID: <{id}>\r\n\r\nWhen?\r\n.\r\n"),
        "250",
    )
}

fn say(open: &mut BufReader<TcpStream>, words: &str, wanted: &str) -> Result<()> {
    open.get_mut().write_all(words.as_bytes())?;
    expect(open, wanted)
}

fn expect(open: &mut BufReader<TcpStream>, wanted: &str) -> Result<()> {
    let mut line = String::new();
    open.read_line(&mut line)?;
    match line.starts_with(wanted) {
        true => Ok(()),
        false => Err(std::io::Error::other(line)),
    }
}

/// Starts an engine and tells the clients where it listens.
fn serve(folder: &Path, intake: &LetterIntake) -> Running {
    let engine = Running::start(folder, &[]);
    intake.port.store(engine.port, Ordering::Relaxed);
    engine
}

/// The mails that came, by the letter that each answers.
fn answers(sink: &Sink) -> BTreeMap<String, Vec<Vec<u8>>> {
    let mut answers: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    for mail in sink.mails.lock().expect("a lock").iter() {
        let text = String::from_utf8_lossy(mail);
        let answered = text
            .lines()
            .find_map(|line| line.strip_prefix("In-Reply-To: "))
            .expect("a reply");
        answers
            .entry(answered.trim_matches(['<', '>']).to_owned())
            .or_default()
            .push(mail.clone());
    }
    answers
}

/// One to seven letters, as a fixed disorder has it, for as many kills as the environment asks for.
fn letters_between_kills() -> Vec<usize> {
    let Some(kills) = std::env::var(KILLS_VARIABLE)
        .ok()
        .and_then(|kills| kills.parse().ok())
    else {
        return LETTERS_BETWEEN_KILLS.to_vec();
    };
    let next = |seed: &u64| Some(seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    std::iter::successors(Some(7), next)
        .take(kills)
        .map(|seed| 1 + (seed >> 33) as usize % 7)
        .collect()
}

/// Kills the engine after so many letters, every time; gives the letters that got a yes.
fn under_fire(folder: &Path) -> Vec<String> {
    let intake = Arc::new(LetterIntake::default());
    let mut engine = serve(folder, &intake);
    let (yes, told) = channel();
    let client = |number| {
        let (intake, yes) = (intake.clone(), yes.clone());
        std::thread::spawn(move || write_letters(&intake, number, &yes))
    };
    let clients: Vec<_> = (0..CLIENTS).map(client).collect();
    let mut taken = Vec::new();
    for letters in letters_between_kills() {
        for _ in 0..letters {
            taken.push(
                told.recv_timeout(Duration::from_secs(30))
                    .expect("letters get a yes"),
            );
        }
        drop(engine);
        engine = serve(folder, &intake);
    }
    intake.closed.store(true, Ordering::Relaxed);
    clients
        .into_iter()
        .for_each(|client| client.join().expect("a client ends"));
    drop(engine);
    drop(yes);
    taken.extend(told);
    taken
}

async fn column(rows: &mut db::Connection, sql: &'static str) -> Vec<String> {
    db::query_scalar(sql).fetch_all(rows).await.expect("rows")
}

#[tokio::test]
#[ignore = "second tier"]
async fn letters_that_got_a_yes_are_answered_once_whatever_the_kills() {
    let sink = Sink::default();
    let turns = json!([{ "call": [{ "tool": "list_files", "args": {} }] }, { "say": "From seven to ten." }]);
    let dir = workspace(sink.open(), &json!({ "turns": turns }));
    let mut taken = under_fire(dir.path());
    let run = |args: &[&str]| {
        let done = attache(dir.path(), args).output().expect("the binary runs");
        assert!(done.status.success(), "{done:?}");
    };
    run(&["drain"]);
    // A mail that two kills left in doubt waits for its operator (`RECOVER_COMMITTING`), who lets it go.
    let mut rows = db::Connection::open(dir.path()).await;
    let held = "SELECT id FROM deliveries WHERE state = 'held' AND possible_duplicate = 1";
    let held = column(&mut rows, held).await.len();
    if held > 0 {
        run(&["outbox", "retry", "--held"]);
        run(&["drain"]);
    }
    let undone = "SELECT state FROM deliveries WHERE state <> 'done'";
    assert_eq!(column(&mut rows, undone).await, [""; 0]);

    audit(&mut rows).await;
    let whole = rows.on("PRAGMA integrity_check", "SELECT 'ok'");
    assert_eq!(column(&mut rows, whole).await, ["ok"]);
    let mut stored = column(
        &mut rows,
        "SELECT message_id FROM messages WHERE direction = 'inbound' ORDER BY 1",
    )
    .await;
    // A letter may be stored and its yes lost with the engine; the client was told to stop before it tried again.
    stored.retain(|id| taken.contains(id));
    taken.sort();
    assert_eq!(stored, taken, "every yes is stored, once");
    let ended = "SELECT state || ' ' || count(*) FROM runs r GROUP BY trigger_message_id, state";
    let ended = column(&mut rows, ended).await;
    assert!(ended.iter().all(|line| line == "succeeded 1"), "{ended:?}");
    let flagged = "SELECT m.in_reply_to FROM deliveries d JOIN messages m ON m.id = d.message_id
        WHERE d.possible_duplicate = 1";
    let flagged = column(&mut rows, flagged).await;
    let came = answers(&sink);
    let twice = taken
        .iter()
        .filter(|id| came.get(*id).is_some_and(|mails| mails.len() > 1))
        .count();
    println!(
        "{} kills: {} letters got a yes, all stored and run once; {twice} answers came twice, {} deliveries are flagged, {held} were held",
        letters_between_kills().len(),
        taken.len(),
        flagged.len()
    );
    for id in &taken {
        let mails = came.get(id).map(Vec::as_slice).unwrap_or_default();
        let once = mails.len() == 1 || mails.len() > 1 && flagged.contains(id);
        assert!(
            once,
            "{} mails came for {id}, flagged: {flagged:?}",
            mails.len()
        );
        assert!(
            mails.iter().all(|mail| *mail == mails[0]),
            "a mail for {id} came with other bytes"
        );
    }
}
