//! What a workspace says already, as answers by flag: the defaults of the next run. Lenient: a file that
//! cannot be read says nothing here, and is a problem later.

use super::asker::NONE;
use super::flags::{
    AUTHSERV_ID, BASE_URL, BOUNCE, DOMAIN, HOST_NAME, IMAP_HOST, IMAP_PORT, IMAP_TLS, IMAP_USER,
    IN, IN_FOLDER, LISTEN, MAIL_PROVIDER, MODEL, OUT, OUT_FOLDER, OWNER, PERSONA, PROVIDER,
    SMTP_HOST, SMTP_PORT, SMTP_TLS, SMTP_USER, SetupQuestion,
};
use super::rented;
use crate::config::environment;
use crate::domain::PersonaId;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Answers by flag.
type Answers = BTreeMap<&'static str, String>;

/// Reads the answers that the files of a workspace give.
pub fn answers(folder: &Path) -> Answers {
    let mut answers = Answers::new();
    let gateway = file(folder, "configs/gateway.json");
    let inference = file(folder, "configs/inference.json");
    let security = file(folder, "configs/security.json");
    let owners = strings(gateway.pointer("/owners"));
    note(&mut answers, OWNER, Some(owners.join(", ")));
    note(&mut answers, DOMAIN, text(&gateway, "/mail_domain"));
    note(&mut answers, HOST_NAME, text(&gateway, "/host_name"));
    let first = personas(folder).first().map(ToString::to_string);
    note(&mut answers, PERSONA, first);
    way_in(&mut answers, &gateway, &security);
    way_out(&mut answers, &gateway);
    let provider = text(&inference, "/provider");
    if let Some(provider) = &provider {
        let block = &inference["providers"][provider];
        note(&mut answers, BASE_URL, text(block, "/base_url"));
    }
    note(&mut answers, PROVIDER, provider);
    note(&mut answers, MODEL, text(&inference, "/model"));
    answers
}

/// A setting of a persona that is there; `None` without one, an empty text where the persona has not got it.
pub fn of_persona(folder: &Path, id: &PersonaId, key: &str) -> Option<String> {
    let settings = file(folder, &format!("personas/{id}/persona.json"));
    let settings = settings.as_object()?;
    let value = settings.get(key).and_then(Value::as_str);
    Some(value.unwrap_or_default().to_owned())
}

/// Reports whether a workspace takes letters out of a mailbox.
pub fn has_mailbox(folder: &Path) -> bool {
    let gateway = file(folder, "configs/gateway.json");
    items(gateway.pointer("/mailboxes")).next().is_some()
}

/// The time zone of this machine, by the variable `TZ` or by the file to which `/etc/localtime` is a link.
pub fn zone_of_machine() -> Option<String> {
    let link = std::fs::read_link("/etc/localtime").ok();
    let link = link.as_ref().and_then(|path| path.to_str());
    let linked = link.and_then(|path| path.split_once("zoneinfo/"));
    let named = environment("TZ").map(|name| name.trim_start_matches(':').to_owned());
    let zones = [named, linked.map(|(_, zone)| zone.to_owned())];
    let is_zone = |zone: &String| zone.parse::<chrono_tz::Tz>().is_ok();
    zones.into_iter().flatten().find(is_zone)
}

/// The personas of a workspace that have settings.
fn personas(folder: &Path) -> Vec<PersonaId> {
    let entries = std::fs::read_dir(folder.join("personas"));
    let entries = entries.into_iter().flatten().flatten();
    let there = entries.filter(|entry| entry.path().join("persona.json").is_file());
    let names = there.filter_map(|entry| entry.file_name().into_string().ok());
    let mut ids: Vec<PersonaId> = names
        .filter_map(|name| PersonaId::parse(&name).ok())
        .collect();
    ids.sort();
    ids
}

fn way_in(answers: &mut Answers, gateway: &Value, security: &Value) {
    let listener = items(gateway.pointer("/listeners")).find(|listener| listener["kind"] != "http");
    let mut authserv_id = text(security, "/authentication/trusted_relays/0/authserv_id");
    if let Some(mailbox) = items(gateway.pointer("/mailboxes")).next() {
        note(answers, IN, Some("imap".to_owned()));
        let host = text(mailbox, "/host");
        note(answers, MAIL_PROVIDER, host.as_deref().map(rented::name_of));
        note(answers, IMAP_HOST, host);
        note(answers, IMAP_PORT, number(mailbox, "/port"));
        note(answers, IMAP_TLS, text(mailbox, "/tls"));
        note(answers, IMAP_USER, text(mailbox, "/user"));
        authserv_id = text(mailbox, "/authserv_id");
    } else if let Some(listener) = listener {
        let kind = text(listener, "/kind").unwrap_or_else(|| "smtp".to_owned());
        note(answers, IN, Some(kind));
        note(answers, LISTEN, text(listener, "/address"));
    } else if let Some(watched) = items(gateway.pointer("/folders")).next() {
        note(answers, IN, Some("folder".to_owned()));
        note(answers, IN_FOLDER, text(watched, "/path"));
    }
    note(answers, AUTHSERV_ID, authserv_id);
}

fn way_out(answers: &mut Answers, gateway: &Value) {
    let Some(outbound) = gateway.get("outbound") else {
        return;
    };
    note(answers, OUT, text(outbound, "/kind"));
    note(answers, OUT_FOLDER, text(outbound, "/path"));
    note(answers, SMTP_HOST, text(outbound, "/host"));
    note(answers, SMTP_PORT, number(outbound, "/port"));
    note(answers, SMTP_TLS, text(outbound, "/tls"));
    if outbound["kind"] == "smarthost" {
        let user = text(outbound, "/user").unwrap_or_else(|| NONE.to_owned());
        note(answers, SMTP_USER, Some(user));
    }
    note(answers, BOUNCE, text(outbound, "/bounce_address"));
}

fn note(answers: &mut Answers, question: SetupQuestion, answer: Option<String>) {
    if let Some(answer) = answer.filter(|answer| !answer.is_empty()) {
        answers.insert(question.flag, answer);
    }
}

fn file(folder: &Path, path: &str) -> Value {
    let text = std::fs::read_to_string(folder.join(path)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

fn text(value: &Value, pointer: &str) -> Option<String> {
    value.pointer(pointer)?.as_str().map(str::to_owned)
}

fn number(value: &Value, pointer: &str) -> Option<String> {
    value
        .pointer(pointer)?
        .as_u64()
        .map(|number| number.to_string())
}

fn strings(list: Option<&Value>) -> Vec<&str> {
    items(list).filter_map(Value::as_str).collect()
}

fn items(list: Option<&Value>) -> impl Iterator<Item = &Value> {
    list.and_then(Value::as_array).into_iter().flatten()
}
