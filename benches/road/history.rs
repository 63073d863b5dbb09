//! What a long history costs a whole reply: letter over SMTP, two calls of the model, `send_email`, mail in the folder, at
//! stations that all work, beside budgets, notices, responsibilities and agents' sessions, in stores of different ages.

use crate::app::{self, Workspace, note};
use crate::client::{Client, open};
use crate::copies;
use crate::counters::{self, cpu_time, disk_bytes, percentile, record};
use serde_json::json;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Letters that the engine answers itself before their rows are copied.
const ORIGINALS: usize = 200;
const ROUNDS: usize = 5;
/// Letters of a round that come over several connections at once, and those that come one by one.
const BURST: usize = 400;
const SINGLE: usize = 60;
const CONNECTIONS: usize = 8;
const RESPONSIBILITIES: usize = 20;
/// Letters of a round for one thread.
const ONE_THREAD: usize = 200;

/// An engine that serves a workspace with so many letters in it.
pub struct Serving {
    letters: usize,
    workspace: Workspace,
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
    mails: usize,
    rounds: Vec<Round>,
    latencies: Vec<Duration>,
}

#[derive(Clone, Copy)]
struct Round {
    replies_per_s: f64,
    cpu_ms: f64,
    read_kb: f64,
    written_kb: f64,
}

/// `sizes`: numbers of letters, the fewest first.
pub async fn history(sizes: &[usize]) {
    let mut all = Vec::new();
    for letters in sizes {
        let began = Instant::now();
        all.push(Serving::of(*letters).await);
        let took = began.elapsed().as_secs_f64();
        println!("  {letters} letters stored in {took:.0} s");
    }
    for round in 0..ROUNDS {
        // Each place in the order is each age's in turn: who comes first meets an idle disk.
        let count = all.len();
        for at in 0..count {
            all[(at + round) % count].measure(round).await;
        }
    }
    let few = all[0].summary();
    for serving in &mut all {
        let own = serving.summary();
        let ratio = |figure: fn(&Summary) -> f64| figure(&own) / figure(&few);
        println!(
            "  {:>9} letters: {:>4.0} replies/s (×{:.2}), {:.2} ms of CPU each (×{:.2}), {:.0} kB read and {:.0} kB \
             written each; one by one p50 {:.1} ms (×{:.2}), p99 {:.1} ms (×{:.2})",
            serving.letters,
            own.round.replies_per_s,
            ratio(|own| own.round.replies_per_s),
            own.round.cpu_ms,
            ratio(|own| own.round.cpu_ms),
            own.round.read_kb,
            own.round.written_kb,
            own.p50_ms,
            ratio(|own| own.p50_ms),
            own.p99_ms,
            ratio(|own| own.p99_ms),
        );
        record(&json!({
            "bench": "history", "letters": serving.letters, "replies_per_s": own.round.replies_per_s,
            "cpu_ms": own.round.cpu_ms, "read_kb": own.round.read_kb, "written_kb": own.round.written_kb,
            "one_by_one_p50_ms": own.p50_ms, "one_by_one_p99_ms": own.p99_ms,
        }));
    }
    for serving in all {
        serving.stop().await;
    }
}

/// Medians of the rounds, and the percentiles of the letters that came one by one.
struct Summary {
    round: Round,
    p50_ms: f64,
    p99_ms: f64,
}

impl Serving {
    /// Without a letter.
    pub async fn fresh() -> Self {
        Self::begin(house(), 0).await
    }

    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// With so many letters, of which the engine answered some itself.
    pub async fn of(letters: usize) -> Self {
        let workspace = house();
        let mut first = Self::begin(workspace, ORIGINALS).await;
        first.answer("original", CONNECTIONS, ORIGINALS).await;
        let workspace = first.stop().await;
        copies::multiply(&mut workspace.rows().await, letters).await;
        // What the kernel still has to write would be measured with the first letters.
        let database = std::fs::File::open(workspace.path().join("data/attache.db"));
        database.and_then(|file| file.sync_all()).expect("written");
        Self::begin(workspace, letters).await
    }

    pub async fn stop(self) -> Workspace {
        self.stop.cancel();
        self.task.await.expect("no panic").expect("served");
        self.workspace
    }

    async fn begin(workspace: Workspace, letters: usize) -> Self {
        let engine = open(&workspace).await;
        let bound = engine.bind().await.expect("a port");
        let address = bound[0].tcp_address().expect("an address");
        let stop = CancellationToken::new();
        let task = tokio::spawn(engine.serve(bound, stop.clone()));
        Self {
            letters,
            workspace,
            address,
            stop,
            task,
            mails: 0,
            rounds: Vec::new(),
            latencies: Vec::new(),
        }
    }

    /// Sends letters, each of a thread of its own, and waits until each is answered.
    pub async fn answer(&mut self, name: &str, connections: usize, letters: usize) {
        self.answer_in(None, name, connections, letters).await;
    }

    /// `thread`: Message-ID that all letters refer to.
    async fn answer_in(
        &mut self,
        thread: Option<&'static str>,
        name: &str,
        connections: usize,
        letters: usize,
    ) {
        let mut clients = tokio::task::JoinSet::new();
        for client in 0..connections {
            let (address, name) = (self.address, format!("00000000.{name}.{client}"));
            clients.spawn(async move {
                let mut client = Client::connect(address).await;
                for number in 0..letters / connections {
                    let id = format!("{name}.{number}");
                    client.send(&question(&id, thread)).await;
                }
            });
        }
        clients.join_all().await;
        self.mails += letters;
        self.wait_for_mails().await;
    }

    async fn wait_for_mails(&self) {
        let outbox = self.workspace.path().join("data/outbox");
        while crate::mails_in(&outbox) < self.mails {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Answers letters one by one and in a burst; returns the burst's replies a second, microseconds of CPU and kilobytes
    /// written for each.
    pub async fn measure(&mut self, round: usize) -> [f64; 3] {
        // What is counted are the mails of this round.
        let outbox = self.workspace.path().join("data/outbox");
        std::fs::remove_dir_all(&outbox).expect("an outbox");
        std::fs::create_dir(&outbox).expect("an outbox");
        self.mails = 0;
        let mut client = Client::connect(self.address).await;
        for number in 0..SINGLE {
            let began = Instant::now();
            client
                .send(&question(&format!("00000000.single{round}.{number}"), None))
                .await;
            self.mails += 1;
            self.wait_for_mails().await;
            self.latencies.push(began.elapsed());
        }
        let (began, cpu, disk) = (Instant::now(), cpu_time(), disk_bytes());
        let name = format!("round{round}");
        self.answer(&name, CONNECTIONS, BURST).await;
        let took = began.elapsed().as_secs_f64();
        let [read_kb, written_kb] =
            [0, 1].map(|at| (disk_bytes()[at] - disk[at]) as f64 / 1e3 / BURST as f64);
        let replies_per_s = BURST as f64 / took;
        let cpu_ms = (cpu_time() - cpu).as_secs_f64() * 1e3 / BURST as f64;
        self.rounds.push(Round {
            replies_per_s,
            cpu_ms,
            read_kb,
            written_kb,
        });
        [replies_per_s, cpu_ms * 1e3, written_kb]
    }

    fn summary(&mut self) -> Summary {
        let median = |of: fn(&Round) -> f64| counters::median(self.rounds.iter().map(of).collect());
        let round = Round {
            replies_per_s: median(|round| round.replies_per_s),
            cpu_ms: median(|round| round.cpu_ms),
            read_kb: median(|round| round.read_kb),
            written_kb: median(|round| round.written_kb),
        };
        Summary {
            round,
            p50_ms: percentile(&mut self.latencies, 50),
            p99_ms: percentile(&mut self.latencies, 99),
        }
    }
}

/// Replies in one thread, beside as many in threads of their own, in turns.
pub async fn one_thread() {
    const THREAD: &str = "00000000.thread.0.0@guest.example";
    let mut serving = Serving::fresh().await;
    serving.answer("thread", 1, 1).await;
    let mut rates = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        for (rates, thread) in rates.iter_mut().zip([None, Some(THREAD)]) {
            let name = format!("{round}.{}", thread.is_some());
            let began = Instant::now();
            serving
                .answer_in(thread, &name, CONNECTIONS, ONE_THREAD)
                .await;
            rates.push(ONE_THREAD as f64 / began.elapsed().as_secs_f64());
        }
    }
    let [own, one] = rates.map(counters::median);
    let ratio = one / own;
    println!(
        "  {ONE_THREAD} letters: {own:.0} replies/s in threads of their own, {one:.0} in one thread: ×{ratio:.2}"
    );
    record(&json!({ "bench": "one_thread", "own_per_s": own, "one_per_s": one, "ratio": ratio }));
    serving.stop().await;
}

/// A short letter whose sender is proven, so that tools are offered.
fn question(id: &str, thread: Option<&str>) -> String {
    let references = thread.map_or(String::new(), |id| format!("References: <{id}>\n"));
    note(
        &format!("{id}@guest.example"),
        &format!("{}{references}", app::PROVEN),
        "When is breakfast, and may Olga bring her dog?",
    )
}

/// A persona with everything that does something for each letter: prices and bounds, files to look things up in,
/// responsibilities, and a tool that it calls.
fn house() -> Workspace {
    let call = json!({ "tool": "send_email", "args": { "to": ["bob@guest.example"], "body": "From seven to ten, and she may." } });
    let usage = json!({ "input_tokens": 3_000, "output_tokens": 100 });
    let workspace = Workspace::new(&json!({ "rules": [
        { "when": { "turn": 0 }, "call": [call], "usage": usage },
        { "say": "Done: the reply was sent.", "usage": usage },
    ] }))
    .talkative();
    workspace.write_json("configs/security.json", &app::behind_relay());
    workspace.write_json(
        "configs/prices.json",
        &json!({ "version": "bench", "prices": [{ "provider": "*", "model": "*", "input": 1, "output": 5 }] }),
    );
    workspace.set(
        "configs/inference.json",
        "/budget",
        json!({ "day_usd_max": 100_000, "thread_day_usd_max": 1_000 }),
    );
    let runs = json!({ "runs_max": 32, "runs_per_persona_max": 32 });
    workspace.set("configs/inference.json", "/concurrency", runs);
    let parts = [
        "load-file(configs/prompts/system.md)",
        "persona",
        "active-memory",
        "knowledge",
        "thread-history",
        "invocation-metadata",
        "current-input",
    ];
    workspace.set("configs/context.json", "/thread", json!(parts));
    for number in 0..RESPONSIBILITIES {
        workspace.write(
            &format!("personas/ada/knowledge/note{number}.md"),
            &format!(
                "# Room {number}\n\nDogs sleep in room {number}, breakfast is at {}.\n",
                7 + number % 3
            ),
        );
        workspace.write(
            &format!("personas/ada/responsibilities/round{number}.md"),
            "---\nname: A round\nschedule: \"0 3 1 1 *\"\n---\nLook at what came in.\n",
        );
    }
    workspace
}
