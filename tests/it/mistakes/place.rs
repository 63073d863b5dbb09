//! A workspace that is right, and the mistakes that are made in it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

const GATEWAY: &str = r#"{
  "mail_domain": "house.test",
  "owners": ["anna@people.test"],
  "listeners": [{ "address": "127.0.0.1:2525" }],
  "folders": [{ "path": "incoming" }],
  "outbound": { "kind": "folder", "path": "data/outbox" }
}
"#;
const INFERENCE: &str = r#"{
  "provider": "scripted",
  "model": "demo",
  "providers": { "scripted": { "script": "configs/script.json" } }
}
"#;
const SECURITY: &str = r#"{
  "access": {
    "allow": ["*@friends.test"],
    "deny": ["*@spam.test"]
  }
}
"#;
const CONTEXT: &str = r#"{
  "thread": [
    "load-file(configs/prompts/house.md)",
    "persona",
    "current-input"
  ],
  "responsibility": ["persona", "current-input"]
}
"#;
const DUTY: &str = "---
name: Morning digest
schedule: 0 9 * * mon-fri
---
It is {{ now }}.
Tell Anna what came in.
";
const FILES: &[(&str, &str)] = &[
    ("configs/gateway.json", GATEWAY),
    ("configs/inference.json", INFERENCE),
    ("configs/security.json", SECURITY),
    ("configs/context.json", CONTEXT),
    (
        "configs/prices.json",
        "{\n  \"version\": \"1\",\n  \"prices\": [\n    { \"provider\": \"scripted\", \"model\": \"demo\", \"input\": 3, \"output\": 15 }\n  ]\n}\n",
    ),
    (
        "configs/script.json",
        "{ \"turns\": [{ \"say\": \"Hello.\" }] }\n",
    ),
    (
        "configs/prompts/house.md",
        "You work for {{ persona.name }}.\n",
    ),
    (
        "personas/porter/persona.json",
        "{\n  \"name\": \"Porter\",\n  \"address\": \"porter\",\n  \"timezone\": \"Europe/Berlin\"\n}\n",
    ),
    (
        "personas/porter/PERSONA.md",
        "# Porter\n\nYou carry bags, and say so.\n",
    ),
    (
        "tls/house.pem",
        include_str!("../../fixtures/config/tls/certificate.pem"),
    ),
    (
        "tls/house.key",
        include_str!("../../fixtures/config/tls/key.pem"),
    ),
    ("personas/porter/responsibilities/digest.md", DUTY),
];

/// What a command said, on both its ways, and its exit code.
pub struct Said {
    pub code: i32,
    pub text: String,
}

pub struct Place(TempDir);

impl Place {
    pub fn new() -> Self {
        let place = Self(TempDir::new().expect("a temporary folder"));
        FILES
            .iter()
            .for_each(|(path, text)| place.write(path, text));
        std::fs::create_dir(place.path("incoming")).expect("a folder");
        place
    }
    pub fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let whole = self.path(path);
        std::fs::create_dir_all(whole.parent().expect("a file has a folder")).expect("a folder");
        std::fs::write(&whole, content).expect("a file");
        let mode = if path == ".secrets" || path.ends_with(".key") {
            0o600
        } else {
            0o644
        };
        self.set_mode(path, mode);
    }
    pub fn replace(&self, path: &str, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.path(path)).expect("a file to edit");
        assert!(text.contains(from), "{path} holds no `{from}`");
        self.write(path, text.replacen(from, to, 1));
    }
    pub fn set_mode(&self, path: &str, mode: u32) {
        std::fs::set_permissions(self.path(path), Permissions::from_mode(mode)).expect("a mode");
    }
    /// Runs the binary in this workspace, with an environment that says nothing.
    pub fn run(&self, args: &[&str]) -> Said {
        let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.0.path());
        let output = command
            .args(args)
            .current_dir(self.0.path())
            .output()
            .expect("the binary runs");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).expect("output is UTF-8");
        Said {
            code: output.status.code().expect("no signal"),
            text,
        }
    }

    /// Does what one line of a case says, with the lines below it that have a mark.
    fn make(&self, words: &[&str], below: &[&str]) {
        let marked = |mark: &str| {
            let lines = below.iter().filter_map(|line| line.strip_prefix(mark));
            lines
                .map(|line| line.strip_prefix(' ').unwrap_or(line))
                .collect::<Vec<_>>()
                .join("\n")
        };
        match words {
            ["write", path] => self.write(path, marked("|")),
            ["bytes", path] => {
                let hex = marked("|");
                let bytes = (0..hex.len())
                    .step_by(2)
                    .map(|at| u8::from_str_radix(&hex[at..at + 2], 16));
                self.write(
                    path,
                    bytes
                        .collect::<Result<Vec<_>, _>>()
                        .expect("hexadecimal digits"),
                );
            }
            ["replace", path] => self.replace(path, &marked("-"), &marked("+")),
            ["rename", from, to] => {
                std::fs::rename(self.path(from), self.path(to)).expect("a renaming");
            }
            ["link", path, to] => std::os::unix::fs::symlink(to, self.path(path)).expect("a link"),
            ["folder", path] => std::fs::create_dir_all(self.path(path)).expect("a folder"),
            ["mode", path, mode] => {
                self.set_mode(path, u32::from_str_radix(mode, 8).expect("octal digits"));
            }
            ["remove", path] if self.path(path).is_dir() => {
                std::fs::remove_dir_all(self.path(path)).expect("a removal");
            }
            ["remove", path] => std::fs::remove_file(self.path(path)).expect("a removal"),
            other => panic!("{other:?} is not known in a table of mistakes"),
        }
    }
}

/// Makes every mistake of a table in a workspace of its own, and compares what the program says.
///
/// A case is `== NAME`, edits, `run ARGUMENTS` unless it is `config check`, `exit CODE`, and lines that must be said.
/// A warning has the code 0, and 65 under `--strict`.
pub fn explained(table: &str, cases_min: usize) {
    let path = format!(
        "{}/tests/fixtures/mistakes/{table}",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(path).expect("a table");
    let (mut cases, mut missing) = (0, String::new());
    for case in text.split("== ").skip(1) {
        missing.extend(unexplained(case));
        cases += 1;
    }
    assert!(missing.is_empty(), "{missing}");
    assert!(cases >= cases_min, "only {cases} cases were found");
}

/// Whether all of it was said: lines as they stand, or the four parts of a message in one line.
fn is_complete(wanted: &[&str], said: &str) -> bool {
    const PARTS: [&str; 4] = ["file: ", "place: ", "cause: ", "remedy: "];
    const NO_PLACE: &str = "the file as a whole";
    let parts = wanted
        .iter()
        .zip(PARTS)
        .filter_map(|(line, part)| line.strip_prefix(part));
    match parts.collect::<Vec<_>>().as_slice() {
        [file, place, cause, remedy] => said.lines().any(|line| {
            let has_place = *place == NO_PLACE || line.contains(&format!("{place}: "));
            let begins = line.trim_start_matches("warning: ").starts_with(file);
            begins && has_place && line.contains(cause) && line.ends_with(remedy)
        }),
        _ => wanted.iter().all(|line| said.contains(line)),
    }
}

/// What the program said instead.
fn unexplained(case: &str) -> Option<String> {
    let (place, mut args, mut wanted, mut code) =
        (Place::new(), vec!["config", "check"], Vec::new(), None);
    let mut lines = case.lines();
    let mistake = lines.next().unwrap_or_default();
    let lines = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>();
    let is_marked = |line: &&str| line.starts_with(['|', '-', '+']);
    for (at, line) in lines.iter().enumerate() {
        let words = line.split(' ').collect::<Vec<_>>();
        let below = lines[at + 1..]
            .iter()
            .copied()
            .take_while(is_marked)
            .collect::<Vec<_>>();
        match (code, words.as_slice()) {
            (Some(_), _) => wanted.push(*line),
            (None, ["exit", number]) => code = Some(number.parse::<i32>().expect("an exit code")),
            (None, ["run", rest @ ..]) => args = rest.to_vec(),
            (None, _) if is_marked(line) => {}
            (None, words) => place.make(words, &below),
        }
    }
    let (said, code) = (place.run(&args), code.expect("a case has an exit code"));
    assert!(
        !said.text.contains("hidden"),
        "{mistake}: a key was printed: {}",
        said.text
    );
    assert!(
        !wanted.is_empty(),
        "{mistake}: a case says what must be said"
    );
    if code == 0 && args == ["config", "check"] {
        let strict = place.run(&["config", "check", "--strict"]);
        assert_eq!(
            strict.code, 65,
            "{mistake}: a warning is an error under --strict: {}",
            strict.text
        );
    }
    let is_said = said.code == code && is_complete(&wanted, &said.text);
    let wanted = wanted.join("\n");
    (!is_said).then(|| {
        format!(
            "== {mistake}\n{wanted}\n-- said, exit {}\n{}\n",
            said.code, said.text
        )
    })
}
