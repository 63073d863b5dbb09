//! Clients that others wrote: Python's smtplib and swaks, where they are installed.

use super::client::{Server, describe};
use attache::config::Limits;
use std::process::{Command, Output};

const PYTHON_CLIENT: &str = r#"
import smtplib, sys
from email.message import EmailMessage
m = EmailMessage()
m["From"], m["To"], m["Subject"] = "Zo\u00eb <zoe@client.example>", "ada@engine.test", "Gr\u00fc\u00dfe"
m.set_content("first line\n.hidden dot\n..two dots\n.\nlast line \u20ac\n")
m.add_attachment(bytes(range(256)) * 40, maintype="application", subtype="octet-stream", filename="all.bin")
with smtplib.SMTP("127.0.0.1", int(sys.argv[1]), local_hostname="py.example", timeout=20) as s:
    refused = s.send_message(m, to_addrs=["ada@engine.test", "nobody@engine.test", "x@other.test"])
    assert {k: v[0] for k, v in refused.items()} == {"nobody@engine.test": 550, "x@other.test": 550}, refused
    assert s.verify("ada")[0] == 252 and s.noop()[0] == 250
    try:
        s.sendmail("a@b.test", ["nobody@engine.test"], b"x")
        raise SystemExit("a letter to nobody was taken")
    except smtplib.SMTPRecipientsRefused:
        pass
    s.sendmail("", ["bob@engine.test"], b"Subject: null sender\r\n\r\n.\r\n", mail_options=["BODY=8BITMIME"])
"#;

/// Runs a program beside the server; `None`, said aloud, when it is not installed.
async fn run_client(mut command: Command) -> Option<Output> {
    let name = command.get_program().to_owned();
    match tokio::task::spawn_blocking(move || command.output())
        .await
        .unwrap()
    {
        Ok(output) => Some(output),
        Err(error) => {
            eprintln!("SKIPPED: {name:?} cannot be run here: {error}");
            None
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pythons_smtplib_is_served() {
    let server = Server::start(Limits::default()).await;
    let mut python = Command::new("python3");
    python
        .arg("-c")
        .arg(PYTHON_CLIENT)
        .arg(server.address.port().to_string());
    let Some(output) = run_client(python).await else {
        return;
    };
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let letters = std::mem::take(&mut *server.intake.letters.lock().unwrap());
    let envelopes: Vec<String> = letters.iter().map(describe).collect();
    assert_eq!(
        envelopes,
        [
            "py.example <zoe@client.example> ada@engine.test",
            "py.example <> bob@engine.test"
        ]
    );
    assert_eq!(letters[1].bytes, b"Subject: null sender\r\n\r\n.\r\n");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn swaks_is_served() {
    let server = Server::start(Limits::default()).await;
    let mut swaks = Command::new("swaks");
    let address = server.address.to_string();
    swaks.args([
        "--server",
        &address,
        "--from",
        "s@client.example",
        "--to",
        "ada@engine.test",
        "--pipeline",
    ]);
    swaks.args(["--ehlo", "swaks.example", "--body", "one\n.\n..two"]);
    let Some(output) = run_client(swaks).await else {
        return;
    };
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    assert_eq!(server.intake.stored(), 1);
    let text =
        String::from_utf8_lossy(&server.intake.letters.lock().unwrap()[0].bytes).into_owned();
    assert!(text.contains("\r\none\r\n.\r\n..two\r\n"), "{text}");
    server.stop().await;
}
