//! Summary of a configuration in five lines: the personas, the inputs of each, the senders that are
//! answered, the model and its price, and the destination of mail.

use crate::config::{
    Access, Config, Decision, MailTls, Mode, ModelChoice, TransportSettings, dollars,
};
use crate::domain::Timestamp;
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum number of personas that the text names; further ones are counted.
const NAMED_MAX: usize = 6;

#[derive(Debug, Serialize)]
pub struct Summary {
    personas: Vec<Lives>,
    comes_in: Vec<String>,
    answered: Vec<String>,
    refused: Vec<String>,
    models: Vec<ModelInUse>,
    /// `null`: no mail leaves.
    goes_out: Option<String>,
    notified: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Lives {
    id: String,
    addresses: Vec<String>,
    /// What becomes of its answers to others, as `reply` in its `persona.json`.
    reply: &'static str,
}

/// A model, its price and its personas.
#[derive(Debug, Serialize)]
struct ModelInUse {
    provider: String,
    model: String,
    /// US dollars per million tokens of input and of output; `null`: unknown.
    usd_per_million: Option<(String, String)>,
    personas: Vec<String>,
}

impl Summary {
    pub fn of(config: &Config, now: Timestamp) -> Self {
        let (answered, refused) = who(&config.security.access, config);
        Self {
            personas: lives(config),
            comes_in: comes_in(config),
            answered,
            refused,
            models: models(config, now),
            goes_out: config
                .gateway
                .outbound
                .as_ref()
                .map(|way| goes_out(config, way)),
            notified: config
                .gateway
                .owners
                .iter()
                .map(ToString::to_string)
                .collect(),
        }
    }

    /// Pairs of a label and its text.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let or = |list: &[String], none: &str| {
            if list.is_empty() {
                none.to_owned()
            } else {
                list.join(", ")
            }
        };
        let lives = self
            .personas
            .iter()
            .map(|persona| persona.addresses.join(", "))
            .collect::<Vec<_>>();
        let models = self.models.iter().map(|used| {
            let price = match &used.usd_per_million {
                Some((input, output)) => format!("${input} in, ${output} out per million tokens"),
                None => "price unknown".to_owned(),
            };
            let whose = if self.models.len() > 1 {
                format!(" for {}", shortened(&used.personas))
            } else {
                String::new()
            };
            format!("{}/{}{whose}, {price}", used.provider, used.model)
        });
        let mut fields = vec![
            ("lives here", shortened(&lives)),
            (
                "comes in",
                or(
                    &self.comes_in,
                    "nowhere: only `attache ingest` brings letters",
                ),
            ),
            ("is answered", or(&self.answered, "nobody")),
        ];
        if !self.refused.is_empty() {
            fields.push(("is refused", self.refused.join(", ")));
        }
        fields.push(("answers", models.collect::<Vec<_>>().join("; ")));
        let goes_out = match &self.goes_out {
            Some(way) => format!("{}, {way}", self.when()),
            None => "nowhere: answers are stored".to_owned(),
        };
        fields.push(("goes out", goes_out));
        fields.push(("is told", or(&self.notified, "nobody")));
        fields
    }
}

impl Summary {
    /// When answers to others leave; with names where personas differ.
    fn when(&self) -> String {
        let mut modes: Vec<(&str, Vec<String>)> = Vec::new();
        for persona in &self.personas {
            match modes.iter_mut().find(|(mode, _)| *mode == persona.reply) {
                Some((_, ids)) => ids.push(persona.id.clone()),
                None => modes.push((persona.reply, vec![persona.id.clone()])),
            }
        }
        let is_one = modes.len() < 2;
        let said = modes.into_iter().map(|(mode, ids)| {
            let when = match mode {
                "draft" => "after your yes",
                "tool_only" => "only by tools",
                _ => "at once",
            };
            match is_one {
                true => when.to_owned(),
                false => format!("{when} from {}", shortened(&ids)),
            }
        });
        said.collect::<Vec<_>>().join("; ")
    }
}

fn shortened(list: &[String]) -> String {
    match list.get(..NAMED_MAX) {
        Some(first) if list.len() > NAMED_MAX => {
            format!("{}, and {} more", first.join(", "), list.len() - NAMED_MAX)
        }
        _ if list.is_empty() => "nobody".to_owned(),
        _ => list.join(", "),
    }
}

fn lives(config: &Config) -> Vec<Lives> {
    let lives = config.personas.iter().map(|persona| Lives {
        id: persona.id.to_string(),
        addresses: persona.addresses().map(ToString::to_string).collect(),
        reply: persona.reply.as_str(),
    });
    lives.collect()
}

fn comes_in(config: &Config) -> Vec<String> {
    let gateway = &config.gateway;
    let listeners = gateway.listeners.iter().map(|listener| {
        let secured = match listener.tls {
            MailTls::None => "without TLS",
            MailTls::StartTls => "STARTTLS",
            MailTls::Implicit => "TLS",
        };
        format!(
            "{} at {} ({secured})",
            listener.kind.as_str().to_uppercase(),
            listener.address
        )
    });
    let pages = gateway.http_listeners.iter().map(|listener| {
        let secured = if listener.is_tls {
            "TLS"
        } else {
            "without TLS"
        };
        format!("pages at {} ({secured})", listener.address)
    });
    let folders = gateway.folders.iter().map(|folder| {
        format!(
            "folder {}",
            folder
                .path
                .strip_prefix(&config.workspace)
                .unwrap_or(&folder.path)
                .display()
        )
    });
    let mailboxes = gateway.mailboxes.iter().map(|mailbox| {
        format!(
            "mailbox {} of {} at {}",
            mailbox.folder, mailbox.user, mailbox.host
        )
    });
    listeners
        .chain(pages)
        .chain(folders)
        .chain(mailboxes)
        .collect()
}

/// Senders that are answered and senders that are refused.
fn who(access: &Access, config: &Config) -> (Vec<String>, Vec<String>) {
    let proven = "if the letter proves who sent it";
    let mut answered = config
        .gateway
        .owners
        .iter()
        .map(|owner| format!("{owner} (owner)"))
        .collect::<Vec<_>>();
    answered.extend(access.allow.iter().cloned());
    match access.default_decision {
        Decision::Allow => answered.push(format!("everybody else, {proven}")),
        Decision::Deny => {}
    }
    let mut refused = access.deny.clone();
    if access.default_decision == Decision::Deny {
        refused.push("everybody else".to_owned());
    }
    if access.mode == Mode::Monitor && !refused.is_empty() {
        refused.push("and all these only in the log, because `mode` is `monitor`".to_owned());
    }
    (answered, refused)
}

fn models(config: &Config, now: Timestamp) -> Vec<ModelInUse> {
    let mut users: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for persona in config.personas.iter() {
        let first = config.inference.choices_for(persona).into_iter().next();
        if let Some(ModelChoice { provider, model }) = first {
            let users = users.entry((provider, model)).or_default();
            users.push(persona.id.to_string());
        }
    }
    let today = now.to_utc().date_naive();
    let price = |provider: &str, model: &str| {
        let rates = config.prices.find(provider, model, today)?;
        Some((usd(rates.input), usd(rates.output)))
    };
    let models = users.into_iter().map(|((provider, model), personas)| {
        let usd_per_million = price(&provider, &model);
        ModelInUse {
            provider,
            model,
            usd_per_million,
            personas,
        }
    });
    models.collect()
}

/// Formats `3.00`, or `0.075` where cents are too coarse.
fn usd(micros: u64) -> String {
    let exact = dollars(i64::try_from(micros).unwrap_or(i64::MAX));
    let cents = exact.find('.').map_or(exact.len(), |point| point + 3);
    let digits = exact.trim_end_matches('0').len().max(cents);
    exact[..digits].to_owned()
}

fn goes_out(config: &Config, way: &TransportSettings) -> String {
    match way {
        TransportSettings::Folder(path) => {
            let path = path.strip_prefix(&config.workspace).unwrap_or(path);
            format!("into the folder {}, and to nobody", path.display())
        }
        TransportSettings::Smarthost(host) => {
            let secured = match host.tls {
                MailTls::None => "without TLS",
                MailTls::StartTls => "STARTTLS",
                MailTls::Implicit => "TLS",
            };
            format!("by {}:{} ({secured})", host.host, host.port)
        }
    }
}
