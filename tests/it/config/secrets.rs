//! Secrets of the environment and of `.secrets`: which counts, who may read it, and which value is hardly the one that is meant.

use super::Workspace;
use crate::guest_house::{self, run};
use secrecy::ExposeSecret;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

#[test]
fn the_environment_wins_over_secrets_an_empty_variable_is_none() {
    let key = |workspace: &Workspace| {
        let key = workspace.loaded().inference.providers["anthropic"]
            .api_key
            .clone();
        key.map(|key| key.expose_secret().to_owned())
    };
    let workspace = Workspace::new();
    workspace.write_secrets("# ours\n\nANTHROPIC_API_KEY = 'from=file'\n", 0o600);
    assert_eq!(key(&workspace), Some("from=file".to_owned()));
    let workspace = workspace.with_env("ANTHROPIC_API_KEY", "");
    assert_eq!(key(&workspace), Some("from=file".to_owned()));
    let workspace = workspace.with_env("ANTHROPIC_API_KEY", "from environment\n");
    assert_eq!(key(&workspace), Some("from environment".to_owned()));
}

#[test]
fn a_file_of_secrets_that_others_may_read_is_refused() {
    let workspace = Workspace::new();
    for mode in [0o640, 0o604, 0o644, 0o620] {
        workspace.write_secrets("ANTHROPIC_API_KEY=hidden\n", mode);
        let expected = format!(
            ".secrets: others may read it: its mode is {mode:04o}; run `chmod 600 .secrets`, and change the keys if others had access"
        );
        assert_eq!(workspace.problems(), [expected]);
    }
}

#[test]
fn a_scheme_is_right_in_a_variable_that_is_a_whole_header_whatever_its_name() {
    let workspace = Workspace::new();
    workspace.write(
        "configs/inference.json",
        r#"{"provider": "anthropic", "model": "m", "providers": {"anthropic": {
            "api_key_variable": "MY_AUTHORIZATION", "headers": {"x-gate": {"variable": "GATE_TOKEN"}}}}}"#,
    );
    workspace.write_secrets(
        "MY_AUTHORIZATION=Bearer sk-1\nGATE_TOKEN=Bearer of-the-gate\n",
        0o600,
    );
    let warnings = workspace.loaded().warnings;
    let about: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    let about: Vec<&String> = about
        .iter()
        .filter(|line| line.contains("Bearer"))
        .collect();
    let [warning] = about[..] else {
        panic!("{about:?}");
    };
    assert!(warning.contains("`MY_AUTHORIZATION`"), "{warning}");
}

fn write_private(folder: &Path, text: &str) {
    let file = folder.join(".secrets");
    std::fs::write(&file, text).expect("written");
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).expect("a mode");
}

/// Messages of the problems and the warnings of `config check`.
fn checked(folder: &Path) -> (Vec<String>, Vec<String>) {
    let said = run(folder, &["--json", "config", "check"]);
    let report: Value = serde_json::from_str(&said.stdout).expect("JSON");
    let messages = |key: &str| {
        let found = report[key].as_array().expect("a list").iter();
        let message = |one: &Value| one["message"].as_str().expect("a text").to_owned();
        found.map(message).collect()
    };
    (messages("problems"), messages("warnings"))
}

#[test]
fn a_fault_in_the_file_of_secrets_is_one_problem_and_hides_no_warning() {
    let dir = tempfile::tempdir().expect("a folder");
    guest_house::write(dir.path());
    std::fs::write(
        dir.path().join("configs/inference.json"),
        r#"{"provider": "anthropic", "model": "claude-sonnet-4-5"}"#,
    )
    .expect("written");
    let gateway = dir.path().join("configs/gateway.json");
    let text = std::fs::read_to_string(&gateway).expect("a file");
    let mut owned: Value = serde_json::from_str(&text).expect("JSON");
    owned["owners"] = serde_json::json!([]);
    std::fs::write(&gateway, owned.to_string()).expect("written");
    write_private(dir.path(), "ANTHROPIC_API_KEY=sk-1\n");
    let (problems, expected) = checked(dir.path());
    assert!(problems.is_empty(), "{problems:?}");
    assert!(
        expected
            .iter()
            .any(|one| one.starts_with("nobody owns this engine")),
        "{expected:?}"
    );
    for faulty in [
        "ANTHROPIC_API_KEY=sk-1 # mine\n",
        "ANTHROPIC_API_KEY=\n",
        "export ANTHROPIC_API_KEY=sk-1\n",
        "anthropic_api_key: sk-1\n",
    ] {
        write_private(dir.path(), faulty);
        let (problems, warnings) = checked(dir.path());
        assert_eq!(problems.len(), 1, "{faulty}: {problems:?}");
        assert_eq!(warnings, expected, "{faulty}");
        let started = run(dir.path(), &["drain"]);
        assert_eq!(started.code, 65, "{faulty}: {}", started.stderr);
    }
}

#[test]
fn a_misspelt_name_is_offered_where_its_secret_is_missing() {
    let workspace = Workspace::new();
    workspace.write(
        "configs/inference.json",
        r#"{"provider": "anthropic", "model": "m"}"#,
    );
    workspace.write_secrets("ANTHROPIC_API_KY=hidden\n", 0o600);
    let problems = workspace.problems();
    let [problem] = &problems[..] else {
        panic!("{problems:?}");
    };
    assert!(
        problem.contains("which has `ANTHROPIC_API_KY`: did you mean `ANTHROPIC_API_KEY`?"),
        "{problem}"
    );
    let workspace = Workspace::new();
    workspace.write_secrets("ANTHROPIC_API_KEY=hidden\nGROQ_KEY=gone\n", 0o600);
    let warnings = workspace.loaded().warnings;
    let about = |text: &str| warnings.iter().any(|one| one.message.contains(text));
    assert!(about("nothing reads `GROQ_KEY`"), "{warnings:?}");
}

#[test]
fn a_server_that_is_asked_without_a_key_is_doubted_where_one_is_wanted() {
    let asked = |provider: &str, url: &str| {
        let workspace = Workspace::new();
        workspace.write_secrets("ANTHROPIC_API_KEY=hidden\n", 0o600);
        let block = serde_json::json!({ "provider": "anthropic", "model": "m",
            "providers": { provider: { "base_url": url } } });
        workspace.write("configs/inference.json", &block.to_string());
        let warnings = workspace.loaded().warnings;
        let found = warnings
            .iter()
            .find(|one| one.message.contains("is asked without a key"));
        found.map(ToString::to_string)
    };
    let (here, there) = ("http://127.0.0.1:8080", "https://models.test/v1");
    let elsewhere = asked("compat:house", there).expect("doubted");
    assert!(
        elsewhere.contains("`compat:house` is asked") && elsewhere.contains("`api_key_variable`"),
        "{elsewhere}"
    );
    let vendor = asked("openai", here).expect("doubted");
    assert!(vendor.contains("OPENAI_API_KEY"), "{vendor}");
    for (provider, url) in [("compat:house", here), ("anthropic", here)] {
        assert_eq!(asked(provider, url), None, "{provider} at {url}");
    }
}
