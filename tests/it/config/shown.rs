//! `config show`: every setting under its name, and no secret.

use super::*;

/// The fields of a value whose `Debug` is derived, in order, without those of its fields.
fn fields(value: &impl std::fmt::Debug) -> Vec<String> {
    let text = format!("{value:#?}");
    let own = text.lines().filter_map(|line| {
        line.strip_prefix("    ")
            .filter(|line| !line.starts_with(' '))
    });
    own.filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.to_owned())
        .collect()
}

fn keys(value: &Value) -> Vec<String> {
    value
        .as_object()
        .expect("an object")
        .keys()
        .cloned()
        .collect()
}

/// Bounds of `budget` that are shown as budgets.
const BUDGET_BOUNDS: &[&str] = &[
    "day_usd_max",
    "day_tokens_max",
    "month_usd_max",
    "month_tokens_max",
    "persona_day_usd_max",
    "persona_day_tokens_max",
    "persona_day_mails_max",
    "persona_month_usd_max",
    "persona_month_tokens_max",
    "thread_day_usd_max",
    "thread_day_tokens_max",
    "on_budget",
    "timezone",
    "reserve_usd_per_call",
];

#[test]
fn every_setting_is_shown_and_every_limit_can_be_typed() {
    let config = Workspace::new().loaded();
    let shown = config::effective(&config);
    let gateway = &shown["configs/gateway.json"];
    let limits = fields(&config.limits);
    assert!(
        limits.contains(&"letter_bytes_max".to_owned()),
        "{limits:?}"
    );
    assert_eq!(keys(&gateway["limits"]), limits);
    let kind = schema::KINDS
        .iter()
        .find(|kind| kind.name == "gateway")
        .expect("the schema of the gateway");
    let schema: Value = serde_json::from_str(&kind.text()).expect("a schema");
    assert_eq!(keys(&schema["properties"]["limits"]["properties"]), limits);

    let places = [
        (fields(&config.gateway), keys(gateway), &["limits"][..]),
        (
            fields(config.personas.iter().next().expect("ada")),
            keys(&shown["personas/ada/persona.json"]),
            &[
                "max_output_tokens",
                "temperature",
                "max_tool_turns",
                "timeouts",
                // Of `mail`.
                "reply_to",
                "signature",
                "quote",
                "undo",
            ],
        ),
        (
            fields(&config.inference.budget),
            keys(&shown["configs/inference.json"]["budget"]),
            BUDGET_BOUNDS,
        ),
    ];
    // Shown under the name that it has in the file, or shown by its file's own name.
    let elsewhere = [
        "turns_max",
        "cost_micros_max",
        "cost_usd_max",
        "folder",
        // Shown in `listeners`.
        "http_listeners",
        // Shown by their own file, or by their members.
        "skills",
        "mail",
        "signers",
        "bounce_address",
        "settings",
        "profile",
        "output_schema",
    ];
    for (meant, shown, more) in places {
        let known =
            |name: &&String| !elsewhere.contains(&name.as_str()) && !more.contains(&name.as_str());
        assert_eq!(
            shown.iter().filter(known).collect::<Vec<_>>(),
            meant.iter().filter(known).collect::<Vec<_>>()
        );
    }
}

/// Every place of a value: `/listeners[]/kind`, maps with `*` for their keys where `maps` says so.
fn places(value: &Value, path: &str, maps: &[&str], found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(key, member)| {
            let key = if maps.contains(&path) { "*" } else { key };
            let path = format!("{path}/{key}");
            found.insert(path.clone());
            places(member, &path, maps, found);
        }),
        Value::Array(items) => items
            .iter()
            .for_each(|item| places(item, &format!("{path}[]"), maps, found)),
        _ => {}
    }
}

/// Every place that a schema allows, as [`places`] writes them.
fn typeable(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    for (key, member) in schema["properties"].as_object().into_iter().flatten() {
        found.insert(format!("{path}/{key}"));
        typeable(member, &format!("{path}/{key}"), found);
    }
    typeable_below(&schema["items"], &format!("{path}[]"), found);
    typeable_below(&schema["additionalProperties"], &format!("{path}/*"), found);
    for choice in ["anyOf", "oneOf"]
        .iter()
        .flat_map(|word| schema[word].as_array().into_iter().flatten())
    {
        typeable(choice, path, found);
    }
}

fn typeable_below(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    if schema.is_object() {
        typeable(schema, path, found);
    }
}

/// Two workspaces that together type nearly everything.
fn full_workspaces() -> [Workspace; 2] {
    let folder = Workspace::new();
    folder.write("c.pem", "a certificate");
    folder.write("k.pem", "its key");
    folder.write(
        "configs/gateway.json",
        r#"{"mail_domain": "house.test", "outbound": {"kind": "folder", "path": "out"},
            "listeners": [{"kind": "smtp", "address": "127.0.0.1:2525", "tls": "starttls", "auth": true},
                {"kind": "http", "address": "127.0.0.1:8025", "origins": ["https://pages.house.test"], "proxies": ["127.0.0.1"]}], "folders": [{"path": "in"}],
            "submission": [{"user": "olga", "address": "olga@home.test", "password_variable": "OLGA"}],
            "owners": ["olga@home.test"], "tls": {"certificate": "c.pem", "key": "k.pem"},
            "mailboxes": [{"name": "a", "host": "imap.test", "user": "u", "password_variable": "A", "after": {"flag": "Seen"}},
                {"name": "b", "host": "imap.test", "user": "v", "after": {"move": "Done"}, "oauth": {
                    "token_url": "https://id.test/token", "client_id": "c", "refresh_token_variable": "B"}}]}"#,
    );
    folder.write(
        "configs/security.json",
        r#"{"authentication": {"trusted_relays": [{"peers": ["127.0.0.1"], "authserv_id": "mx.test"}]},
            "mcp_server": {"personas": ["ada"]}}"#,
    );
    folder.write(
        "configs/prices.json",
        r#"{"version": "1", "prices": [{"provider": "openai", "model": "m", "input": 1, "output": 2}]}"#,
    );
    folder.write(
        "configs/inference.json",
        r#"{"provider": "scripted", "model": "m", "fallback": [{"provider": "openai", "model": "n"}],
            "summary_model": {"provider": "openai", "model": "s"},
            "embeddings": {"provider": "openai", "model": "v", "dimensions": 256},
            "providers": {"scripted": {"script": "s.json"}, "openai": {"headers": {"X-Team": "a",
                "X-Token": {"variable": "OPENAI_API_KEY"}}}, "claude": {}, "ollama": {}, "openrouter": {},
                "compat:x": {"base_url": "https://x.test/v1"}}}"#,
    );
    write_abilities(&folder);
    folder.write(
        "personas/ada/persona.json",
        r#"{"name": "Ada", "address": "ada", "fallback": [{"provider": "openai", "model": "n"}],
            "letters": {"+q": {}}}"#,
    );
    let folder = folder
        .with_env("OLGA", "secret-1")
        .with_env("A", "secret-2")
        .with_env("B", "secret-3");
    let folder = folder.with_env("OPENAI_API_KEY", "secret-4");
    let webhook_key = "whsec_dGhlIGJ5dGVzIG9mIGEga2V5IG9mIGEgd2ViaG9vay4=";
    let smarthost = Workspace::new()
        .with_env("OUT", "secret-5")
        .with_env("HOOK", webhook_key)
        .with_env("OTLP", "secret-8")
        .with_env("PING", "https://ping.test/secret-9");
    smarthost.write(
        "configs/gateway.json",
        r#"{"mail_domain": "house.test", "outbound": {"kind": "smarthost", "host": "mx.test", "user": "u",
            "password_variable": "OUT"},
            "webhooks": [{"name": "ops", "url": "https://hooks.test/a", "secret_variable": "HOOK",
                "previous_secret_variable": "HOOK", "events": ["run.failed"], "personas": ["ada"]}],
            "telemetry": {"traces": {"url": "https://otlp.test/v1/traces", "authorization_variable": "OTLP"},
                "ping": {"url_variable": "PING"}, "audit_log": true},
            "ingest": {"authserv_id": "mx.cloudflare.net"}}"#,
    );
    [folder, smarthost]
}

/// Writes the files of rules and abilities.
fn write_abilities(folder: &Workspace) {
    folder.write(
        "configs/policy.json",
        r#"{"rules": [{"id": "r", "effect": "ask", "persona": "ada", "tool": "send_email", "when": {"mails": 1},
            "until": "2040-01-01", "uses_max": 3, "why": "w"}]}"#,
    );
    folder.write(
        "configs/hooks.json",
        r#"{"hooks": [{"id": "h", "event": "before_call", "persona": "ada", "tools": ["send_email"], "command": ["true"],
            "timeout": "1s"}]}"#,
    );
    folder.write(
        "configs/skills.json",
        r#"{"skills": [{"folder": "skills/a", "description": "d", "tools": ["read_file"], "files": {"SKILL.md": "0"}}]}"#,
    );
    folder.write(
        "configs/web.json",
        r#"{"fetch": {"private_targets": ["wiki.lan:80"]}, "search": {"service": "brave", "key_variable": "OPENAI_API_KEY"}}"#,
    );
    folder.write(
        "configs/mcp.json",
        r#"{"servers": {"a": {"command": ["true"], "environment": ["OPENAI_API_KEY"], "audience": "owner", "personas": ["ada"],
            "tools": {"get": {"class": "once", "effects": {}}}},
            "b": {"url": "https://b.test/mcp", "headers": [{"name": "X-Key", "variable": "OPENAI_API_KEY"}],
            "oauth": {"client_id": "c"}, "audience": ["carol@partner.test"], "tools": {}}}}"#,
    );
    folder.write(
        "configs/keeping.json",
        r#"{"backup": {"every": "1d", "folder": "data/backups"}, "retention": {"turns": "90d"}}"#,
    );
    folder.write(
        "configs/tools/stock/tool.json",
        r#"{"description": "d", "arguments": {}, "command": ["true"], "class": "once", "effects": {}, "personas": ["ada"],
            "environment": ["OPENAI_API_KEY"]}"#,
    );
}

#[test]
fn whatever_can_be_typed_is_shown_under_its_name() {
    // With every provider: a block is shown by the keys that its adapter reads.
    let shown = full_workspaces().map(|workspace| {
        let set = |name: &str| workspace.environment.get(name).cloned();
        let names = attache::cli::name_catalog();
        let loaded = config::load_with(workspace.folder.path(), &names, &set);
        config::effective(&loaded.unwrap_or_else(|errors| panic!("{errors}")))
    });
    for secret in ["secret-", "whsec_"] {
        assert!(!format!("{shown:?}").contains(secret), "{shown:?}");
    }
    // Remarks for people, and what is read from a key's file.
    let remarks = [
        "/$schema",
        "/note",
        "/prices[]/source",
        "/prices[]/checked",
        "/outbound/dkim[]/key",
    ];
    let signers = ["/outbound/dkim[]/domain", "/outbound/dkim[]/selector"];
    for kind in schema::KINDS {
        let file = match kind.name {
            "persona" => "personas/ada/persona.json".to_owned(),
            "tool" => "configs/tools/stock/tool.json".to_owned(),
            name => format!("configs/{name}.json"),
        };
        let maps: &[&str] = match kind.name {
            "context" => &[""],
            "mcp" => &["/servers", "/servers/*/tools"],
            "persona" => &["/letters"],
            _ => &["/providers", "/providers/*/headers", "/skills[]/files"],
        };
        let (mut has, mut wanted) = (BTreeSet::new(), BTreeSet::new());
        shown
            .iter()
            .filter_map(|shown| shown.get(&file))
            .for_each(|shown| places(shown, "", maps, &mut has));
        typeable(&(kind.schema)(), "", &mut wanted);
        let is_missing = |place: &&String| {
            // A secret is shown as being set, under the name of what it is for.
            let secret = place
                .strip_suffix("_variable")
                .is_some_and(|name| has.contains(name));
            !has.contains(*place)
                && !secret
                && !remarks.contains(&place.as_str())
                && !signers.contains(&place.as_str())
        };
        let missing: Vec<&String> = wanted.iter().filter(is_missing).collect();
        assert!(missing.is_empty(), "{file} is shown without {missing:?}");
        assert!(wanted.len() > 1, "{file}");
    }
}

#[test]
fn no_secret_is_ever_printed() {
    let workspace = Workspace::new().with_env("ANTHROPIC_API_KEY", "hidden-key");
    let config = workspace.loaded();
    let shown = serde_json::to_string(&config::effective(&config)).expect("settings are JSON");
    assert!(shown.contains(r#""api_key":"[set]""#), "{shown}");
    assert!(!format!("{config:?}{shown}").contains("hidden-key"));
}
