//! `configs/security.json`: access control for letters to personas, and permitted recipients of
//! their mail.

pub mod mcp_server;

use super::values::check_context::CheckContext;
use super::values::net::domain;
use crate::config::authentication;
use crate::config::authentication::{Authentication, Mode, TypedAuthentication};
use crate::config::file::{ConfigFile, child};
use crate::domain::Address;
use mcp_server::{McpServerSettings, TypedMcpServerSettings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Access control for letters to personas, and permitted recipients of their mail.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "configs/security.json")]
pub struct TypedSecurity {
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    access: Option<TypedAccess>,
    authentication: Option<TypedAuthentication>,
    /// Further recipients of `send_email`: exact addresses or `*@domain`. Owners and the
    /// participants of a thread are always permitted.
    send_allow: Option<Vec<String>>,
    /// Senders whose mail a form writes for others: exact addresses or `*@domain`. The answer goes to the `Reply-To` that such a
    /// sender has signed, and nothing is known about whoever it names.
    reply_to_of: Option<Vec<String>>,
    mcp_server: Option<TypedMcpServerSettings>,
}

/// Access control for letters to personas: `deny` wins over `allow`, `allow` wins over
/// `default_decision`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedAccess {
    /// `enforce` refuses letters; `monitor` refuses none and writes to the log and `audit_log`
    /// which ones it would have refused.
    #[serde(default)]
    mode: Mode,
    /// Decision on a letter whose sender matches no pattern.
    #[serde(default)]
    default_decision: Decision,
    /// Address patterns, in which `*` stands for any text and `?` for one character.
    allow: Option<Vec<String>>,
    /// Address patterns, in which `*` stands for any text and `?` for one character.
    deny: Option<Vec<String>>,
}

/// `configs/security.json`.
#[derive(Debug, Clone)]
pub struct Security {
    pub access: Access,
    pub authentication: Authentication,
    /// Further recipients of `send_email`: exact addresses or `*@domain`.
    pub send_allow: Vec<String>,
    /// Senders whose mail a form writes for others: exact addresses or `*@domain`.
    pub reply_to_of: Vec<String>,
    /// `None`: other agents get nothing.
    pub mcp_server: Option<McpServerSettings>,
}

/// Access control for letters to personas; `deny` wins over `allow` wins over `default_decision`.
/// Globs ignore case.
#[derive(Debug, Clone)]
pub struct Access {
    pub mode: Mode,
    pub default_decision: Decision,
    pub allow: Vec<String>,
    pub deny: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    #[default]
    Allow,
    Deny,
}

/// Resolves the file. Problems go to the context.
pub fn resolve(file: &ConfigFile<TypedSecurity>, ctx: &mut CheckContext<'_>) -> Security {
    let none = TypedAccess::default();
    let access = file.typed.access.as_ref().unwrap_or(&none);
    Security {
        access: Access {
            mode: access.mode,
            default_decision: access.default_decision,
            allow: resolve_patterns(file, "/access/allow", access.allow.as_deref(), ctx),
            deny: resolve_patterns(file, "/access/deny", access.deny.as_deref(), ctx),
        },
        authentication: authentication::resolve(file, file.typed.authentication.as_ref(), ctx),
        send_allow: listed(
            file,
            ("/send_allow", "recipient"),
            file.typed.send_allow.as_deref(),
            ctx,
        ),
        reply_to_of: listed(
            file,
            ("/reply_to_of", "sender"),
            file.typed.reply_to_of.as_deref(),
            ctx,
        ),
        mcp_server: file
            .typed
            .mcp_server
            .as_ref()
            .map(|typed| mcp_server::resolve(file, typed, ctx)),
    }
}

/// Resolves a list of addresses and `*@domain`.
fn listed(
    file: &ConfigFile<TypedSecurity>,
    (pointer, what): (&str, &str),
    typed: Option<&[String]>,
    ctx: &mut CheckContext<'_>,
) -> Vec<String> {
    let typed = typed.unwrap_or_default();
    for (index, text) in typed.iter().enumerate() {
        let legal = match text.strip_prefix("*@") {
            Some(name) => domain(name).is_some(),
            None => Address::parse(text).is_ok(),
        };
        if !legal {
            let message = format!("`{text}` is not a {what}");
            ctx.refuse(
                file,
                child(pointer, index),
                message,
                "write an address or `*@domain`",
            );
        }
    }
    typed.to_vec()
}

fn resolve_patterns(
    file: &ConfigFile<TypedSecurity>,
    pointer: &str,
    patterns: Option<&[String]>,
    ctx: &mut CheckContext<'_>,
) -> Vec<String> {
    let patterns = patterns.unwrap_or_default();
    for (index, pattern) in patterns.iter().enumerate() {
        // A pattern that can match an address is an address once its wildcards are filled in.
        let filled = pattern.replace(['*', '?'], "x");
        if pattern != "*" && Address::parse(&filled).is_err() {
            ctx.refuse(
                file,
                child(pointer, index),
                format!("`{pattern}` matches no address"),
                "write one such as `*@example.org` or `ada@*`",
            );
        }
    }
    patterns.to_vec()
}
