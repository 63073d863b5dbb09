//! Installations whose programs are missing or unwell, servers that refuse, and records that a domain lacks.

use super::Case;
use super::house::{House, Made, broken, kept};
use super::machine::inside;
use crate::dns::{DnsStub, Record};
use crate::outbound::server::{Script, Server};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::SocketAddr;

pub static CASES: &[Case] = &[
    Case::fault(
        "a hook that is not on the path",
        "programs",
        &["configs/hooks.json", "hook `mail`", "`no-such-check`"],
        "`PATH`",
        |house| hook(house, "no-such-check"),
    ),
    Case::fault(
        "a hook that is not executable",
        "programs",
        &["configs/hooks.json", "`hooks/check` is not a program"],
        "chmod +x",
        |house| {
            house.write("hooks/check", "#!/bin/sh\n");
            hook(house, "hooks/check")
        },
    ),
    Case::fault(
        "an own tool whose program is gone",
        "programs",
        &["configs/tools/weather/tool.json"],
        "",
        own_tool,
    ),
    Case::fault(
        "an MCP server whose program is gone",
        "programs",
        &["configs/mcp.json", "`no-such-server`"],
        "`PATH`",
        |house| server(house, "no-such-server", &json!({})),
    ),
    Case::warning(
        "tools that nobody has approved",
        "programs",
        &["MCP server `stock`: 1 of its tools"],
        "attache mcp approve stock",
        |house| {
            server(
                house,
                "cat",
                &json!({ "count": { "class": "repeatable", "effects": {} } }),
            )
        },
    ),
    Case::warning(
        "a mailbox that refused the login when an engine worked",
        "servers",
        &[
            "configs/gateway.json",
            "mailbox `post` failed at 2026-11-20",
            "no such password",
        ],
        "attache mailboxes check post",
        |house| failed_mailbox(house, "no such password"),
    ),
    Case::warning(
        "a mailbox that was away when an engine worked",
        "servers",
        &["mailbox `post` failed", "connection refused"],
        "asks it now",
        |house| failed_mailbox(house, "connection refused"),
    ),
    Case::warning(
        "a mail server that refused the login",
        "servers",
        &[
            "the mail server refuses the login since 2026-11-20",
            "535 5.7.8",
        ],
        "attache outbox check",
        |house| house.sql(&health("auth_failed", "535 5.7.8 go away")),
    ),
    Case::warning(
        "a mail server that was away",
        "servers",
        &["the mail server is away since 2026-11-20"],
        "attache outbox check",
        |house| house.sql(&health("unreachable", "")),
    ),
    Case::warning(
        "a provider that failed and has not answered since",
        "servers",
        &[
            "configs/inference.json",
            "provider `anthropic` failed at",
            "invalid x-api-key",
        ],
        "attache providers check",
        |house| house.sql(&provider_failure("auth", "invalid x-api-key")),
    ),
    Case::warning(
        "a provider that took too long",
        "servers",
        &["provider `anthropic` failed at", "(timeout)"],
        "attache providers check",
        |house| house.sql(&provider_failure("timeout", "no answer")),
    ),
    Case::fault(
        "a mailbox that the engine cannot reach now",
        "servers",
        &["mailbox `post` failed at"],
        "attache mailboxes check post",
        |house| {
            closed_mailbox(house);
            let engine = house.serve();
            let has_failed = || {
                let status = house.run(&["status", "--json"]);
                String::from_utf8_lossy(&status.stdout).contains("\"mailbox\"")
            };
            // Each look starts a process, which is pace enough.
            let found = (0..400).any(|_| has_failed());
            assert!(found, "the engine has not tried the mailbox");
            kept(engine)
        },
    ),
    Case::fault(
        "an agent that is not installed",
        "configuration",
        &["provider `claude`", "cannot be used"],
        "",
        |house| agent(house, "no-such-agent"),
    ),
    Case::fault(
        "an agent that does not start",
        "programs",
        &["agent `claude`", "--version"],
        "",
        |house| {
            house.write("agent", "#!/bin/sh\nexit 3\n");
            house.chmod("agent", 0o700);
            agent(house, &house.path().join("agent").display().to_string())
        },
    ),
    Case::warning(
        "commands without a sandbox",
        "programs",
        &["`shell` is offered to no run"],
        "apt-get install bubblewrap",
        |house| {
            house.set("personas/nora/persona.json", "/shell", json!(true));
            inside(house, "mount --bind /dev/null \"$(command -v bwrap)\"")
        },
    ),
    Case::fault(
        "a mail server that is away",
        "servers",
        &["mail cannot go out by `127.0.0.1:1`"],
        "`host` and `port`",
        |house| {
            let dns = online(house, &GOOD_ZONE);
            house.gateway("/outbound", smarthost(1));
            kept(dns)
        },
    ),
    Case::fault(
        "a mailbox that is away",
        "servers",
        &["mailbox `house` cannot be read"],
        "mailboxes check house",
        mailbox,
    ),
    Case::fault(
        "a provider that is away",
        "servers",
        &["provider `compat:local`"],
        "this machine reaches it",
        |house| {
            let dns = online(house, &GOOD_ZONE);
            price(house, "compat:local", "small");
            let block = json!({ "compat:local": { "base_url": "http://127.0.0.1:1/v1" } });
            house.set("configs/inference.json", "/providers", block);
            house.set("configs/inference.json", "/model", json!("small"));
            house.set("configs/inference.json", "/provider", json!("compat:local"));
            kept(dns)
        },
    ),
    Case::fault(
        "a clock that is an hour ahead of a provider's",
        "clock",
        &["this clock is 1h ahead of that of provider `compat:local`"],
        "timedatectl",
        |house| kept((online(house, &GOOD_ZONE), dated_provider(house, -3600))),
    ),
    Case::warning(
        "a clock that is some minutes behind a provider's",
        "clock",
        &["this clock is 2m behind that of provider `compat:local`"],
        "timedatectl",
        |house| kept((online(house, &GOOD_ZONE), dated_provider(house, 179))),
    ),
    Case::fault(
        "no mail server in the domain",
        "dns",
        &["MX of `house.test`"],
        "publish `house.test. IN MX 10 house.test.`",
        |house| kept(online(house, &GOOD_ZONE[1..])),
    ),
    Case::warning(
        "no SPF record",
        "dns",
        &["SPF of `house.test`"],
        "v=spf1",
        |house| {
            let zone = [GOOD_ZONE[0], GOOD_ZONE[1], GOOD_ZONE[3]];
            kept((online(house, &zone), mail_server(house)))
        },
    ),
    Case::warning(
        "no DMARC record",
        "dns",
        &["DMARC of `_dmarc.house.test`"],
        "v=DMARC1",
        |house| kept((online(house, &GOOD_ZONE[..3]), mail_server(house))),
    ),
    Case::note(
        "no name server",
        "dns",
        &["MX of `house.test`", "no name server answered"],
        "resolv.conf",
        |house| {
            let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
            ask(house, silent.local_addr().expect("an address"));
            kept(silent)
        },
    ),
];

fn hook(house: &House, program: &str) -> Made {
    let hook = json!({ "id": "mail", "event": "before_send", "command": [program] });
    house.write(
        "configs/hooks.json",
        &json!({ "hooks": [hook] }).to_string(),
    )
}

fn own_tool(house: &House) -> Made {
    let tool = json!({
        "description": "Says how warm it is.", "arguments": { "properties": {} }, "command": ["./gone"],
        "class": "repeatable", "effects": {},
    });
    house.write("configs/tools/weather/tool.json", &tool.to_string())
}

fn server(house: &House, program: &str, tools: &Value) -> Made {
    let server = json!({ "command": [program], "audience": "owner", "tools": tools });
    house.write(
        "configs/mcp.json",
        &json!({ "servers": { "stock": server } }).to_string(),
    )
}

/// Writes a price, without which a model is a warning.
fn price(house: &House, provider: &str, model: &str) {
    let price = json!({ "provider": provider, "model": model, "input": 3, "output": 15 });
    let prices = json!({ "version": "1", "prices": [price] });
    house.write("configs/prices.json", &prices.to_string());
}

fn agent(house: &House, program: &str) -> Made {
    price(house, "claude", "sonnet");
    house.set(
        "configs/inference.json",
        "/providers",
        json!({ "claude": { "binary": program } }),
    );
    house.set("configs/inference.json", "/model", json!("sonnet"));
    house.set("configs/inference.json", "/provider", json!("claude"));
    broken()
}

/// A provider with one model, whose clock shows so many seconds more than this machine's.
fn dated_provider(house: &House, seconds: i64) -> std::thread::JoinHandle<()> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = listener.local_addr().expect("an address");
    price(house, "compat:local", "small");
    let block = json!({ "compat:local": { "base_url": format!("http://{address}/v1") } });
    house.set("configs/inference.json", "/providers", block);
    house.set("configs/inference.json", "/model", json!("small"));
    house.set("configs/inference.json", "/provider", json!("compat:local"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let _request = stream.read(&mut [0; 4096]);
            let there = chrono::Utc::now() + chrono::Duration::seconds(seconds);
            let body = r#"{"object":"list","data":[{"id":"small","object":"model"}]}"#;
            let answer = format!(
                "HTTP/1.1 200 OK\r\nDate: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                there.format("%a, %d %b %Y %H:%M:%S GMT"),
                body.len()
            );
            let _sent = stream.write_all(answer.as_bytes());
        }
    })
}

fn mailbox(house: &House) -> Made {
    let dns = online(house, &GOOD_ZONE);
    house.write(
        ".secrets",
        "ANTHROPIC_API_KEY=sk-ant-1\nATTACHE_IMAP_PASSWORD=x\n",
    );
    let mailbox = json!({ "name": "house", "host": "127.0.0.1", "port": 1, "tls": "none", "user": "porter@house.test" });
    house.gateway("/mailboxes", json!([mailbox]));
    kept(dns)
}

/// Name, kind and value of records.
const GOOD_ZONE: [(&str, &str, &str); 4] = [
    ("house.test", "MX", "house.test"),
    ("house.test", "A", "192.0.2.7"),
    ("house.test", "TXT", "v=spf1 a:house.test -all"),
    ("_dmarc.house.test", "TXT", "v=DMARC1; p=quarantine"),
];

/// What is served in a runtime of its own.
struct Served<T> {
    server: T,
    _runtime: tokio::runtime::Runtime,
}

fn serve<T>(start: impl Future<Output = T>) -> Served<T> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    Served {
        server: runtime.block_on(start),
        _runtime: runtime,
    }
}

/// Has `doctor` ask others, and a name server of ours with these records.
fn online(house: &House, zone: &[(&str, &str, &str)]) -> Served<DnsStub> {
    let served = serve(async {
        let stub = DnsStub::start().await;
        for (name, kind, value) in zone {
            match *kind {
                "MX" => stub.add(name, Record::Mx(10, (*value).to_owned())),
                "A" => stub.add(name, Record::A(value.parse().expect("an address"))),
                _ => stub.txt(name, value),
            }
        }
        stub
    });
    ask(house, served.server.address);
    served
}

fn ask(house: &House, name_server: SocketAddr) {
    house.arguments.borrow_mut().push("--online");
    let resolver = json!({ "servers": [name_server.to_string()], "timeout": "300ms" });
    house.set(
        "configs/security.json",
        "/authentication",
        json!({ "resolver": resolver }),
    );
}

fn smarthost(port: u16) -> Value {
    json!({ "kind": "smarthost", "host": "127.0.0.1", "port": port, "tls": "none" })
}

/// A mail server that takes everything.
fn mail_server(house: &House) -> Served<Server> {
    let served = serve(Server::start(Script::default()));
    house.gateway("/outbound", smarthost(served.server.address.port()));
    served
}

/// A mailbox at a port that nobody listens on.
fn closed_mailbox(house: &House) {
    house.write(
        ".secrets",
        "ANTHROPIC_API_KEY=sk-ant-1\nATTACHE_IMAP_PASSWORD=made-up\n",
    );
    let mailbox = json!({ "name": "post", "host": "127.0.0.1", "port": 1, "tls": "none", "user": "porter", "fallback": "porter" });
    house.gateway("/mailboxes", json!([mailbox]));
}

fn failed_mailbox(house: &House, error: &str) -> Made {
    closed_mailbox(house);
    house.sql(&format!(
        "INSERT INTO mailboxes (name, source, last_error, last_error_at, failing_since)
         VALUES ('post', 'porter at 127.0.0.1', '{error}', '2026-11-20T09:00:00.000Z', '2026-11-20T09:00:00.000Z')"
    ))
}

fn health(state: &str, reason: &str) -> String {
    format!(
        "UPDATE engine SET transport_state = '{state}', transport_since = '2026-11-20T09:00:00.000Z', transport_reason = '{reason}'"
    )
}

/// A failure of today: an older one is over.
fn provider_failure(class: &str, message: &str) -> String {
    let now = chrono::Utc::now().format("%Y-%m-%dT%H:%M:%S.000Z");
    format!(
        "INSERT INTO provider_calls (provider, calls, failures, last_failure_at, last_failure_class, last_failure_message)
         VALUES ('anthropic', 1, 1, '{now}', '{class}', '{message}')"
    )
}
