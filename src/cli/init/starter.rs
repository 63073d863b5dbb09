//! The files of a new workspace: the generic files of the sample workspace, and files made for the
//! owner.

use super::sample;
use std::borrow::Cow;

/// The file that makes a folder a workspace; written last.
pub const LAST: &str = "configs/gateway.json";

/// Bounds that a new workspace begins with: tokens of all runs and mails of each persona in a day, and letters of one
/// organisation's strangers that are answered in a day.
pub const DAY_TOKENS_MAX: u64 = 5_000_000;
pub const DAY_MAILS_MAX: u32 = 200;
pub const DOMAIN_RUNS_MAX: u32 = 30;

/// Sample files that are copied unchanged.
const SHARED: &[&str] = &[
    "configs/context.json",
    "configs/keeping.json",
    "configs/prices.json",
    "configs/prompts/",
    "configs/schema/",
    ".gitignore",
];

/// The answers of `scripted`, until a model is configured.
const SCRIPT: &str = r#"{
  "model": "scripted",
  "rules": [
    {
      "when": { "contains": "trigger: schedule" },
      "say": "Nothing to report: no model is configured yet, and the scripted provider has answered this responsibility."
    },
    {
      "when": { "contains": "trigger: manual" },
      "say": "Nothing to report: no model is configured yet, and the scripted provider has answered this responsibility."
    },
    {
      "say": "Good day,\n\nyour letter \"{{subject}}\" has arrived and is stored.\n\nThis is a test answer: no model is configured yet."
    }
  ]
}
"#;

/// Path below the workspace, and content. Domain and owners are checked and need no escapes.
pub fn files(mail_domain: &str, owners: &[String]) -> Vec<(&'static str, Cow<'static, str>)> {
    let is_shared = |path: &str| SHARED.iter().any(|shared| path.starts_with(shared));
    let shared = sample::FILES.iter().filter(|(path, _)| is_shared(path));
    let mut files: Vec<_> = shared
        .map(|(path, content)| (*path, Cow::Borrowed(*content)))
        .collect();
    let owners: Vec<String> = owners.iter().map(|owner| format!("\"{owner}\"")).collect();
    let owners = owners.join(", ");
    files.extend([
        ("configs/script.json", Cow::Borrowed(SCRIPT)),
        (
            "configs/inference.json",
            Cow::Owned(format!(
                r#"{{
  "$schema": "schema/inference.json",
  "provider": "scripted",
  "model": "scripted",
  "budget": {{
    "tool_calls_max": 50, "tokens_max": 500000, "duration_max": "10m", "mails_max": 5,
    "day_tokens_max": {DAY_TOKENS_MAX}, "persona_day_mails_max": {DAY_MAILS_MAX}
  }},
  "providers": {{ "scripted": {{ "script": "configs/script.json" }} }}
}}
"#
            )),
        ),
        (
            "configs/security.json",
            Cow::Borrowed(
                "{\n  \"$schema\": \"schema/security.json\",\n  \"access\": { \"allow\": [] }\n}\n",
            ),
        ),
        (
            LAST,
            Cow::Owned(format!(
                r#"{{
  "$schema": "schema/gateway.json",
  "mail_domain": "{mail_domain}",
  "owners": [{owners}],
  "listeners": [{{ "kind": "smtp", "address": "127.0.0.1:2525" }}],
  "outbound": {{ "kind": "folder", "path": "data/outbox" }},
  "limits": {{ "domain_runs_per_day_max": {DOMAIN_RUNS_MAX} }}
}}
"#
            )),
        ),
    ]);
    files
}

/// A PERSONA.md with which a persona can answer before its owner has edited it.
pub fn description(name: &str, owners: &[String]) -> String {
    let owner = owners.first().map(String::as_str).unwrap_or_default();
    format!(
        "# {name}\n\n\
         You answer the mail that comes to you, for {owner}. Write in the language of the letter, briefly and plainly, \
         and\nsign with \"{name}\".\n\n\
         - Answer what your knowledge and the thread say. What you do not know, you say you do not know.\n\
         - Promise nothing, agree to nothing and pay nothing: say that you pass it on.\n\
         - Say nothing of one correspondent to another.\n"
    )
}
