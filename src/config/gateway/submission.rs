//! `submission` in `configs/gateway.json`: owners that may log in where a listener offers AUTH.

use crate::config::file::{Document, child};
use crate::config::values::check_context::CheckContext;
use crate::domain::Address;
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};

/// An owner that may log in with AUTH.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedSubmitter {
    /// User name of at most 255 bytes.
    #[schemars(length(min = 1, max = 255))]
    user: String,
    /// One of `owners`.
    address: String,
    /// The variable, in the environment or in `.secrets`, that holds the password.
    #[schemars(length(min = 1))]
    pub password_variable: String,
}

/// An owner that may log in with AUTH.
#[derive(Debug, Clone)]
pub struct Submitter {
    pub user: String,
    /// One of the owners, on whose behalf the user's letters are submitted.
    pub address: Address,
    pub password: SecretString,
}

/// Resolves the users. Problems go to the context.
pub(super) fn resolve(
    file: &Document,
    typed: &[TypedSubmitter],
    owners: &[Address],
    ctx: &mut CheckContext<'_>,
) -> Vec<Submitter> {
    let mut submission: Vec<Submitter> = Vec::new();
    for (index, one) in typed.iter().enumerate() {
        let pointer = format!("/submission/{index}");
        if submission.iter().any(|other| other.user == one.user) {
            ctx.complain(
                file,
                child(&pointer, "user"),
                format!("`{}` is named twice", one.user),
            );
        }
        let address = Address::parse(&one.address).ok();
        let owner =
            address.and_then(|address| owners.iter().find(|owner| owner.key() == address.key()));
        if owner.is_none() {
            ctx.refuse(
                file,
                child(&pointer, "address"),
                format!("`{}` is no owner", one.address),
                "only addresses in `owners` may log in",
            );
        }
        let password = ctx.secrets.get(&one.password_variable);
        if password
            .as_ref()
            .is_none_or(|password| password.expose_secret().is_empty())
        {
            let variable = &one.password_variable;
            let message = format!("this user's password is not in `{variable}`");
            ctx.refuse(
                file,
                child(&pointer, "password_variable"),
                message,
                ctx.how_to_set(variable),
            );
        }
        let user = one.user.clone();
        submission.extend(
            owner
                .cloned()
                .zip(password)
                .map(|(address, password)| Submitter {
                    user,
                    address,
                    password,
                }),
        );
    }
    submission
}

/// JSON of the submission users, without their passwords.
pub fn show(submission: &[Submitter]) -> Vec<Value> {
    let shown = |one: &Submitter| json!({"user": one.user, "address": one.address.to_string(), "password": "[set]"});
    submission.iter().map(shown).collect()
}
