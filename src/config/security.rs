//! `configs/security.json`: who may write to personas, and to whom personas may write.

use super::authentication;
use super::check::Page;
use super::document::child;
use super::load::Desk;
use super::net::domain;
use super::settings::{Access, Decision, Security};
use crate::domain::Address;
use schemars::JsonSchema;
use serde::Deserialize;

pub const FILE: &str = "configs/security.json";

/// Who may write to personas, and to whom personas may write.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "configs/security.json")]
pub struct Typed {
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    access: Option<TypedAccess>,
    authentication: Option<authentication::Typed>,
    /// Further recipients of `send_email`: exact addresses or `*@domain`. Owners and the people of a thread are
    /// always allowed.
    send_allow: Option<Vec<String>>,
}

/// Who may write to personas: `deny` wins over `allow`, `allow` wins over `default_decision`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedAccess {
    /// `monitor` refuses nobody, and writes to the log and `audit_log` who would have been. Default: `enforce`.
    mode: Option<authentication::TypedMode>,
    /// What becomes of a letter whose sender no pattern matches. Default: `allow`.
    default_decision: Option<TypedDecision>,
    /// Address patterns, in which `*` stands for any text and `?` for one character.
    allow: Option<Vec<String>>,
    /// Address patterns, in which `*` stands for any text and `?` for one character.
    deny: Option<Vec<String>>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TypedDecision {
    Allow,
    Deny,
}

impl Typed {
    pub fn authentication(&self) -> Option<&authentication::Typed> {
        self.authentication.as_ref()
    }
}

/// What the file means. Problems go to the desk.
pub fn settle(page: &Page<Typed>, desk: &mut Desk<'_>) -> Security {
    let none = TypedAccess::default();
    let access = page.typed.access.as_ref().unwrap_or(&none);
    let send_allow = page.typed.send_allow.clone().unwrap_or_default();
    for (index, text) in send_allow.iter().enumerate() {
        let legal = match text.strip_prefix("*@") {
            Some(name) => domain(name).is_some(),
            None => Address::parse(text).is_ok(),
        };
        if !legal {
            let problem = page.blame(&child("/send_allow", index), format!("`{text}` is not a recipient"));
            desk.report(problem.hint("write an address or `*@domain`"));
        }
    }
    Security {
        access: Access {
            mode: access.mode.into(),
            default_decision: match access.default_decision {
                None | Some(TypedDecision::Allow) => Decision::Allow,
                Some(TypedDecision::Deny) => Decision::Deny,
            },
            allow: settle_patterns(page, "/access/allow", access.allow.as_deref(), desk),
            deny: settle_patterns(page, "/access/deny", access.deny.as_deref(), desk),
        },
        authentication: authentication::settle(page, desk),
        send_allow,
    }
}

fn settle_patterns(
    page: &Page<Typed>,
    pointer: &str,
    patterns: Option<&[String]>,
    desk: &mut Desk<'_>,
) -> Vec<String> {
    let patterns = patterns.unwrap_or_default();
    for (index, pattern) in patterns.iter().enumerate() {
        // With its wildcards filled in, a pattern that can match an address is one.
        let filled = pattern.replace(['*', '?'], "x");
        if pattern != "*" && Address::parse(&filled).is_err() {
            let problem = page.blame(&child(pointer, index), format!("`{pattern}` matches no address"));
            desk.report(problem.hint("write one such as `*@example.org` or `ada@*`"));
        }
    }
    patterns.to_vec()
}
