//! The repository's own workspace, the guest house of `attache demo`, and the real binary on it.

use crate::app::database;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// Writes the sample workspace into a folder.
pub fn write(folder: &Path) {
    for (path, content) in attache::cli::sample::FILES {
        let file = folder.join(path);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("folders");
        std::fs::write(file, content).expect("a written file");
    }
    database::provide_to_binary(folder);
}

/// What a command came to.
pub struct Said {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// The binary in a folder, with an environment that says nothing.
pub fn attache(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    for name in [
        "ATTACHE_WORKSPACE",
        "ATTACHE_LOG",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "CLICOLOR_FORCE",
    ] {
        command.env_remove(name);
    }
    command.current_dir(folder).args(args);
    command
}

/// Runs the binary in a folder to its end.
pub fn run(folder: &Path, args: &[&str]) -> Said {
    let Output {
        status,
        stdout,
        stderr,
    } = attache(folder, args).output().expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    Said {
        code: status.code().expect("no signal"),
        stdout: text(stdout),
        stderr: text(stderr),
    }
}

/// A guest house in a folder of its own.
pub struct GuestHouse(pub TempDir);

impl GuestHouse {
    pub fn new() -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        write(folder.path());
        Self(folder)
    }
    pub fn path(&self) -> &Path {
        self.0.path()
    }
    pub fn write(&self, path: &str, text: &str) {
        std::fs::write(self.path().join(path), text).expect("a written file");
    }
    pub fn set(&self, path: &str, pointer: &str, value: Value) {
        let text = std::fs::read_to_string(self.path().join(path)).expect("a file");
        let mut whole: Value = serde_json::from_str(&text).expect("json");
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        whole.pointer_mut(parent).expect("a parent")[key] = value;
        self.write(path, &whole.to_string());
    }
    pub fn run(&self, args: &[&str]) -> Said {
        run(self.path(), args)
    }
    pub fn ok(&self, args: &[&str]) -> Said {
        let said = self.run(args);
        assert_eq!(said.code, 0, "{args:?}: {}{}", said.stdout, said.stderr);
        said
    }
    pub fn json(&self, args: &[&str]) -> Value {
        let said = self.ok(&[&["--json"], args].concat());
        serde_json::from_str(&said.stdout)
            .unwrap_or_else(|error| panic!("{args:?}: {error}: {}", said.stdout))
    }
}
