//! Checks across files: addresses of personas and owners, signing keys, providers and their models.

use crate::config::file::{ConfigFile, child};
use crate::config::gateway::{Gateway, TypedGateway};
use crate::config::inference::fallback::ModelChoice;
use crate::config::inference::{Inference, TypedInference, providers};
use crate::config::persona::{Persona, TypedPersona};
use crate::config::values::check_context::{CheckContext, CheckPlace};
use crate::domain::PersonaId;
use std::collections::BTreeMap;

/// Checks that no two personas share an address, that a DKIM key covers the domain of each, and
/// that no owner has a persona's address: the engine would answer itself. A shared address is a
/// problem of both personas, because the faulty file cannot be determined.
pub fn check_addresses(
    gateway: Option<(&ConfigFile<TypedGateway>, &Gateway)>,
    personas: &[(ConfigFile<TypedPersona>, Persona)],
    ctx: &mut CheckContext<'_>,
) {
    let mut taken: BTreeMap<String, &PersonaId> = BTreeMap::new();
    for (file, persona) in personas {
        let own = std::iter::once(("/address".to_owned(), &persona.address));
        let aliases = persona
            .aliases
            .iter()
            .enumerate()
            .map(|(i, a)| (child("/aliases", i), a));
        for (pointer, address) in own.chain(aliases) {
            if let Some(other) = taken.insert(address.key(), &persona.id) {
                let message = format!("`{address}` belongs to persona `{other}` already");
                let problem = file
                    .problem_at(&pointer, message)
                    .hint("give one of the two another address");
                ctx.on_behalf_of(other.as_str(), |ctx| ctx.report(problem.clone()));
                ctx.on_behalf_of(persona.id.as_str(), |ctx| ctx.report(problem));
            }
        }
    }
    let Some((file, gateway)) = gateway else {
        return;
    };
    let unsigned = |persona: &&Persona| !gateway.signers.covers(persona.address.domain());
    let all = personas.iter().map(|(_, persona)| persona);
    for persona in all.filter(|_| !gateway.signers.is_empty()).filter(unsigned) {
        let message = format!("no key signs the mail of `{}`", persona.address);
        let problem = file
            .problem_at("/outbound/dkim", message)
            .hint("add one of its domain");
        ctx.on_behalf_of(persona.id.as_str(), |ctx| ctx.report(problem));
    }
    for owner in &gateway.owners {
        let Some(persona) = taken.get(&owner.key()) else {
            continue;
        };
        let pointer = file.typed.owner_pointer(owner);
        let problem = file.problem_at(
            &pointer,
            format!("`{owner}` is a persona's address, not an owner's"),
        );
        ctx.on_behalf_of(persona.as_str(), |ctx| ctx.report(problem));
    }
}

/// Checks that every provider in use can answer, and that a persona with another provider names a
/// model of it.
pub fn check_providers(
    file: &ConfigFile<TypedInference>,
    inference: &Inference,
    personas: &[(ConfigFile<TypedPersona>, Persona)],
    ctx: &mut CheckContext<'_>,
) {
    let place = &mut ctx.place(file, "");
    let summary = inference.summary_model.as_ref();
    let vectors = inference.embeddings.as_ref();
    let others = [
        ("summary_model/provider", summary.map(|of| &of.provider)),
        ("embeddings/provider", vectors.map(|of| &of.provider)),
    ];
    check_ready("provider", &inference.provider, inference, place);
    check_fallbacks(&inference.fallback, inference, place);
    for (path, provider) in others {
        if let Some(provider) = provider {
            check_ready(path, provider, inference, place);
        }
    }
    for (file, persona) in personas {
        ctx.on_behalf_of(persona.id.as_str(), |ctx| {
            check_own_provider(inference, persona, &mut ctx.place(file, ""));
        });
    }
}

/// Reports a provider that cannot answer.
fn check_ready(path: &str, provider: &str, inference: &Inference, place: &mut CheckPlace<'_, '_>) {
    let unready = providers::unready(provider, &inference.providers, place.ctx);
    if let Some((message, hint)) = unready {
        place.refuse(path, message, hint);
    }
}

fn check_fallbacks(choices: &[ModelChoice], inference: &Inference, place: &mut CheckPlace<'_, '_>) {
    for (index, choice) in choices.iter().enumerate() {
        let path = format!("fallback/{index}/provider");
        check_ready(&path, &choice.provider, inference, place);
    }
}

fn check_own_provider(inference: &Inference, persona: &Persona, place: &mut CheckPlace<'_, '_>) {
    let choices = persona.fallback.as_deref().unwrap_or_default();
    check_fallbacks(choices, inference, place);
    let Inference {
        provider: usual,
        model,
        ..
    } = inference;
    let Some(provider) = persona.provider.as_ref().filter(|own| *own != usual) else {
        return;
    };
    check_ready("provider", provider, inference, place);
    let has_model = place.ctx.models.contains_key(provider);
    if persona.model.is_none() && !place.has("model") && !has_model {
        let message = format!("provider `{provider}` needs a `model` beside it, or in its block");
        place.refuse(
            "provider",
            message,
            format!("`{model}` is a model of `{usual}`"),
        );
    }
}
