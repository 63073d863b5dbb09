//! A good installation, made once by the binary, copied for each case, and what breaks it.

use crate::app::db;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use std::any::Any;
use std::cell::RefCell;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_attache");
const LETTER: &str = "From: olga@home.test\nTo: porter@house.test\nSubject: Keys\nMessage-ID: <a@home.test>\n\nWhere?\n";
/// Variables that decide what the configuration is.
const VARIABLES: [&str; 4] = [
    "ATTACHE_WORKSPACE",
    "ATTACHE_LOG",
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
];
/// The user that owns nothing, on every Linux.
pub const NOBODY: u32 = 65534;

/// What was done to an installation.
pub enum Made {
    /// The value is kept until it was looked at: a port, a process.
    Broken(Box<dyn Any>),
    /// This machine cannot break it so.
    Skipped(String),
}

pub fn broken() -> Made {
    Made::Broken(Box::new(()))
}

pub fn kept(value: impl Any) -> Made {
    Made::Broken(Box::new(value))
}

/// A process of a case, which ends with it.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

pub struct House {
    dir: TempDir,
    /// Words of a command in which the binary is started.
    pub wrapper: RefCell<Vec<String>>,
    pub environment: RefCell<Vec<(&'static str, String)>>,
    /// More arguments of `doctor`.
    pub arguments: RefCell<Vec<&'static str>>,
}

/// The good installation: two personas, a certificate, listeners, one letter answered.
fn template() -> &'static TempDir {
    static TEMPLATE: OnceLock<TempDir> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let dir = TempDir::new().expect("a temporary folder");
        let make = |args: &[&str], folder: &Path| {
            let made = command(folder)
                .args(args)
                .output()
                .expect("the binary runs");
            assert!(made.status.success(), "{args:?}: {made:?}");
        };
        let init = [
            "init",
            "house",
            "--domain",
            "house.test",
            "--owner",
            "olga@home.test",
            "--persona",
            "porter",
        ];
        make(&init, dir.path());
        let house = dir.path().join("house");
        make(&["persona", "create", "nora", "--name", "Nora"], &house);
        write(
            &house,
            "personas/nora/PERSONA.md",
            "You are Nora, who does the laundry.\n",
        );
        write(&house, ".secrets", "ANTHROPIC_API_KEY=sk-ant-1\n");
        write(&house, "letter.eml", LETTER);
        write(&house, "incoming/.keep", "");
        write(&house, "run/.keep", "");
        certificate(&house, "house.test", (2026, 2100));
        let gateway = json!({
            "mail_domain": "house.test", "owners": ["olga@home.test"],
            "listeners": [
                { "kind": "smtp", "address": "127.0.0.1:0" },
                { "kind": "lmtp", "address": "unix:run/lmtp.sock" },
            ],
            "tls": { "certificate": "tls/cert.pem", "key": "tls/key.pem" },
            "folders": [{ "path": "incoming" }],
            "outbound": { "kind": "folder", "path": "data/outbox" },
        });
        write(&house, "configs/gateway.json", &format!("{gateway:#}"));
        let access = json!({ "access": { "allow": ["olga@home.test"] } });
        write(&house, "configs/security.json", &access.to_string());
        make(&["ingest", "letter.eml"], &house);
        make(&["drain"], &house);
        execute(&house, "PRAGMA wal_checkpoint(TRUNCATE)");
        dir
    })
}

fn command(folder: &Path) -> Command {
    let mut command = Command::new(BINARY);
    for name in VARIABLES {
        command.env_remove(name);
    }
    command.current_dir(folder);
    command
}

/// Writes a file that its owner alone may read.
fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(&path, text).expect("a written file");
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("a mode");
}

fn execute(house: &Path, sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let mut conn = db::Connection::open(house).await;
        let sql = AssertSqlSafe(sql.to_owned());
        db::raw_sql(sql).execute(&mut conn).await.expect("rows");
        // The last connection folds the log into the database.
        conn.close().await.expect("closed");
    });
}

/// Makes a certificate for a host, valid from and until the first day of a year.
fn certificate(folder: &Path, host: &str, (from, until): (i32, i32)) {
    let mut params = CertificateParams::new(vec![host.to_owned()]).expect("a name");
    params.not_before = date_time_ymd(from, 1, 1);
    params.not_after = date_time_ymd(until, 1, 1);
    sign(folder, params);
}

fn sign(folder: &Path, params: CertificateParams) {
    let key = KeyPair::generate().expect("a key");
    let signed = params.self_signed(&key).expect("a certificate");
    write(folder, "tls/cert.pem", &signed.pem());
    write(folder, "tls/key.pem", &key.serialize_pem());
}

impl House {
    /// Copies the good installation.
    pub fn new() -> Self {
        let dir = TempDir::new().expect("a temporary folder");
        let from = template().path().join("house");
        let copied = Command::new("cp")
            .arg("-a")
            .arg(from)
            .arg(dir.path())
            .status();
        assert!(copied.expect("cp runs").success());
        Self {
            dir,
            wrapper: RefCell::default(),
            environment: RefCell::default(),
            arguments: RefCell::default(),
        }
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("house")
    }

    pub fn write(&self, path: &str, text: &str) -> Made {
        write(&self.path(), path, text);
        broken()
    }

    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path().join(path)).expect("a file")
    }

    pub fn remove(&self, path: &str) -> Made {
        let path = self.path().join(path);
        match path.is_dir() {
            true => std::fs::remove_dir_all(path).expect("a folder"),
            false => std::fs::remove_file(path).expect("a file"),
        }
        broken()
    }

    /// Changes a file of the configuration.
    pub fn set(&self, file: &str, pointer: &str, value: Value) -> Made {
        let mut document: Value = serde_json::from_str(&self.read(file)).expect("JSON");
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        let parent = document.pointer_mut(parent).expect("a place");
        match parent {
            Value::Array(items) => items[key.parse::<usize>().expect("an index")] = value,
            parent => parent[key] = value,
        }
        self.write(file, &format!("{document:#}"))
    }

    pub fn gateway(&self, pointer: &str, value: Value) -> Made {
        self.set("configs/gateway.json", pointer, value)
    }

    pub fn chmod(&self, path: &str, mode: u32) -> Made {
        let mode = Permissions::from_mode(mode);
        std::fs::set_permissions(self.path().join(path), mode).expect("a mode");
        broken()
    }

    /// Gives a file to another user; only root can.
    pub fn chown(&self, path: &str, uid: u32) -> Made {
        if !is_root() {
            return Made::Skipped("only root gives files away".to_owned());
        }
        std::os::unix::fs::chown(self.path().join(path), Some(uid), None).expect("root may");
        broken()
    }

    pub fn certificate(&self, host: &str, years: (i32, i32)) -> Made {
        certificate(&self.path(), host, years);
        broken()
    }

    /// Makes a certificate that ends after some days.
    pub fn certificate_for(&self, days: i64) -> Made {
        let mut params = CertificateParams::new(vec!["house.test".to_owned()]).expect("a name");
        let day = std::time::Duration::from_secs(24 * 3600);
        let now = std::time::SystemTime::now();
        params.not_before = (now - day).into();
        params.not_after = (now + day * u32::try_from(days).expect("days")).into();
        sign(&self.path(), params);
        broken()
    }

    /// Executes a statement on the database.
    pub fn sql(&self, sql: &str) -> Made {
        execute(&self.path(), sql);
        broken()
    }

    /// Runs a command of the binary, which must succeed.
    pub fn run(&self, args: &[&str]) -> Output {
        let ran = command(&self.path())
            .args(args)
            .output()
            .expect("the binary runs");
        assert!(ran.status.success(), "{args:?}: {ran:?}");
        ran
    }

    /// Starts an engine, and waits until it serves.
    pub fn serve(&self) -> Process {
        use std::io::{BufRead, BufReader};
        let mut command = command(&self.path());
        let command = command
            .args(["serve", "--log", "error"])
            .stdout(Stdio::piped());
        let mut child = command
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary runs");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        Process(child)
    }

    /// Runs a command in its wrapper and environment.
    pub fn wrapped(&self, args: &[&str]) -> Output {
        let wrapper = self.wrapper.borrow();
        let mut command = match wrapper.as_slice() {
            [] => command(&self.path()),
            [program, words @ ..] => {
                let mut command = Command::new(program);
                command.args(words).arg(BINARY).current_dir(self.path());
                for name in VARIABLES {
                    command.env_remove(name);
                }
                command
            }
        };
        command.envs(
            self.environment
                .borrow()
                .iter()
                .map(|(name, value)| (*name, value)),
        );
        command.args(args).output().expect("it runs")
    }

    /// Returns what `doctor` finds, and its exit code.
    pub fn findings(&self) -> (Vec<Value>, i32) {
        let mut args = vec!["doctor", "--quick", "--json"];
        args.extend(self.arguments.borrow().iter());
        let said = self.wrapped(&args);
        let record: Value = serde_json::from_slice(&said.stdout)
            .unwrap_or_else(|error| panic!("{error}: {said:?}"));
        let findings = record["findings"].as_array().expect("findings").clone();
        let violations = &record["records"]["violations"];
        assert!(
            violations.as_array().is_none_or(Vec::is_empty),
            "{violations}"
        );
        (findings, said.status.code().expect("an exit code"))
    }
}

pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").expect("this process").uid() == 0
}

/// Reports whether a program is installed.
pub fn has(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .any(|folder| Path::new(folder).join(program).is_file())
}
