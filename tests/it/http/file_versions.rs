//! What a persona's files were before: each replacement keeps what it replaced, an editor on the machine is seen, and the way
//! back passes every guard of the way there.

use super::site::{Login, Page, Site};
use crate::app::db;
use attache::store::PowerCut;
use attache::store::files::persona_file_versions::VERSIONS_MAX;
use attache::store::gc::KINDS;
use reqwest::Method;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

const API: &str = "/api/v1/personas/ada/file";

/// An owner at the API of a site.
struct Owner {
    site: Site,
    login: Login,
}

impl Owner {
    async fn start() -> Self {
        let site = Site::start().await;
        let login = site.login().await;
        Self { site, login }
    }

    fn path(&self, name: &str) -> PathBuf {
        let workspace = self.site.scene.world.app.workspace.path();
        workspace.join("personas/ada").join(name)
    }

    fn on_disk(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("a file")
    }

    async fn get(&self, path: &str) -> Page {
        self.site.get(&self.login, path).await
    }

    async fn post(&self, path: &str, body: &Value) -> Page {
        let origin = self.site.origin();
        let headers = [
            ("cookie", self.login.cookie.as_str()),
            ("origin", origin.as_str()),
            ("x-form-token", self.login.form_token.as_str()),
        ];
        self.site.json(Method::POST, path, &headers, body).await
    }

    async fn history(&self, name: &str) -> Value {
        let answer = self.get(&format!("{API}/versions?name={name}")).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()
    }

    async fn base(&self, name: &str) -> Value {
        self.history(name).await["sha256"].clone()
    }

    async fn save(&self, name: &str, text: &str) -> Page {
        let body = json!({ "name": name, "text": text, "base_sha256": self.base(name).await });
        let saved = self.post(API, &body).await;
        assert_eq!(saved.status, 200, "{}", saved.body);
        saved
    }

    async fn restore(&self, name: &str, version: &Value, base: &Value) -> Page {
        let version = version.to_string();
        let body = json!({ "name": name, "version": version, "base_sha256": base });
        self.post(&format!("{API}/restore"), &body).await
    }

    /// Stores a version as no save of a page makes one.
    async fn plant(&self, name: &str, text: &str) -> Value {
        let sql = "INSERT INTO persona_file_versions
              (persona_id, name, bytes, sha256, replaced_at, replaced_by, replaced_with, text)
            VALUES ('ada', $1, 1, 'x', '2026-11-02T09:00:00.000Z', 'uid 0', 'y', $2) RETURNING seq";
        let mut rows = self.site.scene.world.app.workspace.rows().await;
        let planted = db::query_scalar(sql).bind(name).bind(text);
        let planted: i64 = planted.fetch_one(&mut rows).await.expect("planted");
        json!(planted)
    }
}

fn versions(history: &Value) -> &Vec<Value> {
    history["versions"].as_array().expect("versions")
}

#[tokio::test]
async fn each_replacement_keeps_what_it_replaced_and_any_of_it_comes_back() {
    let owner = Owner::start().await;
    let name = "PERSONA.md";
    let first = owner.on_disk(name);
    owner.save(name, "You are Ada.\nBe brief.\n").await;
    owner.save(name, "You are Ada.\nBe long.\n").await;
    let history = owner.history(name).await;
    assert_eq!(history["changed_outside"], false);
    let [second, oldest] = versions(&history).as_slice() else {
        panic!("{history}");
    };
    assert_eq!(oldest["replaced_with"], second["sha256"]);
    assert_eq!(second["replaced_with"], history["sha256"]);
    assert_eq!(second["changed_outside"], false);
    assert_eq!(oldest["replaced_by"], "uid 0");
    assert!(oldest["session"].is_string(), "{oldest}");
    let kept = format!("{API}/version?name={name}&version={}", oldest["version"]);
    assert_eq!(owner.get(&kept).await.json()["text"], first);
    let page = format!("/personas/ada/file/versions?name={name}");
    let between = format!(
        "{page}&version={}&with={}",
        oldest["version"], second["version"]
    );
    let between = owner.get(&between).await;
    assert!(
        between.body.contains("<ins>+ Be brief.</ins>"),
        "{}",
        between.body
    );
    let to_now = format!("{page}&version={}", second["version"]);
    let to_now = owner.get(&to_now).await;
    assert!(
        to_now.body.contains("<del>- Be brief.</del>")
            && to_now.body.contains("<ins>+ Be long.</ins>"),
        "{}",
        to_now.body
    );
    // By the form of the page.
    let version = oldest["version"].to_string();
    let base = history["sha256"].as_str().expect("a digest").to_owned();
    let form = [
        ("name", name),
        ("version", version.as_str()),
        ("base_sha256", base.as_str()),
    ];
    let restored = owner
        .site
        .post(&owner.login, "/personas/ada/file/restore", &form);
    let restored = restored.await;
    assert_eq!(restored.status, 303, "{}", restored.body);
    assert_eq!(owner.on_disk(name), first);
    // What it replaced is kept, too.
    let newest = &versions(&owner.history(name).await)[0].clone();
    let base = owner.base(name).await;
    let back = owner.restore(name, &newest["version"], &base).await;
    assert_eq!(back.status, 200);
    assert_eq!(owner.on_disk(name), "You are Ada.\nBe long.\n");
}

#[tokio::test]
async fn an_editor_on_the_machine_is_seen_by_the_digest() {
    let owner = Owner::start().await;
    let name = "knowledge/prices.md";
    let history = owner.history(name).await;
    assert_eq!(
        (&history["sha256"], history["changed_outside"].clone()),
        (&json!(""), json!(false))
    );
    owner.save(name, "A bed is 40 EUR.\n").await;
    std::fs::write(owner.path(name), "By vi.\n").expect("written");
    let history = owner.history(name).await;
    assert_eq!(history["changed_outside"], true, "{history}");
    let page = owner
        .get("/personas/ada/file/versions?name=knowledge%2Fprices.md")
        .await;
    assert!(
        page.body.contains("changed it on the machine"),
        "{}",
        page.body
    );
    owner.save(name, "A bed is 50 EUR.\n").await;
    let history = owner.history(name).await;
    assert_eq!(history["changed_outside"], false);
    let [by_vi, nothing] = versions(&history).as_slice() else {
        panic!("{history}");
    };
    assert_eq!(by_vi["changed_outside"], true);
    assert_eq!(nothing["sha256"], "", "there was no file");
    let gone = owner
        .restore(name, &nothing["version"], &history["sha256"])
        .await;
    assert_eq!(gone.status, 404, "a version without a file is no text");
    let back = owner
        .restore(name, &by_vi["version"], &history["sha256"])
        .await;
    assert_eq!(back.status, 200, "{}", back.body);
    assert_eq!(owner.on_disk(name), "By vi.\n");
    // A file that was removed on the machine comes back as well.
    std::fs::remove_file(owner.path(name)).expect("removed");
    let back = owner.restore(name, &by_vi["version"], &json!("")).await;
    assert_eq!(back.status, 200, "{}", back.body);
    assert_eq!(owner.on_disk(name), "By vi.\n");
}

#[tokio::test]
async fn what_may_not_be_edited_may_not_be_restored() {
    let owner = Owner::start().await;
    let name = "PERSONA.md";
    owner.save(name, "Be brief.\n").await;
    let history = owner.history(name).await;
    let version = versions(&history)[0]["version"].clone();
    let stale = owner.restore(name, &version, &json!("0".repeat(64))).await;
    assert_eq!(stale.status, 409, "somebody has changed it meanwhile");
    let form = [
        ("name", name),
        ("version", &*version.to_string()),
        ("base_sha256", "0"),
    ];
    let stale = owner
        .site
        .post(&owner.login, "/personas/ada/file/restore", &form);
    let stale = stale.await;
    assert_eq!(stale.status, 409);
    assert!(
        stale.body.contains("<del>- Be brief.</del>"),
        "{}",
        stale.body
    );
    assert_eq!(owner.on_disk(name), "Be brief.\n");
    for (other, text) in [
        ("persona.json", "{}"),
        ("../bob/PERSONA.md", "x"),
        ("knowledge/x.sh", "x"),
    ] {
        let planted = owner.plant(other, text).await;
        let refused = owner.restore(other, &planted, &json!("")).await;
        assert_eq!(refused.status, 400, "{other}: {}", refused.body);
    }
    assert!(owner.on_disk("persona.json").len() > 2);
    // A duty that could not be read is not brought back.
    let duty = "responsibilities/week.md";
    let broken = "---\nname: Week\nschedule: never\n---\nHi";
    let planted = owner.plant(duty, broken).await;
    let refused = owner.restore(duty, &planted, &json!("")).await;
    assert_eq!(refused.status, 400);
    assert!(refused.body.contains("line 3"), "{}", refused.body);
    assert!(!owner.path(duty).exists());
    // A number of another file, or of another persona, is none.
    let base = owner.base("active.md").await;
    let foreign = owner.restore("active.md", &version, &base).await;
    assert_eq!(foreign.status, 404);
    // A file that has become a link is not written through.
    let secret = owner.path("../../configs/gateway.json");
    let before = std::fs::read_to_string(&secret).expect("a file");
    std::fs::remove_file(owner.path(name)).expect("removed");
    std::os::unix::fs::symlink(&secret, owner.path(name)).expect("a link");
    let refused = owner.restore(name, &version, &history["sha256"]).await;
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert_eq!(std::fs::read_to_string(&secret).expect("a file"), before);
}

#[tokio::test]
#[ignore = "second tier"]
async fn versions_are_bounded_in_number_and_bytes_and_by_age() {
    let owner = Owner::start().await;
    let most = usize::try_from(VERSIONS_MAX).expect("a number");
    for number in 0..most + 5 {
        owner.save("active.md", &format!("Text {number}\n")).await;
    }
    let history = owner.history("active.md").await;
    assert_eq!(versions(&history).len(), most);
    let oldest = versions(&history)[most - 1]["version"].to_string();
    let oldest = format!("{API}/version?name=active.md&version={oldest}");
    assert_eq!(owner.get(&oldest).await.json()["text"], "Text 4\n");
    for number in 0..12 {
        let text = format!("{number}").repeat(200_000);
        let text: String = text.chars().take(200_000).collect();
        owner.save("knowledge/long.md", &text).await;
    }
    let long = owner.history("knowledge/long.md").await;
    let bytes: i64 = versions(&long)
        .iter()
        .filter_map(|one| one["bytes"].as_i64())
        .sum();
    assert_eq!((versions(&long).len(), bytes), (10, 2_000_000));
    assert_eq!(
        versions(&owner.history("active.md").await).len(),
        most,
        "others stay"
    );
    let app = &owner.site.scene.world.app;
    app.workspace.clock.advance(Duration::from_secs(3600));
    let kind = KINDS.iter().find(|kind| kind.name == "versions");
    let now = app.engine.store.clock().now();
    let pruned = app
        .engine
        .store
        .prune_kind(kind.expect("a kind"), now, false);
    let pruned = pruned.await.expect("pruned");
    assert_eq!(pruned.rows, most as u64 + 10);
    assert!(versions(&owner.history("active.md").await).is_empty());
}

#[tokio::test]
async fn a_save_that_came_too_late_keeps_nothing() {
    let owner = Owner::start().await;
    let base = owner.base("PERSONA.md").await;
    let bodies: Vec<Value> = (0..20)
        .map(|n| json!({ "name": "PERSONA.md", "text": format!("Text {n}"), "base_sha256": base }))
        .collect();
    let saves = bodies.iter().map(|body| owner.post(API, body));
    let answers = futures_util::future::join_all(saves).await;
    let won = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(won, 1);
    assert_eq!(versions(&owner.history("PERSONA.md").await).len(), 1);
    // Nor does one that changes nothing.
    owner.save("PERSONA.md", &owner.on_disk("PERSONA.md")).await;
    assert_eq!(versions(&owner.history("PERSONA.md").await).len(), 1);
}

#[tokio::test]
async fn the_ends_of_lines_of_a_version_come_back_as_they_were() {
    let owner = Owner::start().await;
    let dos = "One\r\nTwo\r\n";
    std::fs::write(owner.path("active.md"), dos).expect("written");
    owner.save("active.md", "One\nThree\n").await;
    assert_eq!(
        owner.on_disk("active.md"),
        "One\r\nThree\r\n",
        "as the file had them"
    );
    std::fs::write(owner.path("active.md"), "One\nFour\n").expect("written");
    let history = owner.history("active.md").await;
    let version = &versions(&history)[0]["version"];
    let back = owner
        .restore("active.md", version, &history["sha256"])
        .await;
    assert_eq!(back.status, 200, "{}", back.body);
    assert_eq!(owner.on_disk("active.md"), dos);
}

/// The power goes after the version is stored, and after all.
#[tokio::test]
async fn no_text_is_lost_when_the_power_goes_between_version_and_file() {
    for commit in 1..=2 {
        let owner = Owner::start().await;
        let (name, before) = ("PERSONA.md", owner.on_disk("PERSONA.md"));
        let base = owner.base(name).await;
        let store = &owner.site.scene.world.app.engine.store;
        store.cut_power(PowerCut::AfterCommit(commit));
        let body = json!({ "name": name, "text": "Be brief.\n", "base_sha256": base });
        let _torn = owner.post(API, &body).await;
        let mut rows = owner.site.scene.world.app.workspace.rows().await;
        let kept = db::query_scalar("SELECT text FROM persona_file_versions");
        let kept: String = kept.fetch_one(&mut rows).await.expect("a version");
        assert_eq!(kept, before, "commit {commit}");
    }
}
