//! Everything that `attache setup` asks: a mailbox, a smarthost, a model and a name server on loopback.

use crate::dns::DnsStub;
use crate::guest_house::{Said, attache};
use crate::imap::server::{self as mailbox, PASSWORD, USER};
use crate::outbound::server::{Script, Server as Smarthost};
use crate::providers::server::{Reply, Server as Model};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

pub const SMTP_PASSWORD: &str = "smtp-hunter2 #1";
pub const KEY: &str = "sk-hunter2-hunter2";
/// No output holds one of these.
pub const SECRETS: [&str; 3] = [PASSWORD, SMTP_PASSWORD, KEY];
const TEXT: &str = include_str!("../../fixtures/providers/openai/text.sse");

pub struct World {
    folder: TempDir,
    pub mailbox: mailbox::Server,
    pub smarthost: Smarthost,
    pub model: Model,
    pub dns: DnsStub,
}

impl World {
    pub async fn new() -> Self {
        let world = Self {
            folder: TempDir::new().expect("a temporary folder"),
            mailbox: mailbox::Server::start().await,
            smarthost: smarthost().await,
            model: model().await,
            dns: DnsStub::start().await,
        };
        world.write("imap.txt", &format!("{PASSWORD}\n"));
        world.write("smtp.txt", SMTP_PASSWORD);
        world.write("key.txt", KEY);
        world
    }

    pub async fn another_smarthost(&self) -> Smarthost {
        smarthost().await
    }

    /// The workspace.
    pub fn house(&self) -> PathBuf {
        self.folder.path().join("house")
    }

    /// Writes a file beside the workspace.
    pub fn write(&self, path: &str, text: &str) {
        std::fs::write(self.folder.path().join(path), text).expect("a file");
    }

    /// Writes a file of the workspace by hand.
    pub fn half(&self, path: &str, text: &str) {
        let path = self.house().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        std::fs::write(path, text).expect("a file");
    }

    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.house().join(path)).expect(path)
    }

    /// The name server of the world, and a friend who needs no proof.
    pub fn security(&self) -> String {
        let security = json!({
            "access": { "allow": ["*@friends.test"] },
            "authentication": { "resolver": { "servers": [self.dns.address.to_string()] } },
        });
        format!("{security}\n")
    }

    /// Every file of the workspace with its bytes.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let (mut files, mut folders) = (BTreeMap::new(), vec![self.house()]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                match entry.path() {
                    folder if folder.is_dir() => folders.push(folder),
                    file => drop(files.insert(file.clone(), std::fs::read(file).expect("bytes"))),
                }
            }
        }
        files
    }

    /// Flags that are right.
    pub fn flags(&self) -> Vec<String> {
        self.with(&[])
    }

    /// Flags that are right but for these; `-` leaves one out.
    pub fn with(&self, changed: &[(&'static str, &str)]) -> Vec<String> {
        let mut flags: BTreeMap<&str, String> = [
            ("owner", "olga@home.test".to_owned()),
            ("domain", "engine.test".to_owned()),
            ("persona", "ada".to_owned()),
            ("name", "Ada".to_owned()),
            ("in", "imap".to_owned()),
            ("imap-host", "127.0.0.1".to_owned()),
            ("imap-port", self.mailbox.port.to_string()),
            ("imap-tls", "none".to_owned()),
            ("imap-user", USER.to_owned()),
            ("imap-password-file", "imap.txt".to_owned()),
            ("out", "smarthost".to_owned()),
            ("smtp-host", "127.0.0.1".to_owned()),
            ("smtp-port", self.smarthost.address.port().to_string()),
            ("smtp-tls", "none".to_owned()),
            ("smtp-user", "ada".to_owned()),
            ("smtp-password-file", "smtp.txt".to_owned()),
            ("provider", "openai".to_owned()),
            ("model", "model-a".to_owned()),
            ("base-url", self.model.url.clone()),
            ("key-file", "key.txt".to_owned()),
        ]
        .into();
        for (flag, value) in changed {
            match *value {
                "-" => drop(flags.remove(flag)),
                value => drop(flags.insert(flag, value.to_owned())),
            }
        }
        let typed = flags.into_iter().flat_map(|(flag, value)| {
            let value = Some(value).filter(|_| !matches!(flag, "offline" | "yes"));
            std::iter::once(format!("--{flag}")).chain(value)
        });
        typed.collect()
    }

    /// Runs `attache setup house` beside the servers of this world; no secret is printed.
    pub async fn setup(&self, flags: &[String]) -> Said {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let said = self
            .run("", &[&["setup", "house"], &flags[..]].concat())
            .await;
        for secret in SECRETS {
            let is_printed = said.stdout.contains(secret) || said.stderr.contains(secret);
            assert!(!is_printed, "a secret was printed");
        }
        said
    }

    /// Runs a command in the workspace, which must end well.
    pub async fn ok(&self, args: &[&str]) -> Said {
        let said = self.run("house", args).await;
        assert_eq!(said.code, 0, "{args:?}: {}{}", said.stdout, said.stderr);
        said
    }

    async fn run(&self, below: &str, args: &[&str]) -> Said {
        self.said(attache(&self.folder.path().join(below), args))
            .await
    }

    /// Runs another program beside the workspace.
    pub async fn outside(&self, program: &str, args: &[&str]) -> Said {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).args(args);
        self.said(command).await
    }

    async fn said(&self, mut command: Command) -> Said {
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.ends_with("_API_KEY") || name.ends_with("_PASSWORD") {
                command.env_remove(name);
            }
        }
        let output = tokio::task::spawn_blocking(move || command.output());
        let output = output.await.expect("it ends").expect("the binary runs");
        let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
        Said {
            code: output.status.code().expect("no signal"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

async fn smarthost() -> Smarthost {
    let offers = vec!["8BITMIME", "AUTH PLAIN LOGIN"];
    Smarthost::start(Script {
        offers,
        ..Script::default()
    })
    .await
}

/// A server that has `model-a` and knows one key.
async fn model() -> Model {
    Model::answering(|request, _| {
        let is_known = request.header("authorization") == Some(&format!("Bearer {KEY}"));
        let json = [("content-type", "application/json")];
        match request.head.split(' ').next() {
            _ if !is_known => {
                let error =
                    json!({ "error": { "message": "this key is nobody's", "type": "auth" } });
                Reply::new(401, &json, &error.to_string())
            }
            Some("GET") => {
                let models = json!({ "object": "list", "data": [{ "id": "model-a" }] });
                Reply::new(200, &json, &models.to_string())
            }
            _ => Reply::stream(TEXT),
        }
    })
    .await
}
