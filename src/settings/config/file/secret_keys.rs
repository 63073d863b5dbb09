//! Secrets that stand in a configuration file instead of `.secrets`.

use super::document::{Document, Spot};
use super::problem::Problem;

/// Reports whether a key looks like one that holds a secret. `password_variable` and `tokens_max`
/// do not.
pub(super) fn looks_secret(key: &str) -> bool {
    const ENDINGS: &[&str] = &[
        "api_key",
        "apikey",
        "password",
        "passwd",
        "passphrase",
        "secret",
        "token",
        "private_key",
    ];
    let key = key.to_ascii_lowercase().replace('-', "_");
    ENDINGS.iter().any(|ending| key.ends_with(ending))
}

/// Reports whether a member is a header of a provider: those may name variables, and are checked where
/// they are read.
pub(super) fn is_header(pointer: &str) -> bool {
    let parts: Vec<&str> = pointer.split('/').collect();
    matches!(parts[..], ["", "providers", _, "headers", _])
}

pub(super) fn secret_in_file(document: &Document, pointer: &str) -> Problem {
    let problem = document.problem(
        pointer,
        Spot::Key,
        "a secret must not stand in a configuration file",
    );
    let mut parts = pointer.split('/').skip(1);
    match (parts.next(), parts.next()) {
        (Some("providers"), Some(provider)) => {
            let name = provider.split(':').next_back().unwrap_or_default();
            let variable = format!("{}_API_KEY", name.to_ascii_uppercase().replace('-', "_"));
            problem.hint(format!(
                "write `{variable}=…` into `.secrets` (mode 0600), and `\"api_key_variable\": \"{variable}\"` here"
            ))
        }
        (Some("mailboxes" | "submission" | "outbound"), _) => problem.hint(
            "name a variable with `password_variable` here, and write `NAME=…` into `.secrets` (mode 0600)",
        ),
        _ => problem.hint("write it into the environment or into `.secrets` (mode 0600)"),
    }
}
