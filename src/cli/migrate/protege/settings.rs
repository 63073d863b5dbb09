//! The other workspace's JSON files: domain and contact, model, admission.

use super::findings::{FindingKind, MigrationFindings};
use super::source::SourceFolder;
use crate::config::{Document, NameCatalog};
use crate::domain::Address;
use serde_json::{Map, Value, json};

/// Files that may say the mail domain and the contact; their layout is not documented, so they are read by these keys.
const GATEWAY_FILES: [&str; 3] = [
    "configs/gateway.json",
    "configs/system.json",
    "configs/scheduler.json",
];
const DOMAIN_KEYS: [&str; 4] = ["mail_domain", "mailDomain", "domain", "default_from_domain"];
const CONTACT_KEYS: [&str; 2] = ["admin_contact_email", "adminContactEmail"];
const INFERENCE: &str = "configs/inference.json";
const SECURITY: &str = "configs/security.json";
const USUAL_POLICY: &str = "require_dmarc_or_aligned_spf_dkim";

/// Whose the workspace is, as far as its files say.
#[derive(Debug, Default)]
pub struct SourceGateway {
    pub domain: Option<String>,
    pub contact: Option<String>,
}

/// Reads a JSON file; `None`: there is none, or it is broken and named.
pub fn document(
    source: &SourceFolder,
    path: &str,
    findings: &mut MigrationFindings,
) -> Option<Document> {
    let text = findings.readable(path, source.text(path))?;
    match Document::parse(path, &text) {
        Ok(document) if document.value.is_object() => Some(document),
        Ok(_) => {
            findings.broken(path, "is no JSON object");
            None
        }
        Err(problem) => {
            findings.problem(FindingKind::Broken, *problem);
            None
        }
    }
}

/// The members of a JSON object; none where it is no object.
fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// Names a member that has nothing like it here.
pub fn no_counterpart(
    document: &Document,
    pointer: &str,
    remedy: &str,
    findings: &mut MigrationFindings,
) {
    let key = pointer.rsplit('/').next().unwrap_or_default();
    let problem = document.problem_at_key(pointer, format!("`{key}` has no counterpart"));
    findings.problem(FindingKind::NoCounterpart, problem.hint(remedy));
}

pub fn gateway(source: &SourceFolder, findings: &mut MigrationFindings) -> SourceGateway {
    let mut gateway = SourceGateway::default();
    for path in GATEWAY_FILES {
        let Some(document) = document(source, path, findings) else {
            continue;
        };
        for (key, value) in members(&document.value) {
            let text = value.as_str().map(str::trim).map(str::to_owned);
            if DOMAIN_KEYS.contains(&key.as_str()) {
                gateway.domain = gateway.domain.or(text);
            } else if CONTACT_KEYS.contains(&key.as_str()) {
                gateway.contact = gateway.contact.or(text);
            } else if key != "$schema" {
                let remedy = "ways in and out are set by `attache setup`; bounds stand in configs/gateway.json and configs/inference.json";
                no_counterpart(&document, &format!("/{key}"), remedy, findings);
            }
        }
    }
    gateway
}

/// Translates the model. `None`: there is no usable file, so that `scripted` answers until a model is named.
pub fn inference(
    source: &SourceFolder,
    names: &NameCatalog,
    findings: &mut MigrationFindings,
) -> Option<String> {
    let document = document(source, INFERENCE, findings)?;
    let (provider, model) = provider_and_model(&document, names, findings)?;
    let mut made = Map::new();
    made.insert("$schema".to_owned(), json!("schema/inference.json"));
    made.insert("provider".to_owned(), json!(provider));
    made.insert("model".to_owned(), json!(model));
    for (key, value) in members(&document.value) {
        let is_whole =
            |low: u64, high: u64| value.as_u64().is_some_and(|n| (low..=high).contains(&n));
        let (ours, is_good) = match key.as_str() {
            "$schema" | "provider" | "model" => continue,
            "max_tool_turns" | "maxToolTurns" => ("max_tool_turns", is_whole(1, 1000)),
            "max_output_tokens" | "maxOutputTokens" => {
                ("max_output_tokens", is_whole(1, u64::from(u32::MAX)))
            }
            "temperature" => (
                "temperature",
                value.as_f64().is_some_and(|t| (0.0..=2.0).contains(&t)),
            ),
            "recursion_depth" => {
                let remedy = "letters between personas are bounded by `limits.persona_hops_max` in configs/gateway.json, 4 by default";
                no_counterpart(&document, "/recursion_depth", remedy, findings);
                continue;
            }
            other => {
                let remedy = "see the settings in the reference of configs/inference.json";
                no_counterpart(&document, &format!("/{other}"), remedy, findings);
                continue;
            }
        };
        if is_good {
            made.insert(ours.to_owned(), value.clone());
        } else {
            let problem =
                document.problem_at(&format!("/{key}"), format!("`{key}` is out of range"));
            findings.problem(
                FindingKind::Broken,
                problem.hint("the default is used; set it in configs/inference.json"),
            );
        }
    }
    Some(pretty(&Value::Object(made)))
}

/// The provider and its name for the model; a model may be written `provider/model`.
fn provider_and_model(
    document: &Document,
    names: &NameCatalog,
    findings: &mut MigrationFindings,
) -> Option<(String, String)> {
    let text = |key: &str| {
        document.value[key]
            .as_str()
            .map(str::trim)
            .filter(|text| !text.is_empty())
    };
    let typed = text("model");
    let parts = typed.and_then(|model| model.split_once('/'));
    let (provider, model) = match (text("provider"), typed, parts) {
        (Some(provider), _, Some((prefix, model))) if prefix == provider => (provider, model),
        (Some(provider), Some(model), _) => (provider, model),
        (None, _, Some((prefix, model))) => (prefix, model),
        _ => {
            let problem = document.problem_at("", "names no `provider` and `model`");
            findings.problem(
                FindingKind::Broken,
                problem.hint("name them in configs/inference.json; until then `scripted` answers"),
            );
            return None;
        }
    };
    if names.providers.contains(&provider) {
        return Some((provider.to_owned(), model.to_owned()));
    }
    let problem = document.problem_at(
        "/provider",
        format!("there is no provider `{provider}` here"),
    );
    let hint = "a server with OpenAI's API is `compat:NAME`: see the page on providers; until then `scripted` answers";
    findings.problem(FindingKind::NoCounterpart, problem.hint(hint));
    None
}

/// Translates who is admitted. `None`: there is no usable file.
pub fn security(source: &SourceFolder, findings: &mut MigrationFindings) -> Option<String> {
    let document = document(source, SECURITY, findings)?;
    let mut made = Map::new();
    made.insert("$schema".to_owned(), json!("schema/security.json"));
    for (key, _) in members(&document.value) {
        match key.as_str() {
            "$schema" => {}
            "gateway_access" => {
                made.insert("access".to_owned(), access(&document, findings));
            }
            "gateway_auth" => {
                made.insert(
                    "authentication".to_owned(),
                    authentication(&document, findings),
                );
            }
            other => {
                let remedy = "see the reference of configs/security.json";
                no_counterpart(&document, &format!("/{other}"), remedy, findings);
            }
        }
    }
    Some(pretty(&Value::Object(made)))
}

fn access(document: &Document, findings: &mut MigrationFindings) -> Value {
    let typed = &document.value["gateway_access"];
    let mut made = Map::new();
    if typed["enabled"] == json!(false) {
        let problem = document.problem_at(
            "/gateway_access/enabled",
            "the lists are not in force there",
        );
        findings.problem(
            FindingKind::Changed,
            problem.hint("`mode: monitor` keeps them and refuses nobody; take the line out to put them in force"),
        );
        made.insert("mode".to_owned(), json!("monitor"));
    }
    for (key, value) in members(typed) {
        let pointer = format!("/gateway_access/{key}");
        match key.as_str() {
            "enabled" => {}
            "default_decision" => match value.as_str().map(str::to_ascii_lowercase).as_deref() {
                Some(decision @ ("allow" | "deny")) => {
                    made.insert(key.clone(), json!(decision));
                }
                _ => findings.problem(
                    FindingKind::Broken,
                    document
                        .problem_at(&pointer, "is neither `allow` nor `deny`")
                        .hint("nobody is admitted by it here until you write one of the two"),
                ),
            },
            "allow" | "deny" => {
                made.insert(key.clone(), patterns(document, &pointer, findings));
            }
            _ => no_counterpart(
                document,
                &pointer,
                "see the reference of configs/security.json",
                findings,
            ),
        }
    }
    // A decision that cannot be read admits nobody.
    if !made.contains_key("default_decision") && document.has("/gateway_access/default_decision") {
        made.insert("default_decision".to_owned(), json!("deny"));
    }
    let is_open = made
        .get("default_decision")
        .is_none_or(|decision| decision == "allow");
    if is_open {
        let problem = document.problem_at(
            "/gateway_access",
            "letters of senders that nothing proves are stored here and not answered, unless `allow` names them",
        );
        findings.problem(
            FindingKind::Changed,
            problem.hint("see the page on trust before you add to `access.allow`"),
        );
    }
    Value::Object(made)
}

/// The patterns that can match an address.
fn patterns(document: &Document, pointer: &str, findings: &mut MigrationFindings) -> Value {
    let typed = document.value.pointer(pointer).and_then(Value::as_array);
    let mut good = Vec::new();
    for (index, pattern) in typed.into_iter().flatten().enumerate() {
        let text = pattern.as_str().unwrap_or_default().trim();
        let filled = text.replace(['*', '?'], "x");
        if text == "*" || Address::parse(&filled).is_ok() {
            good.push(json!(text));
        } else {
            let problem = document.problem_at(
                &format!("{pointer}/{index}"),
                format!("`{text}` matches no address"),
            );
            findings.problem(
                FindingKind::Broken,
                problem.hint("write it anew in configs/security.json, such as `*@example.org`"),
            );
        }
    }
    Value::Array(good)
}

fn authentication(document: &Document, findings: &mut MigrationFindings) -> Value {
    let typed = &document.value["gateway_auth"];
    let is_enforced = typed["mode"] == json!("enforce") && typed["enabled"] != json!(false);
    if typed["enabled"] == json!(false) {
        let problem =
            document.problem_at("/gateway_auth/enabled", "senders are always verified here");
        findings.problem(
            FindingKind::Changed,
            problem.hint("`mode: monitor` refuses nobody for it"),
        );
    }
    for (key, value) in members(typed) {
        let pointer = format!("/gateway_auth/{key}");
        let remedy = match key.as_str() {
            "enabled" | "mode" => continue,
            "policy" if value == USUAL_POLICY => continue,
            "policy" => "here the policy of the sender's own domain decides",
            "trusted_relays" if value.as_array().is_some_and(Vec::is_empty) => continue,
            "trusted_relays" => {
                "name the relays by their networks in `authentication.trusted_relays` of configs/security.json; attestations by key are not known here"
            }
            _ => "see the reference of configs/security.json",
        };
        no_counterpart(document, &pointer, remedy, findings);
    }
    json!({ "mode": if is_enforced { "enforce" } else { "monitor" } })
}

/// JSON as a file has it.
pub fn pretty(value: &Value) -> String {
    // A value of strings, numbers and lists is always text.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}
