//! `webhooks` in `configs/gateway.json`: addresses of other programs that are told what happens.

use crate::config::file::{Document, child};
use crate::config::secrets::is_stand_in;
use crate::config::values::check_context::CheckContext;
use crate::domain::{PersonaId, WebhookEvent};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};

/// Most webhooks: each reads the whole feed.
const WEBHOOKS_MAX: usize = 20;
/// Longest name in characters.
const NAME_CHARS_MAX: usize = 40;

/// An address that is told what happens, by Standard Webhooks.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedWebhook {
    /// Name of small letters, digits and `-`, by which commands and records know it. Another name is another webhook, which
    /// begins with what happens from then on.
    #[schemars(length(min = 1, max = 40))]
    name: String,
    /// Address that takes the events, `https` at port 443.
    url: String,
    /// `true`: the address may be in a private network or on this machine, at any port, and without TLS.
    #[serde(default)]
    private_target: bool,
    /// The variable, in the environment or in `.secrets`, that holds the key of the signatures: `whsec_` and 24 to 64 bytes in
    /// base64.
    #[schemars(length(min = 1))]
    secret_variable: String,
    /// The variable that holds the key before, while the receiver learns the new one: both sign.
    previous_secret_variable: Option<String>,
    /// Events that it is told. Default: all.
    #[serde(default)]
    #[schemars(schema_with = "events_schema")]
    events: Vec<WebhookEvent>,
    /// Personas of whose events it is told. Default: all, and events of none.
    #[serde(default)]
    personas: Vec<String>,
}

impl TypedWebhook {
    /// Names of the variables with its keys.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let previous = self.previous_secret_variable.as_deref();
        std::iter::once(self.secret_variable.as_str()).chain(previous)
    }
}

fn events_schema(_: &mut SchemaGenerator) -> Schema {
    let words: Vec<&str> = WebhookEvent::ALL
        .iter()
        .map(|event| event.as_str())
        .collect();
    json_schema!({ "type": "array", "items": { "type": "string", "enum": words } })
}

/// An address that is told what happens.
#[derive(Debug, Clone)]
pub struct Webhook {
    pub name: String,
    pub url: String,
    /// `true`: the address may be in a private network.
    pub private_target: bool,
    /// Keys that sign, the newest first; never empty.
    pub keys: Vec<WebhookKey>,
    /// Empty: all.
    pub events: Vec<WebhookEvent>,
    /// Empty: all, and events of none.
    pub personas: Vec<PersonaId>,
}

impl Webhook {
    /// Reports whether it is told of an event.
    pub fn concerns(&self, event: WebhookEvent, persona: Option<&PersonaId>) -> bool {
        let is_of_ours = || persona.is_some_and(|id| self.personas.contains(id));
        (self.events.is_empty() || self.events.contains(&event))
            && (self.personas.is_empty() || is_of_ours())
    }
}

/// Key of a signature (Standard Webhooks 1.0.0, "Symmetric").
///
/// Invariant: 24 to 64 bytes.
#[derive(Debug, Clone)]
pub struct WebhookKey(SecretSlice<u8>);

impl WebhookKey {
    /// Parses `whsec_` and base64; `None`: it is anything else, or too short or too long.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text.strip_prefix("whsec_")?).ok()?;
        let is_of_size = (24..=64).contains(&bytes.len());
        is_of_size.then(|| Self(bytes.into()))
    }

    pub fn bytes(&self) -> &[u8] {
        self.0.expose_secret()
    }
}

/// Resolves the section. Problems go to the context.
pub(super) fn resolve(
    file: &Document,
    typed: &[TypedWebhook],
    ctx: &mut CheckContext<'_>,
) -> Vec<Webhook> {
    if typed.len() > WEBHOOKS_MAX {
        ctx.refuse(
            file,
            "/webhooks",
            format!("has more than {WEBHOOKS_MAX}"),
            "let one program tell the others",
        );
    }
    let mut webhooks: Vec<Webhook> = Vec::new();
    for (index, one) in typed.iter().take(WEBHOOKS_MAX).enumerate() {
        let pointer = child("/webhooks", index);
        check_name(file, &child(&pointer, "name"), one, &webhooks, ctx);
        check_url(file, &child(&pointer, "url"), one, ctx);
        let current = key(
            file,
            &child(&pointer, "secret_variable"),
            &one.secret_variable,
            ctx,
        );
        let before = one.previous_secret_variable.as_deref();
        let at = child(&pointer, "previous_secret_variable");
        let before = before.and_then(|variable| key(file, &at, variable, ctx));
        let mut personas = Vec::new();
        for (place, name) in one.personas.iter().enumerate() {
            let at = child(&child(&pointer, "personas"), place);
            personas.extend(ctx.persona(file, &at, name));
        }
        webhooks.push(Webhook {
            name: one.name.clone(),
            url: one.url.clone(),
            private_target: one.private_target,
            keys: current.into_iter().chain(before).collect(),
            events: one.events.clone(),
            personas,
        });
    }
    webhooks
}

fn check_name(
    file: &Document,
    pointer: &str,
    one: &TypedWebhook,
    others: &[Webhook],
    ctx: &mut CheckContext<'_>,
) {
    let name = &one.name;
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(is_plain) {
        ctx.refuse(
            file,
            pointer,
            format!("`{name}` is no name"),
            "write up to 40 small letters, digits and `-`",
        );
    }
    if others.iter().any(|other| other.name == *name) {
        ctx.refuse(
            file,
            pointer,
            format!("two webhooks are called `{name}`"),
            "give each a name of its own: records name it",
        );
    }
}

fn check_url(file: &Document, pointer: &str, one: &TypedWebhook, ctx: &mut CheckContext<'_>) {
    let url = reqwest::Url::parse(&one.url).ok();
    let url = url.filter(|url| url.has_host() && matches!(url.scheme(), "http" | "https"));
    let problem = match url {
        None => Some((
            format!("`{}` is no address of the web", one.url),
            "write `https://`, a host and a path",
        )),
        Some(url) if !url.username().is_empty() || url.password().is_some() => Some((
            "an address with a user name or a password is not called".to_owned(),
            "the signature proves who calls; leave them out",
        )),
        Some(url) if !one.private_target && url.scheme() != "https" => Some((
            format!("`{}` would be told in plain text", one.url),
            "use `https`, or say `\"private_target\": true` of an address in a private network",
        )),
        Some(url) if !one.private_target && url.port_or_known_default() != Some(443) => Some((
            format!("`{}` is at another port than 443", one.url),
            "use port 443, or say `\"private_target\": true` of an address in a private network",
        )),
        Some(_) => None,
    };
    if let Some((message, hint)) = problem {
        ctx.refuse(file, pointer, message, hint);
    }
}

fn key(
    file: &Document,
    pointer: &str,
    variable: &str,
    ctx: &mut CheckContext<'_>,
) -> Option<WebhookKey> {
    let secret: Option<SecretString> = ctx.secrets.get(variable);
    let Some(secret) = secret else {
        ctx.refuse(file, pointer, format!("`{variable}` is not set"), format!(
            "set it in `.secrets`, or in the engine's environment: `echo {variable}=whsec_$(openssl rand -base64 32) >> .secrets`"
        ));
        return None;
    };
    let key = WebhookKey::parse(secret.expose_secret());
    if key.is_none() && !is_stand_in(&secret) {
        ctx.refuse(
            file,
            pointer,
            format!("`{variable}` holds no key of a webhook"),
            "a key is `whsec_` and 24 to 64 bytes in base64",
        );
    }
    key
}

/// JSON of a webhook, without its keys.
pub fn show(webhook: &Webhook) -> Value {
    let personas: Vec<&str> = webhook.personas.iter().map(PersonaId::as_str).collect();
    json!({
        "name": webhook.name, "url": webhook.url, "private_target": webhook.private_target,
        "secret": "[set]", "previous_secret": (webhook.keys.len() > 1).then_some("[set]"),
        "events": webhook.events, "personas": personas,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_whsec_and_enough_bytes() {
        let of = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
        for (bytes, is_key) in [(23, false), (24, true), (32, true), (64, true), (65, false)] {
            assert_eq!(WebhookKey::parse(&of(bytes)).is_some(), is_key, "{bytes}");
        }
        let bare = STANDARD.encode([7; 32]);
        for text in [bare.as_str(), "whsec_", "whsec_ä", "whsk_AAAA", ""] {
            assert!(WebhookKey::parse(text).is_none(), "{text}");
        }
    }
}
