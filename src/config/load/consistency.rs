//! Checks across files: addresses of personas and owners, signing keys, providers and their models.

use crate::config::file::{ConfigFile, child};
use crate::config::gateway::{Gateway, TypedGateway};
use crate::config::inference::fallback::ModelChoice;
use crate::config::inference::{Inference, TypedInference};
use crate::config::inference::{embeddings, fallback, providers};
use crate::config::persona::{Persona, TypedPersona};
use crate::config::values::check_context::CheckContext;
use crate::domain::PersonaId;
use std::collections::BTreeMap;

/// Checks that no two personas share an address, that a DKIM key covers the domain of each, and
/// that no owner has a persona's address: the engine would answer itself. A shared address is a
/// problem of both personas, because the faulty file cannot be determined.
pub fn check_addresses(
    file: Option<&ConfigFile<TypedGateway>>,
    gateway: Option<&Gateway>,
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
    let Some((file, gateway)) = file.zip(gateway) else {
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

fn check_fallbacks<T>(
    file: &ConfigFile<T>,
    choices: &[ModelChoice],
    inference: &Inference,
    ctx: &mut CheckContext<'_>,
) {
    for (index, choice) in choices.iter().enumerate() {
        if let Some((message, hint)) =
            providers::unready(&choice.provider, &inference.providers, ctx)
        {
            ctx.refuse(file, &fallback::pointer(index), message, hint);
        }
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
    if let Some((message, hint)) =
        providers::unready(&inference.provider, &inference.providers, ctx)
    {
        ctx.refuse(file, "/provider", message, hint);
    }
    check_fallbacks(file, &inference.fallback, inference, ctx);
    let summary = inference.summary_model.as_ref();
    let summary =
        summary.and_then(|of| providers::unready(&of.provider, &inference.providers, ctx));
    if let Some((message, hint)) = summary {
        ctx.refuse(file, "/summary_model/provider", message, hint);
    }
    let vectors = inference.embeddings.as_ref();
    let vectors =
        vectors.and_then(|of| providers::unready(&of.provider, &inference.providers, ctx));
    if let Some((message, hint)) = vectors {
        ctx.refuse(file, embeddings::PROVIDER_POINTER, message, hint);
    }
    for (file, persona) in personas {
        ctx.on_behalf_of(persona.id.as_str(), |ctx| {
            check_own_provider(file, inference, persona, ctx);
        });
    }
}

fn check_own_provider(
    file: &ConfigFile<TypedPersona>,
    inference: &Inference,
    persona: &Persona,
    ctx: &mut CheckContext<'_>,
) {
    check_fallbacks(
        file,
        persona.fallback.as_deref().unwrap_or_default(),
        inference,
        ctx,
    );
    let Some(provider) = persona
        .provider
        .as_deref()
        .filter(|name| *name != inference.provider)
    else {
        return;
    };
    if let Some((message, hint)) = providers::unready(provider, &inference.providers, ctx) {
        ctx.refuse(file, "/provider", message, hint);
    }
    let has_model = |name: &str| ctx.models.contains_key(name);
    if persona.model.is_none() && !file.has("/model") && !has_model(provider) {
        let message = format!("provider `{provider}` needs a `model` beside it, or in its block");
        let hint = format!(
            "`{}` is a model of `{}`",
            inference.model, inference.provider
        );
        ctx.refuse(file, "/provider", message, hint);
    }
}
