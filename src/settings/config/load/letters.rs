//! Checks of rules for letters against other files.

use crate::config::context::ContextProfile;
use crate::config::file::{ConfigFile, child};
use crate::config::gateway::Gateway;
use crate::config::persona::{Persona, TypedPersona};
use crate::config::security::Security;
use crate::config::values::check_context::{CheckContext, CheckPlace};
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
                let place = &mut match key {
                    "" => ctx.place(file, ""),
                    key => ctx.place(file, child("/letters", key)),
                };
                let name = &rule.run_options.profile;
                let profiles = profiles.filter(|known| !known.contains_key(name));
                if let Some(profiles) = profiles.filter(|_| place.has("profile")) {
                    let message = format!("no profile `{name}` in `configs/context.json`");
                    let known = profiles.keys().map(String::as_str);
                    place.unknown("profile", message, name, known);
                }
                if let DeliverTo::People(named) = &rule.run_options.deliver_to
                    && let Some((gateway, security)) = people
                {
                    check_people(named, gateway, security, place);
                }
            }
        });
    }
}

fn check_people(
    named: &[Address],
    gateway: &Gateway,
    security: &Security,
    place: &mut CheckPlace<'_, '_>,
) {
    for (index, address) in named.iter().enumerate() {
        let mut owners = gateway.owners.iter();
        if !owners.any(|owner| owner.key() == address.key())
            && !is_listed(&security.send_allow, address)
        {
            place.refuse(
                &format!("deliver_to/{index}"),
                format!("`{address}` is no owner and stands not in `send_allow`"),
                "add it to `send_allow` of `configs/security.json`",
            );
        }
    }
}
