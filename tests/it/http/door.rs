//! A program with a key, which asks while the engine works.

use super::site::{Page, Site};
use crate::app::{TestApp, Workspace, glance};
use reqwest::Client;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

pub struct Door {
    pub site: Site,
    pub secret: String,
    client: Client,
}

impl Door {
    pub async fn start(script: &Value) -> Self {
        Self::prepared(script, |_| {}).await
    }

    pub async fn prepared(script: &Value, prepare: impl FnOnce(&Workspace)) -> Self {
        let site = Site::configured(script, prepare).await;
        Self {
            secret: site.key(&["chat:ada"]).await,
            client: attache::web::http_client()
                .no_proxy()
                .build()
                .expect("a client"),
            site,
        }
    }

    /// Revokes its key.
    pub async fn revoked(&self) {
        let store = &self.app().engine.store;
        let key = store.web_token(&self.secret).await.expect("read");
        let id = key.expect("a key").id;
        assert!(store.revoke_web_token(&id, "cli").await.expect("revoked"));
    }

    pub fn app(&self) -> &TestApp {
        &self.site.scene.world.app
    }

    /// A request that is on its way.
    pub fn sends(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> JoinHandle<Page> {
        let url = format!("{}{path}", self.site.origin());
        let mut request = self.client.post(url).bearer_auth(&self.secret);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.to_string());
        tokio::spawn(async move {
            let answer = request.send().await.expect("an answer");
            Page {
                status: answer.status().as_u16(),
                headers: answer.headers().clone(),
                body: String::from_utf8_lossy(&answer.bytes().await.expect("a body")).into_owned(),
            }
        })
    }

    /// Works until a request is answered.
    pub async fn answer(&self, request: JoinHandle<Page>) -> Page {
        while !request.is_finished() {
            self.app().drain().await;
            glance().await;
        }
        request.await.expect("no panic")
    }

    pub async fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Page {
        self.answer(self.sends(path, headers, body)).await
    }

    pub async fn get(&self, path: &str) -> Page {
        let url = format!("{}{path}", self.site.origin());
        let request = self.client.get(url).bearer_auth(&self.secret);
        let answer = request.send().await.expect("an answer");
        Page {
            status: answer.status().as_u16(),
            headers: answer.headers().clone(),
            body: answer.text().await.expect("a body"),
        }
    }

    /// Asks Ada with this conversation: `user`, `assistant`, `user` and so on.
    pub async fn says(&self, turns: &[&str]) -> Page {
        let body = json!({ "model": "ada", "messages": messages(turns) });
        self.post("/v1/chat/completions", &[], &body).await
    }

    pub async fn count(&self, table: &'static str) -> String {
        let sql = match table {
            "runs" => "SELECT count(*) || '' FROM runs WHERE $1 = ''",
            "requests" => "SELECT count(*) || '' FROM run_turns WHERE $1 = ''",
            other => panic!("{other}"),
        };
        self.app().row(sql, "").await[0].clone().expect("a count")
    }
}

pub fn messages(turns: &[&str]) -> Value {
    let roles = ["user", "assistant"].into_iter().cycle();
    let turns = turns.iter().zip(roles);
    turns
        .map(|(text, role)| json!({ "role": role, "content": text }))
        .collect()
}

/// The text of a completion.
pub fn text(page: &Page) -> String {
    assert_eq!(page.status, 200, "{}", page.body);
    let text = &page.json()["choices"][0]["message"]["content"];
    text.as_str().expect("a text").to_owned()
}

/// The values of a stream, without comments.
pub fn events(body: &str) -> Vec<Value> {
    let lines = body.lines().filter_map(|line| line.strip_prefix("data: "));
    let data = lines.filter(|data| *data != "[DONE]");
    data.map(|data| serde_json::from_str(data).unwrap_or_else(|_| panic!("no JSON: {data}")))
        .collect()
}
