//! `configs/web.json`: what the personas may fetch from the web.

use super::values::check_context::CheckContext;
use crate::config::file::{ConfigFile, child};
use crate::web::private_target;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Access of the personas to the web. Without this file they have none.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "configs/web.json")]
pub struct TypedWeb {
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    /// Offers `web_fetch`. Without it no page is fetched.
    fetch: Option<TypedFetch>,
}

/// Pages that `web_fetch` gets.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedFetch {
    /// Hosts with ports, such as `wiki.lan:80`, that may be asked although their addresses are private. Everything else must
    /// be on the public internet, at port 80 or 443.
    #[serde(default)]
    private_targets: Vec<String>,
}

/// Access of the personas to the web.
#[derive(Debug, Clone, Default, Serialize)]
pub struct WebSettings {
    /// `None`: `web_fetch` is not offered.
    pub fetch: Option<FetchSettings>,
}

/// Pages that `web_fetch` gets.
#[derive(Debug, Clone, Serialize)]
pub struct FetchSettings {
    /// Private targets as `host:port`, as they are compared.
    pub private_targets: Vec<String>,
}

/// Resolves `configs/web.json`. Problems go to the context.
pub fn resolve(file: &ConfigFile<TypedWeb>, ctx: &mut CheckContext<'_>) -> WebSettings {
    let Some(typed) = &file.typed.fetch else {
        return WebSettings::default();
    };
    let mut private_targets = Vec::new();
    for (index, target) in typed.private_targets.iter().enumerate() {
        match private_target(target) {
            Some(target) => private_targets.push(target),
            None => {
                let pointer = child("/fetch/private_targets", index);
                let problem =
                    file.problem_at(&pointer, format!("`{target}` is no host with a port"));
                ctx.report(problem.hint("write it such as `wiki.lan:80` or `127.0.0.1:8080`"));
            }
        }
    }
    WebSettings {
        fetch: Some(FetchSettings { private_targets }),
    }
}
