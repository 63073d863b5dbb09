//! `configs/security.json`: access control for letters to personas, and permitted recipients of
//! their mail.

pub mod mcp_server;

use super::values::net::domain;
use crate::config::authentication;
use crate::config::authentication::{Authentication, Mode, TypedAuthentication};
use crate::config::values::section::*;
use crate::domain::Address;
use mcp_server::{McpServerSettings, TypedMcpServerSettings};

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
#[derive(Debug, Clone, Serialize)]
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
#[derive(Debug, Clone, Serialize)]
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
    let typed = &file.typed;
    let none = TypedAccess::default();
    let access = typed.access.as_ref().unwrap_or(&none);
    let place = &mut ctx.place(file, "");
    // A pattern that can match an address is an address once its wildcards are filled in.
    let is_pattern =
        |text: &str| text == "*" || Address::parse(&text.replace(['*', '?'], "x")).is_ok();
    let is_listed = |text: &str| match text.strip_prefix("*@") {
        Some(name) => domain(name).is_some(),
        None => Address::parse(text).is_ok(),
    };
    let (any, listed) = (
        "write one such as `*@example.org` or `ada@*`",
        "write an address or `*@domain`",
    );
    let mut check = |path: &str,
                     list: &Option<Vec<String>>,
                     is: &dyn Fn(&str) -> bool,
                     what: &str,
                     hint: &str| {
        let list = list.as_deref().unwrap_or_default();
        place.each(path, list, |text| match is(text) {
            true => Ok(()),
            false => Err((format!("`{text}` {what}"), hint.to_owned())),
        });
        list.to_vec()
    };
    Security {
        access: Access {
            mode: access.mode,
            default_decision: access.default_decision,
            allow: check(
                "access/allow",
                &access.allow,
                &is_pattern,
                "matches no address",
                any,
            ),
            deny: check(
                "access/deny",
                &access.deny,
                &is_pattern,
                "matches no address",
                any,
            ),
        },
        send_allow: check(
            "send_allow",
            &typed.send_allow,
            &is_listed,
            "is not a recipient",
            listed,
        ),
        reply_to_of: check(
            "reply_to_of",
            &typed.reply_to_of,
            &is_listed,
            "is not a sender",
            listed,
        ),
        authentication: authentication::resolve(
            typed.authentication.as_ref(),
            &mut place.under("authentication"),
        ),
        mcp_server: typed
            .mcp_server
            .as_ref()
            .map(|typed| mcp_server::resolve(typed, &mut place.under("mcp_server"))),
    }
}
