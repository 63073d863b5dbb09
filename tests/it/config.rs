//! Configuration files become settings, or every problem at once. Cases are files below `fixtures/config/broken/`.

mod agents;
mod budgets;
mod open_files;
mod secrets;
mod shown;

use attache::config::{
    self, Config, ConfigErrors, Decision, MailTls, NameCatalog, TransportSettings, load_with,
    schema,
};
use attache::context::prompt;
use attache::domain::{Address, OWNER_SCHEDULE_TOOLS, PersonaId, Timestamp, Trigger};
use attache::schedule_file::{ParseContext, WorkspaceNames, file};
use secrecy::ExposeSecret;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

fn name_catalog() -> NameCatalog {
    NameCatalog {
        providers: vec!["scripted", "anthropic", "openai"],
        resolvers: vec![
            ("load-file", 1..=1),
            ("thread-history", 0..=0),
            ("current-input", 0..=0),
        ],
        tools: vec!["send_email".to_owned(), "search_email".to_owned()],
        key_variables: vec![
            ("anthropic", "ANTHROPIC_API_KEY"),
            ("openai", "OPENAI_API_KEY"),
        ],
        settings: attache::cli::name_catalog().settings,
        embedding_providers: vec!["openai"],
        agents: Vec::new(),
    }
}

/// The smallest workspace that is right, and the environment around it.
struct Workspace {
    folder: TempDir,
    environment: BTreeMap<String, String>,
}

impl Workspace {
    fn new() -> Self {
        let workspace = Self {
            folder: TempDir::new().expect("a temporary folder"),
            environment: BTreeMap::new(),
        };
        workspace.write("configs/gateway.json", r#"{"mail_domain": "house.test"}"#);
        let inference = r#"{"provider": "scripted", "model": "m", "providers": {"scripted": {"script": "s.json"}}}"#;
        workspace.write("configs/inference.json", inference);
        let context = r#"{"thread": ["current-input"], "responsibility": ["current-input"]}"#;
        workspace.write("configs/context.json", context);
        workspace.write("configs/security.json", "{}");
        workspace.write(
            "personas/ada/persona.json",
            r#"{"name": "Ada", "address": "ada"}"#,
        );
        workspace
    }
    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a file has a folder")).expect("a folder");
        std::fs::write(&path, text).expect("a file");
        path
    }
    fn write_secrets(&self, text: &str, mode: u32) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.write(".secrets", text);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
    }
    fn with_env(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }
    fn load(&self) -> Result<Config, ConfigErrors> {
        load_with(self.folder.path(), &name_catalog(), &|name| {
            self.environment.get(name).cloned()
        })
    }
    fn loaded(&self) -> Config {
        self.load().unwrap_or_else(|errors| panic!("{errors}"))
    }
    fn problems(&self) -> Vec<String> {
        let problems = match self.load() {
            Err(errors) => errors.problems,
            Ok(config) => {
                let out = config.personas.out_of_service().iter();
                out.flat_map(|out| out.problems.clone()).collect()
            }
        };
        problems.iter().map(ToString::to_string).collect()
    }
}

/// Writes the case's files over the smallest workspace; returns it and the problems that the case expects.
fn read_case(text: &str) -> (Workspace, Vec<String>) {
    let (files, problems) = text
        .split_once("=== problems\n")
        .expect("a case lists its problems");
    let mut workspace = Workspace::new();
    for part in files.split("--- ").skip(1) {
        let (path, content) = part
            .split_once('\n')
            .expect("a file has a name and a content");
        match path {
            "environment" => {
                for (name, value) in content.lines().filter_map(|line| line.split_once('=')) {
                    workspace = workspace.with_env(name, value);
                }
            }
            ".secrets" => workspace.write_secrets(content, 0o600),
            path => drop(workspace.write(path, content)),
        }
    }
    (workspace, problems.lines().map(str::to_owned).collect())
}

#[test]
fn broken_files_are_explained_with_place_path_and_nearest_name() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/config/broken");
    let (mut cases, mut differences) = (0, String::new());
    for entry in std::fs::read_dir(folder).expect("the cases") {
        let path = entry.expect("a case").path();
        let (workspace, expected) =
            read_case(&std::fs::read_to_string(&path).expect("a case is text"));
        let found = workspace.problems();
        if found != expected {
            let (expected, found) = (expected.join("\n"), found.join("\n"));
            differences.push_str(&format!(
                "== {}\n{expected}\n-- found\n{found}\n",
                path.display()
            ));
        }
        cases += 1;
    }
    assert!(differences.is_empty(), "{differences}");
    assert!(cases >= 13, "only {cases} cases were found");
}

#[test]
fn the_smallest_workspace_gets_documented_defaults() {
    let workspace = Workspace::new();
    let config = workspace.loaded();
    assert_eq!(config.workspace, workspace.folder.path());
    assert_eq!(config.gateway.host_name, "house.test");
    assert!(config.gateway.outbound.is_none() && config.gateway.listeners.is_empty());
    assert_eq!(
        config.gateway.retry.give_up_after,
        Duration::from_secs(5 * 24 * 3600)
    );
    assert_eq!(config.inference.budget.turns_max, 8);
    assert_eq!(config.inference.budget.cost_micros_max, None);
    assert_eq!(config.security.access.default_decision, Decision::Allow);
    let ada = config
        .personas
        .get(&PersonaId::parse("ada").expect("an id"))
        .expect("a persona");
    assert_eq!(
        (ada.address.to_string().as_str(), ada.reply),
        ("ada@house.test", attache::domain::ReplyMode::Final)
    );
    assert_eq!(ada.timezone, chrono_tz::UTC);
    assert_eq!(ada.tools, attache::config::PersonaTools::Basic);
    assert_eq!(ada.folder, workspace.folder.path().join("personas/ada"));
    let scripted = &config.inference.providers["scripted"];
    assert_eq!(
        scripted.script,
        Some(workspace.folder.path().join("s.json"))
    );
}

/// A workspace in which much is typed.
fn typed_workspace() -> Workspace {
    let workspace = Workspace::new()
        .with_env("RELAY_PASSWORD", "p4ss")
        .with_env("OPENAI_API_KEY", "k-1");
    workspace.write(
        "configs/gateway.json",
        r#"{
          "$schema": "schema/gateway.json", "mail_domain": "House.TEST", "host_name": "mx.house.test",
          "owners": ["Owner@people.test"], "listeners": [{"kind": "smtp", "address": "[::1]:25"}],
          "folders": [{"path": "data/in", "fallback": "ada", "poll": "250ms"}],
          "outbound": {"kind": "smarthost", "host": "relay.test", "tls": "implicit", "user": "house",
                       "password_variable": "RELAY_PASSWORD", "connections_max": 2},
          "retry": {"give_up_after": "2d"},
          "limits": {"letter_bytes_max": 2048, "session_idle_max": "1m", "free_disk_bytes_min": 0}
        }"#,
    );
    workspace.write(
        "configs/inference.json",
        r#"{
          "provider": "openai", "model": "m-1", "max_output_tokens": 99, "temperature": 0.5, "max_tool_turns": 3,
          "budget": {"tool_calls_max": 4, "tool_failures_max": 2, "tokens_max": 1000, "cost_usd_max": 0.25,
                     "duration_max": "90s", "context_tokens_max": 2000, "mails_max": 1},
          "timeouts": {"idle": "5s", "call": "6s"},
          "retry": {"call_attempts_max": 7, "run_attempts_max": 8, "inline_wait_max": "9s"},
          "concurrency": {"runs_max": 10, "runs_per_persona_max": 1},
          "providers": {"openai": {"base_url": "http://127.0.0.1:8/v1", "legacy_max_tokens": true,
                                    "no_stream_usage": true}}
        }"#,
    );
    workspace.write(
        "personas/ada/persona.json",
        r#"{"name": "Ada", "address": "ada@Other.test", "aliases": ["desk"], "reply": "tool_only",
            "model": "m-2", "tools": ["send_email"], "timezone": "Europe/Berlin"}"#,
    );
    workspace
}

#[test]
fn everything_that_can_be_typed_arrives() {
    let workspace = typed_workspace();
    let config = workspace.loaded();
    assert_eq!(
        (
            config.gateway.mail_domain.as_str(),
            config.gateway.host_name.as_str()
        ),
        ("house.test", "mx.house.test")
    );
    assert_eq!(
        config.gateway.folders[0].path,
        workspace.folder.path().join("data/in")
    );
    assert_eq!(config.gateway.folders[0].poll, Duration::from_millis(250));
    let Some(TransportSettings::Smarthost(smarthost)) = &config.gateway.outbound else {
        panic!("no smarthost")
    };
    assert_eq!(
        (smarthost.port, smarthost.tls, smarthost.connections_max),
        (465, MailTls::Implicit, 2)
    );
    let (user, password) = smarthost.credentials.as_ref().expect("credentials");
    assert_eq!((user.as_str(), password.expose_secret()), ("house", "p4ss"));
    assert_eq!(
        (
            config.limits.letter_bytes_max,
            config.limits.free_disk_bytes_min
        ),
        (2048, 0)
    );
    assert_eq!(config.limits.session_idle_max, Duration::from_secs(60));
    inference_arrived(&config.inference);
    persona_arrived(&config);
}

fn inference_arrived(inference: &config::Inference) {
    assert_eq!(inference.budget.cost_micros_max, Some(250_000));
    assert_eq!(
        (inference.budget.turns_max, inference.budget.mails_max),
        (3, 1)
    );
    assert_eq!(
        (inference.call_attempts_max, inference.run_attempts_max),
        (7, 8)
    );
    assert_eq!(inference.inline_wait_max, Duration::from_secs(9));
    assert_eq!(
        (
            inference.concurrent_runs_max,
            inference.concurrent_runs_per_persona_max
        ),
        (10, 1)
    );
    let openai = &inference.providers["openai"];
    assert!(openai.chat.legacy_max_tokens && openai.chat.no_stream_usage);
    assert_eq!(
        openai
            .api_key
            .as_ref()
            .map(|key| key.expose_secret().to_owned()),
        Some("k-1".to_owned())
    );
}

fn persona_arrived(config: &Config) {
    let deps = Address::parse("desk+bills@house.test").expect("an address");
    let ada = config
        .personas
        .by_address(&deps)
        .expect("an alias with a tag reaches her");
    assert_eq!(
        (ada.address.to_string().as_str(), ada.reply),
        ("ada@other.test", attache::domain::ReplyMode::ToolOnly)
    );
    assert_eq!(
        (ada.model.as_deref(), ada.timezone),
        (Some("m-2"), chrono_tz::Europe::Berlin)
    );
}

#[test]
fn a_provider_on_this_machine_needs_no_key() {
    let workspace = Workspace::new();
    let inference = |url: &str| {
        format!(
            r#"{{"provider": "openai", "model": "m", "providers": {{"openai": {{"base_url": "{url}"}}}}}}"#
        )
    };
    workspace.write(
        "configs/inference.json",
        &inference("http://localhost:11434/v1"),
    );
    assert_eq!(
        workspace.loaded().inference.providers["openai"]
            .base_url
            .as_deref(),
        Some("http://localhost:11434/v1")
    );
    workspace.write(
        "configs/inference.json",
        &inference("https://api.example/v1"),
    );
    assert_eq!(workspace.problems().len(), 1);
}

/// A run opens its persona's folder below that of the workspace, so that it would fail.
#[test]
fn personas_that_are_a_link_out_of_the_workspace_are_refused() {
    let elsewhere = TempDir::new().expect("a temporary folder");
    let workspace = Workspace::new();
    let personas = workspace.folder.path().join("personas");
    for (target, is_refused) in [
        (elsewhere.path().join("shared"), true),
        (workspace.folder.path().join("own"), false),
    ] {
        std::fs::rename(&personas, &target).expect("moved");
        std::os::unix::fs::symlink(&target, &personas).expect("a link");
        let problems = workspace.problems();
        match is_refused {
            true => assert!(
                problems.len() == 1
                    && problems[0].starts_with("personas: is a link to `")
                    && problems[0].contains("mount that folder at `personas`"),
                "{problems:?}"
            ),
            false => assert_eq!(problems, Vec::<String>::new()),
        }
        std::fs::remove_file(&personas).expect("removed");
        std::fs::rename(&target, &personas).expect("moved back");
    }
}

#[test]
fn missing_files_are_named_together() {
    let folder = TempDir::new().expect("a temporary folder");
    let errors =
        load_with(folder.path(), &name_catalog(), &|_| None).expect_err("nothing is there");
    let files = errors
        .problems
        .iter()
        .map(|problem| problem.file.as_str())
        .collect::<Vec<_>>();
    let all = [
        "configs/context.json",
        "configs/gateway.json",
        "configs/inference.json",
        "configs/security.json",
        "personas",
    ];
    assert_eq!(files, all);
    assert!(
        errors
            .to_string()
            .starts_with("the configuration has 5 problems\n  configs/context.json: ")
    );
}

#[test]
fn the_checked_in_schemas_are_those_of_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/schema");
    for kind in schema::KINDS {
        let file = folder.join(format!("{}.json", kind.name));
        let checked_in = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(
            checked_in,
            kind.text(),
            "{} is old: run `attache config schema --write`",
            file.display()
        );
    }
    let files = std::fs::read_dir(folder).expect("the schemas").count();
    assert_eq!(files, schema::KINDS.len(), "a schema of no file");
}

#[test]
fn the_repository_is_a_workspace_without_problems() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = load_with(root, &attache::cli::name_catalog(), &|_| None);
    let config = config.unwrap_or_else(|errors| panic!("{errors}"));
    let ids = config
        .personas
        .iter()
        .map(|persona| persona.id.as_str())
        .collect::<Vec<_>>();
    assert_eq!(ids, ["concierge", "digest"]);
    let named = config.context.values().flat_map(|profile| &profile.steps);
    for step in named.filter(|step| step.resolver == "load-file") {
        assert!(
            root.join(&step.args[0]).is_file(),
            "{} does not exist",
            step.args[0]
        );
    }
}

#[test]
fn the_sample_prompts_render_and_the_sample_duties_are_readable() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = load_with(root, &attache::cli::name_catalog(), &|_| None);
    let config = config.unwrap_or_else(|errors| panic!("{errors}"));
    let now = Timestamp::parse("2026-03-02T08:00:00Z").expect("an instant");
    for (path, text) in attache::cli::sample::FILES {
        for persona in config
            .personas
            .iter()
            .filter(|_| path.starts_with("configs/prompts/"))
        {
            for trigger in Trigger::ALL {
                let rendered = prompt::render(path, text, persona, *trigger, &[], now);
                let rendered = rendered.unwrap_or_else(|error| panic!("{path}: {error}"));
                assert!(
                    !rendered.contains("{%") && !rendered.contains("{{"),
                    "{path}: {rendered}"
                );
                // A date there would change what a vendor's cache may serve.
                let named = rendered.contains(&persona.name) && !rendered.contains("2 March 2026");
                assert!(
                    named || *path != "configs/prompts/system.md",
                    "{path}: {rendered}"
                );
            }
        }
        if path.contains("/responsibilities/") {
            let names = WorkspaceNames {
                tools: OWNER_SCHEDULE_TOOLS.map(str::to_owned).into(),
                ..WorkspaceNames::default()
            };
            let bounds = ParseContext {
                zone: chrono_tz::Europe::Berlin,
                tools: None,
                names: &names,
                mails_answers: false,
            };
            let duty = file::parse(text.as_bytes(), &bounds)
                .unwrap_or_else(|error| panic!("{path}: {error}"));
            assert_eq!(duty.timezone, chrono_tz::Europe::Berlin, "{path}");
            assert_eq!(duty.enabled, path.ends_with("weekday-digest.md"), "{path}");
        }
    }
}

#[test]
fn adapters_read_every_setting_of_a_block_and_only_settings() {
    let inference = schema::KINDS
        .iter()
        .find(|kind| kind.name == "inference")
        .expect("a kind");
    let schema = (inference.schema)();
    let block = &schema["properties"]["providers"]["additionalProperties"]["properties"];
    let known: Vec<&str> = block
        .as_object()
        .expect("a block")
        .keys()
        .map(String::as_str)
        .collect();
    let names = attache::cli::name_catalog();
    let read: Vec<&str> = names
        .settings
        .iter()
        .flat_map(|(_, keys)| keys.iter().copied())
        .collect();
    assert!(known.len() > 20, "{known:?}");
    for key in &known {
        assert!(
            read.contains(key),
            "nobody reads `{key}`, so it would be ignored in every block"
        );
    }
    for key in read {
        assert!(known.contains(&key), "`{key}` cannot be written");
    }
}
