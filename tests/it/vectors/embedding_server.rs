//! A loopback server of OpenAI's form whose vectors are topics: words of one topic are near each other, as synonyms are for a
//! real model. It refuses what is not in the form.

use crate::providers::server::{Reply, Server, Then};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// Words that mean the same.
const TOPICS: [&[&str]; 4] = [
    &["boiler", "heating", "radiator", "furnace", "warmth"],
    &["invoice", "bill", "payment", "paid"],
    &["holiday", "vacation", "trip", "travel"],
    &["house", "roof", "garden", "fence"],
];
/// Numbers of a vector: one for each topic, and those in which other words are counted.
pub const DIMENSIONS: usize = 16;

/// What the server does with a sound request.
#[derive(Clone, Copy, PartialEq)]
pub enum Mood {
    Answers,
    /// Answers with this status.
    Refuses(u16),
    /// Never answers.
    Silent,
    /// Refuses requests that have this many texts or more.
    TakesFewerThan(usize),
}

pub struct EmbeddingServer {
    server: Server,
    mood: Arc<Mutex<Mood>>,
}

impl EmbeddingServer {
    pub async fn start() -> Self {
        let mood = Arc::new(Mutex::new(Mood::Answers));
        let current = mood.clone();
        let server = Server::answering(move |seen, _| {
            let mood = *current.lock().expect("no test panicked here");
            let texts = texts_in(&seen.body);
            let is_sound = seen.head.starts_with("POST /v1/embeddings ") && texts.is_some();
            let texts = texts.unwrap_or_default();
            match mood {
                _ if !is_sound => refusal(400),
                Mood::Refuses(status) => refusal(status),
                Mood::TakesFewerThan(most) if texts.len() >= most => refusal(400),
                Mood::Silent => Reply {
                    bytes: Vec::new(),
                    then: Then::Hold,
                },
                Mood::Answers | Mood::TakesFewerThan(_) => answer(&texts),
            }
        })
        .await;
        Self { server, mood }
    }

    pub fn url(&self) -> &str {
        &self.server.url
    }

    pub fn set(&self, mood: Mood) {
        *self.mood.lock().expect("no test panicked here") = mood;
    }

    /// The texts of each request.
    pub fn asked(&self) -> Vec<Vec<String>> {
        let seen = self.server.seen();
        seen.iter()
            .map(|seen| texts_in(&seen.body).expect("a sound request"))
            .collect()
    }
}

/// The texts of a request in the form; `None`: it is in another.
fn texts_in(body: &str) -> Option<Vec<String>> {
    let body: Value = serde_json::from_str(body).ok()?;
    let known = ["model", "input", "encoding_format", "dimensions"];
    let is_known = body
        .as_object()?
        .keys()
        .all(|key| known.contains(&key.as_str()));
    let texts: Vec<String> = serde_json::from_value(body["input"].clone()).ok()?;
    let is_sound = is_known && body["model"] == "topics" && body["encoding_format"] == "float";
    (is_sound && (1..=64).contains(&texts.len()) && texts.iter().all(|text| !text.is_empty()))
        .then_some(texts)
}

fn refusal(status: u16) -> Reply {
    let body = json!({"error": {"message": "not now", "type": "invalid_request_error"}});
    Reply::new(
        status,
        &[("content-type", "application/json")],
        &body.to_string(),
    )
}

fn answer(texts: &[String]) -> Reply {
    let item = |(index, text): (usize, &String)| json!({"object": "embedding", "index": index, "embedding": vector(text)});
    // The order says nothing.
    let data: Vec<Value> = texts.iter().enumerate().rev().map(item).collect();
    let tokens: usize = texts
        .iter()
        .map(|text| text.split_whitespace().count())
        .sum();
    let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens});
    let body = json!({"object": "list", "data": data, "model": "topics", "usage": usage});
    Reply::new(
        200,
        &[("content-type", "application/json")],
        &body.to_string(),
    )
}

/// The vector of a text, of any length but 0.
pub fn vector(text: &str) -> Vec<f32> {
    let mut vector = vec![0.001; DIMENSIONS];
    let words = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty());
    for word in words.map(str::to_lowercase) {
        match TOPICS
            .iter()
            .position(|topic| topic.contains(&word.as_str()))
        {
            Some(topic) => vector[topic] += 3.0,
            None => {
                let place = word
                    .bytes()
                    .fold(7usize, |sum, byte| sum * 31 % 1009 + usize::from(byte));
                vector[TOPICS.len() + place % (DIMENSIONS - TOPICS.len())] += 0.3;
            }
        }
    }
    vector
}
