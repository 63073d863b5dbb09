//! What a workspace says already, as answers by flag: the defaults of the next run. Lenient: a file that
//! cannot be read says nothing here, and is a problem later.

use super::asker::NONE;
use super::flags::{
    AUTHSERV_ID, BASE_URL, BOUNCE, DOMAIN, HOST_NAME, IMAP_HOST, IMAP_PORT, IMAP_TLS, IMAP_USER,
    IN, IN_FOLDER, LISTEN, MODEL, OUT, OUT_FOLDER, OWNER, PERSONA, PROVIDER, SMTP_HOST, SMTP_PORT,
    SMTP_TLS, SMTP_USER, SetupQuestion,
};
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

/// The name of a persona that is there.
pub fn name(folder: &Path, id: &PersonaId) -> Option<String> {
    text(
        &file(folder, &format!("personas/{id}/persona.json")),
        "/name",
    )
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
        note(answers, IMAP_HOST, text(mailbox, "/host"));
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
