//! The stream of events: what is committed is told at once, nothing is missed by a reader that is cut off, and a stream ends
//! with the right to see it.

use super::site::{Login, Site};
use crate::approvals::scene::CONTACT;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A reader of events, over a socket of its own.
struct Reader {
    socket: TcpStream,
    text: String,
}

impl Reader {
    async fn open(site: &Site, login: &Login, query: &str, last: Option<i64>) -> Self {
        let mut socket = TcpStream::connect(site.address)
            .await
            .expect("a connection");
        let last = last
            .map(|last| format!("Last-Event-ID: {last}\r\n"))
            .unwrap_or_default();
        let request = format!(
            "GET /api/v1/events{query} HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\nSec-Fetch-Site: same-origin\r\n{last}\r\n",
            site.address, login.cookie
        );
        socket.write_all(request.as_bytes()).await.expect("sent");
        let mut reader = Self {
            socket,
            text: String::new(),
        };
        reader.until(|text| text.contains("retry: 3000")).await;
        assert!(reader.text.starts_with("HTTP/1.1 200"), "{}", reader.text);
        reader
    }

    /// Reads until the text is as wanted; `false`: the stream has ended before.
    async fn until(&mut self, is_enough: impl Fn(&str) -> bool) -> bool {
        let mut buffer = [0; 4096];
        while !is_enough(&self.text) {
            let read = timeout(Duration::from_secs(30), self.socket.read(&mut buffer));
            let count = read.await.expect("a word in time").unwrap_or(0);
            if count == 0 {
                return false;
            }
            self.text
                .push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        true
    }

    /// Numbers of the events that were read whole.
    fn ids(&self) -> Vec<i64> {
        let whole = self.text.rsplit_once("\n\n").map_or("", |(whole, _)| whole);
        let ids = whole.lines().filter_map(|line| line.strip_prefix("id: "));
        ids.filter_map(|id| id.trim().parse().ok()).collect()
    }
}

async fn all_events(site: &Site) -> Vec<i64> {
    let store = &site.scene.world.app.engine.store;
    let page = store.feed_after(0, &Default::default(), 1000).await;
    let page = page.expect("the feed");
    page.events.iter().map(|event| event.seq).collect()
}

#[tokio::test]
async fn what_is_committed_is_told_at_once() {
    let site = Site::start().await;
    let login = site.login().await;
    let mut reader = Reader::open(&site, &login, "", None).await;
    let start = Instant::now();
    site.scene.writes(CONTACT, "l1", "").await;
    let newest = *all_events(&site).await.last().expect("events");
    let is_there = reader
        .until(|text| text.contains(&format!("id: {newest}\n")))
        .await;
    assert!(is_there, "{}", reader.text);
    assert!(
        reader.text.contains("\"kind\":\"approval.asked\""),
        "{}",
        reader.text
    );
    // Nothing of the letter, whose words are for those who may read it.
    assert!(!reader.text.contains(CONTACT), "{}", reader.text);
    println!(
        "the last event was there {:?} after the letter was sent",
        start.elapsed()
    );
    assert_eq!(reader.ids(), all_events(&site).await);
}

#[tokio::test]
async fn a_reader_that_is_cut_off_at_any_byte_misses_nothing_and_sees_nothing_twice() {
    let site = Site::start().await;
    let login = site.login().await;
    let mut seen: Vec<i64> = Vec::new();
    for round in 0..40 {
        if round % 4 == 0 {
            site.scene.writes(CONTACT, &format!("l{round}"), "").await;
        }
        let last = seen.last().copied().unwrap_or(0);
        let newest = *all_events(&site).await.last().expect("events");
        if last >= newest {
            continue;
        }
        let mut reader = Reader::open(&site, &login, "", Some(last)).await;
        let enough = reader.text.len() + 1 + (round * 151) % 397;
        let end = format!("id: {newest}\n");
        reader
            .until(|text| text.len() >= enough || text.contains(&end))
            .await;
        // An event counts when its blank line was read, as browsers do.
        seen.extend(reader.ids());
    }
    let last = seen.last().copied().unwrap_or(0);
    let mut rest = Reader::open(&site, &login, "", Some(last)).await;
    let all = all_events(&site).await;
    let newest = *all.last().expect("events");
    if last < newest {
        let end = format!("id: {newest}\ndata");
        assert!(
            rest.until(|text| text.contains(&end) && text.ends_with("\n\n\r\n"))
                .await
        );
        seen.extend(rest.ids());
    }
    assert!(all.len() > 50, "{}", all.len());
    assert_eq!(seen, all);
}

#[tokio::test]
async fn a_stream_tells_of_its_thread_alone() {
    let site = Site::start().await;
    let login = site.login().await;
    site.scene.writes(CONTACT, "l1", "").await;
    let sql = "SELECT thread_id FROM messages WHERE message_id = $1";
    let thread = site.scene.world.app.row(sql, "l1@x.test").await[0].clone();
    let query = format!("?thread={}&after=0", thread.expect("a thread"));
    let mut reader = Reader::open(&site, &login, &query, None).await;
    reader.until(|text| text.contains("approval.asked")).await;
    let own = reader.ids();
    site.html_letter("html1", "<p>Another thread</p>").await;
    site.scene
        .writes(CONTACT, "l2", "In-Reply-To: <l1@x.test>\r\n")
        .await;
    reader
        .until(|text| text.matches("\"kind\":\"letter.").count() >= 2)
        .await;
    let events: Vec<&str> = reader
        .text
        .lines()
        .filter(|line| line.starts_with("data: {\"seq\""))
        .collect();
    assert!(events.len() > own.len());
    for event in events {
        assert!(event.contains("\"thread\":\""), "{event}");
    }
}

#[tokio::test]
async fn a_number_that_was_never_given_is_told_as_a_gap() {
    let site = Site::start().await;
    let login = site.login().await;
    site.scene.writes(CONTACT, "l1", "").await;
    let mut reader = Reader::open(&site, &login, "", Some(1_000_000)).await;
    let newest = *all_events(&site).await.last().expect("events");
    reader
        .until(|text| text.contains(&format!("id: {newest}\n")))
        .await;
    assert!(reader.text.contains("event: gap\n"), "{}", reader.text);
    for wrong in ["x", "-1"] {
        let answer = site
            .get(&login, &format!("/api/v1/events?after={wrong}"))
            .await;
        assert_eq!(answer.status, 400, "{wrong}");
    }
}
