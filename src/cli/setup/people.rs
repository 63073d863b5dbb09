//! Whose the workspace is: its owners, its domain, and the persona.

use super::asker::Asker;
use super::draft::{GATEWAY, INFERENCE, SECURITY, WorkspaceDraft};
use super::flags::{DOMAIN, NAME, OWNER, PERSONA, TIMEZONE};
use super::{existing, parse};
use crate::cli::init;
use crate::cli::persona::PersonaFiles;
use crate::cli::{Exit, Failure};
use crate::config::check_name;
use crate::domain::{Address, PersonaId};
use serde_json::json;

const CONTEXT: &str = "configs/context.json";
/// Zone of a persona that names none.
const UTC: &str = "UTC";

pub async fn ask(asker: &mut Asker<'_>, draft: &mut WorkspaceDraft) -> anyhow::Result<()> {
    let owners = asker.answer(OWNER, None, parse::addresses).await?;
    let domain = asker.answer(DOMAIN, None, parse::mail_domain).await?;
    let free = |text: &str| persona(text, &domain, &owners);
    let id = asker.answer(PERSONA, Some("assistant"), free).await?;
    let there = |key| existing::of_persona(&draft.folder, &id, key);
    let usual = there("name").filter(|name| !name.is_empty());
    let usual = usual.unwrap_or_else(|| id.to_string());
    let name = asker.answer(NAME, Some(&usual), name).await?;
    let usual = there("timezone");
    let usual = usual.or_else(existing::zone_of_machine);
    let usual = usual.filter(|zone| !zone.is_empty());
    let usual = usual.as_deref().unwrap_or(UTC);
    let timezone = asker.answer(TIMEZONE, Some(usual), parse::zone).await?;
    let owners: Vec<String> = owners.iter().map(Address::to_string).collect();
    add_files(draft, &domain, &owners)?;
    draft.set(GATEWAY, "/mail_domain", &json!(domain))?;
    draft.set(GATEWAY, "/owners", &json!(owners))?;
    let description = init::description(&name, &owners);
    let files = PersonaFiles {
        name: &name,
        address: id.as_str(),
        description: &description,
    };
    draft.add_persona(&id, &files)?;
    draft.set(
        &format!("personas/{id}/persona.json"),
        "/name",
        &json!(name),
    )?;
    Ok(draft.set_or_default(
        &format!("personas/{id}/persona.json"),
        "/timezone",
        Some(json!(timezone)),
        json!(UTC),
    )?)
}

/// Adds the files that a workspace needs and this one does not have. What a workspace can do without was
/// removed by its owner, and stays so.
fn add_files(draft: &mut WorkspaceDraft, domain: &str, owners: &[String]) -> Result<(), Failure> {
    let is_new = draft.text(GATEWAY)?.is_none();
    let no_context = draft.text(CONTEXT)?.is_none();
    let no_inference = draft.text(INFERENCE)?.is_none();
    for (path, text) in init::starter_files(domain, owners) {
        let is_needed = match path {
            GATEWAY => false,
            CONTEXT | INFERENCE | SECURITY => true,
            "configs/script.json" => no_inference,
            path if path.starts_with("configs/prompts/") => no_context,
            _ => is_new,
        };
        if is_new && path != GATEWAY || is_needed {
            draft.add(path, &text)?;
        }
    }
    draft.add(GATEWAY, "{\n  \"$schema\": \"schema/gateway.json\"\n}\n")?;
    if is_new {
        let limits = json!({ "domain_runs_per_day_max": init::DOMAIN_RUNS_MAX });
        draft.set(GATEWAY, "/limits", &limits)?;
    }
    Ok(())
}

fn persona(text: &str, domain: &str, owners: &[Address]) -> Result<PersonaId, Failure> {
    let wrong = |message: String| Failure::new(Exit::BadData, message);
    let id = PersonaId::parse(text).map_err(|error| {
        wrong(error.to_string())
            .hint("write a name of small letters, digits and `-`, such as `paul`")
    })?;
    let address = Address::parse(&format!("{id}@{domain}"));
    let address = address.map_err(|error| wrong(error.to_string()))?;
    if owners.iter().any(|owner| owner.key() == address.key()) {
        let message = format!("`{address}` would be the persona's address and is an owner's");
        return Err(wrong(message).hint("give the persona an address of its own"));
    }
    Ok(id)
}

fn name(text: &str) -> Result<String, Failure> {
    let name = text.trim();
    check_name(name).map_err(|error| Failure::new(Exit::BadData, error.to_string()))?;
    Ok(name.to_owned())
}
