//! Checks of rules for letters against other files.

use crate::config::context::ContextProfile;
use crate::config::file::{ConfigFile, child};
use crate::config::gateway::Gateway;
use crate::config::persona::{Persona, TypedPersona};
use crate::config::security::Security;
use crate::config::values::check_context::CheckContext;
use crate::domain::{Address, DeliverTo, is_listed};
use std::collections::BTreeMap;

/// Checks what other files decide: that every profile exists, and that answers go to owners or to `send_allow` only.
pub fn check(
    personas: &[(ConfigFile<TypedPersona>, Persona)],
    profiles: Option<&BTreeMap<String, ContextProfile>>,
    people: Option<(&Gateway, &Security)>,
    ctx: &mut CheckContext<'_>,
) {
    for (file, persona) in personas {
        ctx.on_behalf_of(persona.id.as_str(), |ctx| {
            for (key, rule) in persona.letters.all() {
                let pointer = match key {
                    "" => String::new(),
                    key => child("/letters", key),
                };
                let name = &rule.run_options.profile;
                let at = child(&pointer, "profile");
                if let Some(profiles) =
                    profiles.filter(|known| !known.contains_key(name) && file.has(&at))
                {
                    ctx.report(
                        file.problem_at(
                            &at,
                            format!("no profile `{name}` in `configs/context.json`"),
                        )
                        .did_you_mean(name, profiles.keys().map(String::as_str)),
                    );
                }
                if let (DeliverTo::People(named), Some(people)) =
                    (&rule.run_options.deliver_to, people)
                {
                    check_people(file, (&child(&pointer, "deliver_to"), named), people, ctx);
                }
            }
        });
    }
}

fn check_people(
    file: &ConfigFile<TypedPersona>,
    (pointer, named): (&str, &[Address]),
    (gateway, security): (&Gateway, &Security),
    ctx: &mut CheckContext<'_>,
) {
    let is_allowed = |address: &Address| {
        let is_owner = gateway
            .owners
            .iter()
            .any(|owner| owner.key() == address.key());
        is_owner || is_listed(&security.send_allow, address)
    };
    for (index, address) in named
        .iter()
        .enumerate()
        .filter(|(_, address)| !is_allowed(address))
    {
        let message = format!("`{address}` is no owner and stands not in `send_allow`");
        ctx.refuse(
            file,
            child(pointer, index),
            message,
            "add it to `send_allow` of `configs/security.json`",
        );
    }
}
