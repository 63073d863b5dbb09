//! `webhooks` in `configs/gateway.json`: addresses of other programs that are told what happens.

use crate::config::secrets::is_stand_in;
use crate::config::values::net::web_url;
use crate::config::values::section::*;
use crate::domain::{PersonaId, WebhookEvent};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret, SecretSlice};

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
pub(super) fn resolve(typed: &[TypedWebhook], place: &mut CheckPlace<'_, '_>) -> Vec<Webhook> {
    if typed.len() > WEBHOOKS_MAX {
        let message = format!("has more than {WEBHOOKS_MAX}");
        place.refuse("", message, "let one program tell the others");
    }
    let mut webhooks: Vec<Webhook> = Vec::new();
    for (index, one) in typed.iter().take(WEBHOOKS_MAX).enumerate() {
        let (place, name) = (&mut place.under(index), &one.name);
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(is_plain) {
            let hint = "write up to 40 small letters, digits and `-`";
            place.refuse("name", format!("`{name}` is no name"), hint);
        }
        if webhooks.iter().any(|other| other.name == *name) {
            let message = format!("two webhooks are called `{name}`");
            place.refuse(
                "name",
                message,
                "give each a name of its own: records name it",
            );
        }
        check_url(one, place);
        let variables = [
            ("secret_variable", Some(&one.secret_variable)),
            (
                "previous_secret_variable",
                one.previous_secret_variable.as_ref(),
            ),
        ];
        let keys = variables
            .into_iter()
            .filter_map(|(path, variable)| key(path, variable?, place));
        let keys = keys.collect();
        webhooks.push(Webhook {
            name: name.clone(),
            url: one.url.clone(),
            private_target: one.private_target,
            keys,
            events: one.events.clone(),
            personas: place.personas(&one.personas),
        });
    }
    webhooks
}

fn check_url(one: &TypedWebhook, place: &mut CheckPlace<'_, '_>) {
    let url = &one.url;
    let (message, hint) = match web_url(url) {
        None => (
            format!("`{url}` is no address of the web"),
            "write `https://`, a host and a path",
        ),
        Some(url) if !url.username().is_empty() || url.password().is_some() => (
            "an address with a user name or a password is not called".to_owned(),
            "the signature proves who calls; leave them out",
        ),
        Some(_) if one.private_target => return,
        Some(parsed) if parsed.scheme() != "https" => (
            format!("`{url}` would be told in plain text"),
            "use `https`, or say `\"private_target\": true` of an address in a private network",
        ),
        Some(parsed) if parsed.port_or_known_default() != Some(443) => (
            format!("`{url}` is at another port than 443"),
            "use port 443, or say `\"private_target\": true` of an address in a private network",
        ),
        Some(_) => return,
    };
    place.refuse("url", message, hint);
}

fn key(path: &str, variable: &str, place: &mut CheckPlace<'_, '_>) -> Option<WebhookKey> {
    let hint = format!(
        "set it in `.secrets`, or in the engine's environment: `echo {variable}=whsec_$(openssl rand -base64 32) >> .secrets`"
    );
    let secret = place.secret_or(path, variable, format!("`{variable}` is not set"), hint)?;
    let key = WebhookKey::parse(secret.expose_secret());
    if key.is_none() && !is_stand_in(&secret) {
        let message = format!("`{variable}` holds no key of a webhook");
        place.refuse(
            path,
            message,
            "a key is `whsec_` and 24 to 64 bytes in base64",
        );
    }
    key
}

/// JSON of a webhook, without its keys.
pub fn show(webhook: &Webhook) -> Value {
    json!({
        "name": webhook.name, "url": webhook.url, "private_target": webhook.private_target,
        "secret": "[set]", "previous_secret": (webhook.keys.len() > 1).then_some("[set]"),
        "events": webhook.events, "personas": webhook.personas,
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
