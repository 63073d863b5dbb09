//! A workspace in which each action of an owner has something to act on.

use super::site::{ENTRY, Login, Site};
use crate::app::TestApp;
use crate::app::db;
use crate::approvals::scene::CONTACT;
use attache::domain::RunId;
use attache::store::MemoryAct;
use serde_json::json;
use std::collections::BTreeMap;

/// A workspace in which each action has something to act on.
pub struct Lived {
    pub site: Site,
    pub login: Login,
    pub ids: BTreeMap<&'static str, String>,
}

async fn text(app: &TestApp, sql: &'static str) -> String {
    let mut rows = app.workspace.rows().await;
    let found = db::query_scalar::<String>(sql).fetch_one(&mut rows).await;
    found.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

impl Lived {
    pub async fn new() -> Self {
        let script = json!({ "rules": [
            { "when": { "turn": 0, "contains": "Which room" }, "call": [{ "tool": "ask_owner", "args": { "question": "Which?" } }] },
            { "when": { "turn": 0 }, "call": [{ "tool": "send_email", "args":
                { "to": ["eve@new.test"], "subject": "The plan", "body": "We meet on Tuesday." } }] },
            { "say": "It is done, or it is not." },
        ] });
        let site = Site::with(&script).await;
        let mut ids = letters(&site).await;
        ids.extend(duties(&site).await);
        ids.extend(entries(&site).await);
        let login = site.login().await;
        ids.insert("beds_sha256", beds(&site, &login).await);
        let app = &site.scene.world.app;
        let session = "SELECT session_id FROM persona_file_versions LIMIT 1";
        ids.insert("session", text(app, session).await);
        let store = &app.engine.store;
        store.halt(None, "for the test").await.expect("a halt");
        Self { site, login, ids }
    }

    pub fn filled(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        // Longer names first: one may begin another.
        for (name, id) in self.ids.iter().rev() {
            filled = filled.replace(&format!("@{name}"), id);
        }
        filled
    }
}

/// Letters: one whose call waits, one whose question waits, one that was answered, one that was cancelled, one that is filed.
async fn letters(site: &Site) -> BTreeMap<&'static str, String> {
    let (scene, app) = (&site.scene, &site.scene.world.app);
    scene.writes(CONTACT, "answered", "").await;
    scene.approves().await;
    let cancelled = scene.writes(CONTACT, "cancelled", "").await;
    let run = RunId::new(cancelled.clone());
    app.engine.store.request_cancel(&run).await.expect("an end");
    let eml = scene.signed(
        CONTACT,
        "ada@engine.test",
        "asks",
        "",
        "Which room is free?",
    );
    scene.deliver(&eml, "ada@engine.test").await.expect("taken");
    app.drain().await;
    let asked = scene.only_question().await;
    let waiting = scene.writes(CONTACT, "waits", "").await;
    let call = scene.open().await;
    let call = call.iter().find(|one| one.id != asked.id).expect("a call");
    let more = "Auto-Submitted: auto-replied\r\n";
    let eml = scene.signed(CONTACT, "ada@engine.test", "away", more, "I am away.");
    let filed = scene.deliver(&eml, "ada@engine.test").await.expect("taken");
    let mut rows = app.workspace.rows().await;
    let queued = "UPDATE deliveries SET state = 'queued', finished_at = NULL, next_attempt_at = '2099-01-01T00:00:00.000Z'
        WHERE seq = (SELECT min(seq) FROM deliveries);
        UPDATE delivery_recipients SET state = 'queued' WHERE delivery_id = (SELECT id FROM deliveries ORDER BY seq LIMIT 1)";
    db::raw_sql(queued)
        .execute(&mut rows)
        .await
        .expect("a queued mail");
    BTreeMap::from([
        ("call", call.id.clone()),
        ("call_sha256", call.sha256.clone()),
        ("question", asked.id),
        ("question_sha256", asked.sha256),
        ("waiting", waiting),
        ("cancelled", cancelled),
        ("filed", filed.copies[0].message.to_string()),
        (
            "mail",
            text(app, "SELECT id FROM deliveries ORDER BY seq LIMIT 1").await,
        ),
    ])
}

async fn duties(site: &Site) -> BTreeMap<&'static str, String> {
    let app = &site.scene.world.app;
    for name in ["Count", "Rest"] {
        let duty = format!("---\nname: {name}\nschedule: 0 7 * * 1\n---\nCount the kettles.\n");
        let path = format!("personas/ada/responsibilities/{}.md", name.to_lowercase());
        app.workspace.write(&path, &duty);
    }
    let scheduler = app.engine.web_parts().scheduler;
    scheduler.sync().await.expect("the files are read");
    let rows = app.engine.store.responsibilities().await.expect("rows");
    let id = |name: &str| {
        rows.iter()
            .find(|row| row.name == name)
            .expect("a duty")
            .id
            .clone()
    };
    scheduler.pause(&id("Rest")).await.expect("a pause");
    BTreeMap::from([
        ("duty", id("Count").to_string()),
        ("paused", id("Rest").to_string()),
    ])
}

async fn entries(site: &Site) -> BTreeMap<&'static str, String> {
    let (app, now) = (&site.scene.world.app, site.scene.world.now().to_string());
    let remember = "INSERT INTO memory (id, persona_id, scope, scope_key, number, kind, text, text_sha256, status, trust,
          readers_json, audience_json, said_by, said_at, created_at, created_by, confirmed_at)
        VALUES ($1, 'ada', 'contact', 'carol@partner.test', $3, 'fact', $4, $1, $5, 'contact',
          '\"everyone\"', 'null', 'carol@partner.test', $2, $2, 'owner', $2)";
    let mut rows = app.workspace.rows().await;
    for (id, number, words, status) in [
        (ENTRY, 1, "She likes tea.", "active"),
        (
            "0192f0c1-0000-7000-8000-0000000000ab",
            2,
            "She has a dog.",
            "proposed",
        ),
        (
            "0192f0c1-0000-7000-8000-0000000000ac",
            3,
            "She is tall.",
            "active",
        ),
    ] {
        let remember = db::query(remember).bind(id).bind(&now).bind(number);
        let remember = remember.bind(words).bind(status);
        remember.execute(&mut rows).await.expect("an entry");
    }
    let rejected = "0192f0c1-0000-7000-8000-0000000000ac";
    let reject = MemoryAct::Reject {
        why: "no".to_owned(),
    };
    let done = app
        .engine
        .store
        .change_memory(rejected, reject, "uid 0")
        .await;
    done.expect("rejected");
    BTreeMap::from([
        ("entry", ENTRY.to_owned()),
        (
            "proposed",
            "0192f0c1-0000-7000-8000-0000000000ab".to_owned(),
        ),
        ("rejected", rejected.to_owned()),
    ])
}

/// Saves a file twice through its page; gives the digest of what it is now.
async fn beds(site: &Site, login: &Login) -> String {
    let path = "/personas/ada/file";
    let mut base = String::new();
    for text in ["A bed is 40 EUR.", "A bed is 50 EUR."] {
        let form = [
            ("name", "knowledge/beds.md"),
            ("text", text),
            ("base_sha256", base.as_str()),
        ];
        let saved = site.post(login, path, &form).await;
        assert_eq!(saved.status, 303, "{}", saved.body);
        let read = format!("/api/v1{path}?name=knowledge/beds.md");
        let now = site.get(login, &read).await.json();
        base = now["sha256"].as_str().expect("a digest").to_owned();
    }
    base
}
