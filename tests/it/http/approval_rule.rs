//! A rule from a question: it is what the file takes, it decides as it says, and its effects are those of the command line.

use super::site::{Login, Page, Site};
use crate::app::db;
use crate::app::{Workspace, letter};
use crate::approvals::scene::{CONTACT, OWNER, Scene, asks};
use crate::identity::world::STRANGER;
use attache::domain::{Address, Via};
use attache::store::{ApprovalVerdict, ApprovalView};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

const POLICY: &str = "configs/policy.json";

fn attache(workspace: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command.arg("--workspace").arg(workspace).args(args);
    command.output().expect("the binary")
}

/// What the engine's owner has in files, by path.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), Vec::new());
    folders.extend(["configs", "personas"].map(|name| folder.join(name)));
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let bytes = std::fs::read(&path).expect("a file");
                    found.insert(path.to_string_lossy().into_owned(), bytes);
                }
            }
        }
    }
    found
}

/// Questions about the same mail: one rejected, one approved, one without recorded facts, and two open ones, of a contact and of
/// the owner.
async fn answered(site: &Site) -> (ApprovalView, ApprovalView) {
    let scene = &site.scene;
    for (id, verdict) in [
        ("l1", ApprovalVerdict::Reject),
        ("l2", ApprovalVerdict::Approve),
        ("l3", ApprovalVerdict::Reject),
    ] {
        scene.writes(CONTACT, id, "").await;
        let question = scene.only_question().await;
        scene.decide(&question.id, verdict, "").await;
        scene.world.app.drain().await;
        if id == "l3" {
            let forget = "UPDATE thread_tool_events SET payload_json = '{\"args\":{}}'
                WHERE run_id = $1 AND event_type = 'tool_call'";
            let mut rows = scene.world.app.workspace.rows().await;
            let forget = db::query(forget).bind(question.run.as_str());
            assert_eq!(
                forget
                    .execute(&mut rows)
                    .await
                    .expect("a row")
                    .rows_affected(),
                1
            );
        }
    }
    scene.writes(CONTACT, "l4", "").await;
    let of_contact = scene.only_question().await;
    scene.writes(OWNER, "o1", "").await;
    let mut open = scene.open().await;
    open.retain(|question| question.id != of_contact.id);
    assert_eq!(open.len(), 1);
    (of_contact, open.remove(0))
}

/// Ends the listener.
fn closed(site: Site) -> Scene {
    site.scene
}

/// Starts the engine again and has a contact write once more; gives the trace of the run.
async fn once_more(scene: Scene) -> Vec<String> {
    let body = "Tell Eve about Tuesday.";
    let eml = scene.signed(CONTACT, "ada@engine.test", "l9", "", body);
    let app = scene.world.app.restart().await;
    let mut letter = letter(&eml);
    letter.envelope.peer = STRANGER.parse().ok();
    letter.envelope.via = Via::Smtp;
    letter.envelope.helo = "client.test".to_owned();
    letter.envelope.mail_from = Address::parse("sender@evil.test").ok();
    letter.envelope.rcpt_to = vec![Address::parse("ada@engine.test").expect("an address")];
    let accepted = app.engine.intake().accept(letter).await.expect("taken");
    app.drain().await;
    let sql = "SELECT id FROM runs WHERE trigger_message_id = $1";
    let row = app.row(sql, accepted.copies[0].message.as_str()).await;
    app.trace(row[0].as_deref().expect("a run")).await
}

/// The rules of a question by a program that may read, and its page, which change nothing.
async fn proposed(site: &Site, login: &Login, question: &str) -> (Value, Page) {
    let workspace = site.scene.world.app.workspace.path();
    let bearer = format!("Bearer {}", site.key(&["read"]).await);
    let path = format!("/api/v1/approvals/{question}/rule");
    let headers = [("authorization", bearer.as_str())];
    // The use of a key is noted with it.
    let read = site.send(Method::GET, &path, &headers, &[]).await;
    assert_eq!(read.status, 200, "{}", read.body);
    let before = (site.database().await, files(workspace));
    let page = site
        .get(login, &format!("/approvals/{question}/rule"))
        .await;
    let answer = site.get(login, &path).await;
    assert_eq!(page.status, 200, "{}", page.body);
    assert_eq!(answer.body, read.body);
    let after = (site.database().await, files(workspace));
    assert!(before == after, "the page changed the workspace");
    (answer.json(), page)
}

/// What the page says of a rule: the rule itself, its effects, the runs of calls that it decides otherwise, the commands.
fn shows(page: &Page, chosen: &Value, changed: u64) {
    let changes = chosen["changed"].as_array().expect("calls");
    assert_eq!(changes.len() as u64, changed);
    let runs = changes.iter().map(|one| one["run"].as_str());
    let runs = runs.map(|run| format!("href=\"/r/{}\"", run.expect("a run")));
    let words = [
        chosen["rule"]["id"].as_str().expect("an id"),
        "eve@new.test",
        "attache config check",
        "attache policy preview --days 30",
        "1 of 5 calls of 30 days have no recorded facts",
        "configs&#x2f;policy.json",
    ];
    for words in words.map(str::to_owned).into_iter().chain(runs) {
        assert!(page.body.contains(&words), "no {words}: {}", page.body);
    }
}

/// Puts the rule into the file, where it is good and has the effects that were said of it.
fn put_into_the_file(workspace: &Workspace, said: &Value, chosen: &Value) {
    let rule = &chosen["rule"];
    workspace.write_json(POLICY, &json!({ "rules": [rule] }));
    let checked = attache(workspace.path(), &["config", "check"]);
    assert!(checked.status.success(), "{checked:?}");
    let args = ["--json", "policy", "preview", "--days", "30"];
    let previewed = attache(workspace.path(), &args);
    let previewed: Value = serde_json::from_slice(&previewed.stdout).expect("json");
    for name in ["calls", "without_facts"] {
        assert_eq!(previewed[name], said[name], "{name}");
    }
    assert_eq!(previewed["by_rule"], chosen["by_rule"]);
    let id = rule["id"].as_str().expect("an id");
    assert_eq!(previewed["by_rule"][id], chosen["effects"]);
}

/// Takes the rule of this effect from a question; `counts`: the calls that it would have allowed and refused, those decided
/// otherwise then, those of them that it allows and an owner rejected; `end`: of the same call once it is in force.
async fn takes_the_rule(place: usize, effect: &str, counts: [u64; 4], end: &str) {
    let site = Site::start().await;
    let (question, of_owner) = answered(&site).await;
    let login = site.login().await;
    let list = site.get(&login, "/approvals").await.body;
    for id in [&question.id, &of_owner.id] {
        let link = format!("href=\"/approvals/{id}/rule\"");
        assert!(list.contains(&link), "no {link}: {list}");
    }
    let (said, page) = proposed(&site, &login, &question.id).await;
    let chosen = &said["choices"][place];
    let (rule, decides) = (&chosen["rule"], &chosen["decides"]);
    assert_eq!((&rule["effect"], decides), (&json!(effect), &json!(effect)));
    assert_eq!(rule["persona"], "ada");
    assert_eq!(rule["when"]["every_recipient"], json!(["eve@new.test"]));
    let names = ["allow", "deny", "changed", "rejected_then"];
    let found = names.map(|name| chosen["effects"][name].as_u64());
    assert_eq!(found, counts.map(Some), "{chosen:#}");
    shows(&page, chosen, counts[2]);
    put_into_the_file(&site.scene.world.app.workspace, &said, chosen);
    let trace = once_more(closed(site)).await;
    assert_eq!(trace, ["call send_email", end]);
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_rule_that_allows_decides_and_previews_as_its_page_says() {
    // The owner's call as well: who is trusted more is covered.
    takes_the_rule(0, "allow", [4, 0, 4, 1], "ok send_email").await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_rule_that_refuses_decides_and_previews_as_its_page_says() {
    takes_the_rule(1, "deny", [0, 3, 3, 0], "policy_denied send_email").await;
}

#[tokio::test]
async fn a_rule_that_leaves_another_nothing_to_decide_names_it() {
    let rules = json!({ "rules": [{ "id": "see-eve", "effect": "ask", "persona": "ada", "tool": "send_email",
        "when": { "every_recipient": "eve@new.test", "sender": ">=contact", "floor": ">=contact", "trigger": "email",
            "private": false, "audience": "may_read" } }] });
    let site = Site::configured(&asks(), |workspace| workspace.write_json(POLICY, &rules)).await;
    site.scene.writes(CONTACT, "l1", "").await;
    let question = site.scene.only_question().await;
    let login = site.login().await;
    let (said, page) = proposed(&site, &login, &question.id).await;
    let (allow, deny) = (&said["choices"][0], &said["choices"][1]);
    assert_eq!(
        (&allow["shadows"], &deny["shadows"]),
        (&json!(["see-eve"]), &json!([]))
    );
    assert!(
        page.body.contains("these rules never decide"),
        "{}",
        page.body
    );
    let workspace = &site.scene.world.app.workspace;
    for (choice, is_good) in [(allow, false), (deny, true)] {
        let both = json!({ "rules": [choice["rule"], rules["rules"][0]] });
        workspace.write_json(POLICY, &both);
        let checked = attache(workspace.path(), &["config", "check"]);
        assert_eq!(checked.status.success(), is_good, "{checked:?}");
    }
}

#[tokio::test]
async fn what_no_rule_answers_is_refused_with_the_reason() {
    let wants_to_know = json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "ask_owner", "args": { "question": "The blue one?" } }] },
        { "say": "Thank you." },
    ] });
    let says = json!({ "rules": [{ "say": "Yes." }] });
    for (script, reply, words) in [
        (wants_to_know, None, "the persona asks something"),
        (says, Some("draft"), "it is a draft"),
    ] {
        let site = Site::configured(&script, |workspace| {
            if let Some(reply) = reply {
                workspace.set("personas/ada/persona.json", "/reply", json!(reply));
            }
        })
        .await;
        site.scene.writes(CONTACT, "l1", "").await;
        let question = site.scene.only_question().await;
        let login = site.login().await;
        for path in ["/approvals", "/api/v1/approvals"] {
            let answer = site
                .get(&login, &format!("{path}/{}/rule", question.id))
                .await;
            assert_eq!(answer.status, 400, "{}", answer.body);
            assert!(answer.body.contains(words), "no {words}: {}", answer.body);
        }
        let list = site.get(&login, "/approvals").await.body;
        assert!(
            list.contains(&question.id) && !list.contains("/rule\""),
            "{list}"
        );
        let none = site.get(&login, "/approvals/none/rule").await;
        assert_eq!(none.status, 404, "{}", none.body);
    }
}

#[tokio::test]
async fn a_question_whose_call_has_no_recorded_facts_is_refused() {
    let site = Site::start().await;
    let (question, _) = answered(&site).await;
    let login = site.login().await;
    let sql = "SELECT id FROM approvals WHERE run_id = (SELECT run_id FROM thread_tool_events
        WHERE event_type = 'tool_call' AND payload_json = $1)";
    let row = site.scene.world.app.row(sql, "{\"args\":{}}").await;
    let id = row[0].as_deref().expect("a question");
    assert_ne!(id, question.id);
    let answer = site.get(&login, &format!("/approvals/{id}/rule")).await;
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert!(answer.body.contains("no recorded facts"), "{}", answer.body);
}
