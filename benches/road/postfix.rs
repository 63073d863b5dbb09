//! Side by side with a reference: letters that Postfix takes into its queue and letters that we take, on the same disk, by
//! the same clients, in turns. What travels between machines is the ratio.
//!
//! Postfix runs as an instance of its own in a temporary folder: its queue, its port, its log. It accepts and queues; no
//! letter leaves, because every transport is deferred. Where it is not installed, or not allowed to start, the section
//! says so and measures nothing.

use crate::client::{LETTER_BYTES, Listener, open, send_all, workspace};
use crate::counters::{cpu_time, median, record};
use crate::history::Serving;
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

const ROUNDS: usize = 3;
/// Postfix's own test client, and ours, with connections at once and letters.
const CASES: [(Client, usize, usize); 5] = [
    (Client::Ours, 1, 600),
    (Client::Ours, 8, 2_000),
    (Client::Ours, 32, 2_000),
    (Client::SourceKept, 32, 2_000),
    (Client::Source, 32, 2_000),
];
/// Connections and letters of the whole replies.
const REPLIES: (usize, usize) = (8, 800);

#[derive(Clone, Copy)]
enum Client {
    /// `smtp-source`, a connection for each letter.
    Source,
    /// `smtp-source -d`, which keeps its connections.
    SourceKept,
    /// The one of this bench.
    Ours,
}

impl Client {
    fn name(self) -> &'static str {
        match self {
            Client::Source => "smtp-source",
            Client::SourceKept => "smtp-source -d",
            Client::Ours => "our client",
        }
    }

    /// Letters in a second.
    async fn rate(
        self,
        address: SocketAddr,
        name: &str,
        connections: usize,
        letters: usize,
    ) -> f64 {
        let began = Instant::now();
        match self {
            Client::Ours => {
                let sent = send_all(address, name, connections, letters).await;
                return sent.len() as f64 / began.elapsed().as_secs_f64();
            }
            Client::Source => source(address, connections, letters, &[]).await,
            Client::SourceKept => source(address, connections, letters, &["-d"]).await,
        }
        letters as f64 / began.elapsed().as_secs_f64()
    }
}

async fn source(address: SocketAddr, connections: usize, letters: usize, more: &[&str]) {
    let mut source = Command::new("smtp-source");
    let (connections, letters) = (connections.to_string(), letters.to_string());
    let size = LETTER_BYTES.to_string();
    source.args(["-s", &connections, "-m", &letters, "-l", &size]);
    source
        .args(["-f", "bob@guest.example", "-t", "ada@engine.test"])
        .args(more)
        .arg(address.to_string());
    let sent = source.status().await.expect("smtp-source runs");
    assert!(sent.success(), "smtp-source: {sent}");
}

pub async fn side_by_side() {
    let postfix = match Postfix::start().await {
        Ok(postfix) => postfix,
        Err(why) => return println!("  SKIPPED: {why}"),
    };
    for case in CASES {
        accepts(&postfix, case).await;
    }
    replies(&postfix).await;
    postfix.stop().await;
}

async fn accepts(postfix: &Postfix, (client, connections, letters): (Client, usize, usize)) {
    let (mut theirs, mut ours, mut ratios, mut cost) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let postfix_rate = client
            .rate(postfix.address, "postfix", connections, letters)
            .await;
        postfix.empty().await;
        let workspace = workspace();
        let engine = open(&workspace).await;
        let listener = Listener::of(&engine).await;
        let before = cpu_time();
        let name = format!("ours.{round}");
        let our_rate = client
            .rate(listener.address, &name, connections, letters)
            .await;
        cost.push((cpu_time() - before).as_secs_f64() * 1e6 / letters as f64);
        listener.stop().await;
        theirs.push(postfix_rate);
        ours.push(our_rate);
        ratios.push(our_rate / postfix_rate);
    }
    let [theirs, ours, ratio, cost] = [theirs, ours, ratios, cost].map(median);
    let client_too = if matches!(client, Client::Ours) {
        ", client included"
    } else {
        ""
    };
    println!(
        "  {:<15} {connections:>2} at once: Postfix {theirs:>6.0}/s, ours {ours:>6.0}/s: ×{ratio:.2} ({cost:.0} µs of CPU each{client_too})",
        client.name(),
    );
    record(
        &json!({ "bench": "postfix", "client": client.name(), "connections": connections, "postfix_per_s": theirs,
        "ours_per_s": ours, "ratio": ratio, "cpu_us": cost }),
    );
}

/// Letters that are answered, beside letters that Postfix only takes.
async fn replies(postfix: &Postfix) {
    let (connections, letters) = REPLIES;
    let (mut theirs, mut ours, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let postfix_rate = Client::Ours
            .rate(postfix.address, "postfix", connections, letters)
            .await;
        postfix.empty().await;
        let mut serving = Serving::fresh().await;
        let began = Instant::now();
        serving
            .answer(&format!("ours.{round}"), connections, letters)
            .await;
        let our_rate = letters as f64 / began.elapsed().as_secs_f64();
        serving.stop().await;
        theirs.push(postfix_rate);
        ours.push(our_rate);
        ratios.push(our_rate / postfix_rate);
    }
    let [theirs, ours, ratio] = [theirs, ours, ratios].map(median);
    println!(
        "  whole replies, letters over {connections} connections: Postfix takes {theirs:>5.0}/s, ours answers {ours:>5.0}/s: ×{ratio:.2}"
    );
    record(
        &json!({ "bench": "postfix_replies", "connections": connections, "postfix_per_s": theirs, "ours_per_s": ours,
        "ratio": ratio }),
    );
}

/// An instance of our own.
struct Postfix {
    folder: TempDir,
    address: SocketAddr,
}

impl Postfix {
    /// Errors: why it cannot run here.
    async fn start() -> Result<Self, String> {
        for program in ["postfix", "postsuper", "smtp-source"] {
            let found = Command::new("sh")
                .args(["-c", &format!("command -v {program} >/dev/null")])
                .status()
                .await;
            if !found.is_ok_and(|found| found.success()) {
                return Err(format!(
                    "`{program}` is not installed, so there is nothing to compare with"
                ));
            }
        }
        if !rustix_is_root() {
            return Err(
                "Postfix starts only as root, so there is nothing to compare with".to_owned(),
            );
        }
        let folder = tempfile::tempdir().expect("a folder");
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a port");
        let address = free.local_addr().expect("an address");
        drop(free);
        configure(folder.path(), address);
        let postfix = Self { folder, address };
        let started = postfix.command("postfix", &["start"]).await;
        for _ in 0..100 {
            if TcpStream::connect(address).await.is_ok() {
                return Ok(postfix);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err(format!("Postfix did not start ({started})"))
    }

    async fn command(&self, program: &str, arguments: &[&str]) -> String {
        let command = Command::new(program)
            .arg("-c")
            .arg(self.folder.path())
            .args(arguments)
            .output()
            .await;
        command.map_or_else(
            |error| error.to_string(),
            |output| String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    }

    /// Forgets its queue, so that every round begins alike.
    async fn empty(&self) {
        self.command("postsuper", &["-d", "ALL"]).await;
    }

    async fn stop(&self) {
        self.command("postfix", &["stop"]).await;
    }
}

fn rustix_is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// A queue, a port and a log below `folder`; the defaults of Postfix otherwise.
fn configure(folder: &Path, address: SocketAddr) {
    use std::os::unix::fs::PermissionsExt;
    let world = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder, world).expect("its processes may look in");
    for name in ["spool", "lib", "log"] {
        std::fs::create_dir(folder.join(name)).expect("a folder");
    }
    let own = std::process::Command::new("chown")
        .arg("postfix")
        .arg(folder.join("lib"))
        .status();
    own.expect("chown runs");
    let at = folder.display();
    let main = format!(
        "compatibility_level = 3.6\nqueue_directory = {at}/spool\ndata_directory = {at}/lib\n\
         maillog_file = {at}/log/mail.log\nmaillog_file_prefixes = {at}\ninet_interfaces = loopback-only\n\
         inet_protocols = ipv4\nmyhostname = reference.test\nmynetworks = 127.0.0.0/8\nmydestination =\nalias_maps =\n\
         local_recipient_maps =\nsmtpd_relay_restrictions = permit_mynetworks, reject\n\
         smtpd_tls_security_level = none\nsmtp_dns_support_level = disabled\nrelay_domains = engine.test\n\
         default_transport = error:nothing leaves\ndefer_transports = hold, smtp, relay, error, discard\n\
         in_flow_delay = 0\nnotify_classes =\n"
    );
    let services = [
        "pickup unix n - n 60 1 pickup",
        "cleanup unix n - n - 0 cleanup",
        "qmgr unix n - n 300 1 qmgr",
        "rewrite unix - - n - - trivial-rewrite",
        "bounce unix - - n - 0 bounce",
        "defer unix - - n - 0 bounce",
        "trace unix - - n - 0 bounce",
        "flush unix n - n 1000? 0 flush",
        "proxymap unix - - n - - proxymap",
        "smtp unix - - n - - smtp",
        "relay unix - - n - - smtp",
        "error unix - - n - - error",
        "retry unix - - n - - error",
        "discard unix - - n - - discard",
        "anvil unix - - n - 1 anvil",
        "scache unix - - n - 1 scache",
        "showq unix n - n - - showq",
        "postlog unix-dgram n - n - 1 postlogd",
    ];
    let master = format!(
        "{address} inet n - n - 100 smtpd\n{}\n",
        services.join("\n")
    );
    std::fs::write(folder.join("main.cf"), main).expect("written");
    std::fs::write(folder.join("master.cf"), master).expect("written");
}
