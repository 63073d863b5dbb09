//! The model that answers: its provider, its name, its key.

use super::asker::{Asker, NONE};
use super::draft::{INFERENCE, WorkspaceDraft};
use super::flags::{BASE_URL, KEY, MODEL, PROVIDER};
use super::parse;
use crate::cli::init;
use crate::cli::providers;
use crate::config::Config;
use serde_json::json;

/// Provider that answers from a file.
const SCRIPTED: &str = "scripted";
const COMPATIBLE: &str = "compat:";

pub async fn ask(asker: &mut Asker<'_>, draft: &mut WorkspaceDraft) -> anyhow::Result<()> {
    let before = asker.default_of(PROVIDER);
    let provider = asker.answer(PROVIDER, None, parse::provider).await?;
    if provider != before {
        asker.forget_unless_given(MODEL);
        asker.forget_unless_given(BASE_URL);
    }
    let usual = (provider == SCRIPTED).then_some(SCRIPTED);
    let model = asker.answer(MODEL, usual, parse::some).await?;
    draft.set(INFERENCE, "/provider", &json!(provider))?;
    draft.set(INFERENCE, "/model", &json!(model))?;
    if draft.json(INFERENCE)?.pointer("/budget").is_none() {
        let budget = json!({
            "day_tokens_max": init::DAY_TOKENS_MAX, "persona_day_mails_max": init::DAY_MAILS_MAX,
        });
        draft.set(INFERENCE, "/budget", &budget)?;
    }
    if provider == SCRIPTED {
        return Ok(());
    }
    let block = format!("/providers/{provider}");
    let base_url = asker
        .answer(BASE_URL, Some(NONE), parse::some_or_none)
        .await?;
    match base_url {
        Some(url) => draft.set(INFERENCE, &format!("{block}/base_url"), &json!(url))?,
        None if draft
            .json(INFERENCE)?
            .pointer(&format!("{block}/base_url"))
            .is_some() =>
        {
            draft.set(INFERENCE, &format!("{block}/base_url"), &json!(null))?;
        }
        None => {}
    }
    let variable = key_variable(draft, &provider)?;
    let known = variable.as_ref().is_some_and(|name| draft.has_secret(name));
    if variable.is_none() && !provider.starts_with(COMPATIBLE) {
        // It takes no key.
        return Ok(());
    }
    let Some(key) = asker.secret(KEY, known).await? else {
        return Ok(());
    };
    let variable = match variable {
        Some(variable) => variable,
        None => {
            let variable = invented(&provider);
            let pointer = format!("{block}/api_key_variable");
            draft.set(INFERENCE, &pointer, &json!(variable))?;
            variable
        }
    };
    draft.set_secret(&variable, key);
    Ok(())
}

/// The variable of a provider's key: the one that its block names, else the usual one.
fn key_variable(draft: &WorkspaceDraft, provider: &str) -> anyhow::Result<Option<String>> {
    let settings = draft.json(INFERENCE)?;
    let named = &settings["providers"][provider]["api_key_variable"];
    let catalog = crate::cli::name_catalog();
    let adapter = provider.split(':').next().unwrap_or(provider);
    let usual = catalog
        .key_variables
        .iter()
        .find(|(id, _)| *id == provider || *id == adapter);
    let named = named.as_str().or(usual.map(|(_, variable)| *variable));
    Ok(named.map(str::to_owned))
}

/// A variable for the key of a server that has no usual one: `GROQ_API_KEY` for `compat:groq`.
fn invented(provider: &str) -> String {
    let name = provider.strip_prefix(COMPATIBLE).unwrap_or(provider);
    let legal = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    };
    let name: String = name.chars().map(legal).collect();
    let name = name.trim_start_matches(|c: char| !c.is_ascii_uppercase());
    match name {
        "" => "COMPAT_API_KEY".to_owned(),
        name => format!("{name}_API_KEY"),
    }
}

/// Asks the provider for its models, then the model for one word.
pub async fn check(config: &Config) -> anyhow::Result<Vec<String>> {
    if config.inference.provider == SCRIPTED {
        return Ok(vec!["no model: `scripted` answers from a file".to_owned()]);
    }
    Ok(vec![providers::try_default(config).await?])
}
