//! People who trust a persona with secrets, and a stranger who owns the model.

use super::hostile_model::{self, ENEMY, secrets};
use crate::app::db;
use crate::app::rows::unpacked;
use crate::app::{Workspace, letter};
use crate::app::{rows, turns};
use crate::fallback;
use crate::identity::world::{STRANGER, World};
use crate::providers::server::Server;
use attache::domain::{Address, Via};
use attache::gateway::intake_contract::{Accepted, Refusal};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What a careful signer covers; a field that is absent is covered too.
pub const ALL: [&str; 9] = [
    "From",
    "To",
    "Cc",
    "Subject",
    "Date",
    "Message-ID",
    "In-Reply-To",
    "References",
    "Reply-To",
];

pub struct Scene {
    pub world: World,
    _enemy: Server,
}

/// A letter before it is signed.
#[derive(Clone, Default)]
pub struct Draft {
    pub from: String,
    pub to: String,
    pub id: String,
    /// Header lines, each with its line end.
    pub more: String,
    pub body: String,
}

impl Draft {
    pub fn new(from: &str, to: &str, id: &str, body: &str) -> Self {
        Self {
            from: from.into(),
            to: to.into(),
            id: id.into(),
            body: body.into(),
            more: String::new(),
        }
    }

    pub fn with(mut self, line: &str) -> Self {
        self.more.push_str(&format!("{line}\r\n"));
        self
    }

    /// As an answer to those letters, the nearest last.
    pub fn answering(self, ids: &[&str]) -> Self {
        let ids: Vec<String> = ids.iter().map(|id| format!("<{id}@x.test>")).collect();
        let nearest = ids.last().cloned().unwrap_or_default();
        self.with(&format!("In-Reply-To: {nearest}"))
            .with(&format!("References: {}", ids.join(" ")))
    }
}

impl Scene {
    pub async fn start() -> Self {
        Self::with(json!({})).await
    }

    /// `more` are further members of `authentication`.
    pub async fn with(more: Value) -> Self {
        let enemy = hostile_model::start().await;
        let workspace: Workspace = fallback::workspace(&enemy, None);
        workspace.set("configs/inference.json", "/concurrency/runs_max", json!(4));
        workspace.persona("digest", "Digest");
        Self {
            world: World::in_workspace(workspace, more).await,
            _enemy: enemy,
        }
    }

    pub fn unsigned(&self, draft: &Draft) -> String {
        let Draft {
            from,
            to,
            id,
            more,
            body,
        } = draft;
        let date = self.world.now().to_utc().to_rfc2822();
        format!(
            "From: {from}\r\nTo: {to}\r\nSubject: Lunch\r\nMessage-ID: <{id}@x.test>\r\nDate: {date}\r\n{more}\r\n{body}\r\n"
        )
    }

    pub fn signed(&self, domain: &'static str, draft: &Draft, fields: &[&str]) -> String {
        self.world
            .signed_with(domain, &self.unsigned(draft), fields, |signer| signer)
    }

    /// Hands a letter to a persona as a stranger's client would.
    pub async fn deliver(&self, eml: &str, to: &str) -> Result<Accepted, Refusal> {
        let mut letter = letter(eml);
        letter.envelope.peer = STRANGER.parse().ok();
        letter.envelope.via = Via::Smtp;
        letter.envelope.helo = "client.test".to_owned();
        letter.envelope.mail_from = Address::parse("sender@evil.test").ok();
        letter.envelope.rcpt_to = vec![Address::parse(to).expect("an address")];
        self.world.app.engine.intake().accept(letter).await
    }

    /// A letter that its sender signed with care, to Ada.
    pub async fn honest(&self, domain: &'static str, draft: &Draft) -> String {
        let accepted = self
            .deliver(&self.signed(domain, draft, &ALL), "ada@engine.test")
            .await;
        accepted.expect("taken").copies[0].message.to_string()
    }

    pub async fn drain(&self) {
        self.world.app.drain().await;
    }

    /// The secrets that were mailed to an address, or were in front of a model that wrote for it.
    pub async fn told(&self, address: &str) -> BTreeSet<String> {
        let mut rows = self.world.app.workspace.rows().await;
        let mut told = BTreeSet::new();
        let mails =
            "SELECT d.bytes FROM deliveries d JOIN delivery_recipients r ON r.delivery_id = d.id
            WHERE lower(r.recipient) = $1";
        for row in db::query(mails)
            .bind(address)
            .fetch_all(&mut rows)
            .await
            .expect("mails")
        {
            let mail = crate::app::parse(&unpacked(row.get(0)));
            told.extend(secrets(&mail.text));
        }
        let runs = "SELECT r.id FROM runs r JOIN messages m ON m.id = r.trigger_message_id
            WHERE instr(m.sender, $1) > 0";
        let runs = db::query(runs).bind(address).fetch_all(&mut rows);
        for run in runs.await.expect("runs") {
            let store = &self.world.app.engine.store;
            for turn in turns::of_run(store, &mut rows, run.get(0)).await {
                told.extend(secrets(&turn.request_json));
            }
        }
        told
    }

    /// What the enemy was told, without what the enemy's own letters said.
    pub async fn loot(&self) -> Vec<String> {
        let mut loot: BTreeSet<String> = BTreeSet::new();
        for address in [ENEMY, "eve@evil.test", "dana@evil.test", "sender@evil.test"] {
            loot.extend(self.told(address).await);
        }
        loot.into_iter().collect()
    }

    /// Trust, thread and disposition of a message.
    pub async fn outcome(&self, message: &str) -> [String; 3] {
        let sql = "SELECT trust, thread_id, disposition FROM messages WHERE id = $1";
        let row = self.world.app.row(sql, message).await;
        [0, 1, 2].map(|at| row[at].clone().unwrap_or_default())
    }

    /// Lets Mallory be of the company, as if the door had believed it.
    pub async fn without_guard(&self) {
        let mut database = self.world.app.workspace.rows().await;
        rows::participant(&mut database, None, "mallory@evil.test").await;
        let everybody = "UPDATE messages SET readers_json = NULL";
        let changed = db::query(everybody).execute(&mut database).await;
        changed.expect("changed");
    }
}
