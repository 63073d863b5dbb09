//! What one correspondent is told does not depend on another: with Bob's letters, and without them, the model is asked
//! the same for Carol, byte for byte.

use crate::approvals::scene::{CONTACT, OWNER, Scene};
use serde_json::{Value, json};

/// Mailboxes that the test makes up; `ATTACHE_MAILBOXES` makes it more.
const MAILBOXES: u64 = 12;

/// Reads what it can, writes down what it is told, and answers with all of it.
fn nosy() -> Value {
    json!({ "rules": [
        { "when": { "turn": 0 }, "call": [
            { "tool": "search_email", "args": { "query": "secret" } },
            { "tool": "list_files", "args": {} },
            { "tool": "update_memory", "args": { "append": "{{from}} says {{first_line}}" } },
        ] },
        { "say": "I know: {{result}}" },
    ] })
}

/// A small generator, so that a mailbox is known by its number.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// The requests for Carol in a mailbox of that number; `with_bob`: Bob has written, too.
async fn asked_for_carol(number: u64, with_bob: bool) -> Vec<String> {
    let scene = Scene::with(&nosy(), |workspace| {
        workspace.set(
            "configs/inference.json",
            "/concurrency",
            json!({ "runs_max": 1 }),
        );
    })
    .await;
    let mut numbers = Numbers(number);
    let mut requests = Vec::new();
    for step in 0..8 {
        // The same choices in both worlds.
        let (who, kind) = (numbers.below(5), numbers.below(3));
        let id = format!("m{step}");
        let body = format!("secret {number} {step} of {who}");
        let from = match who {
            0..=1 => CONTACT,
            2 => OWNER,
            _ => "Bob <bob@evil.test>",
        };
        let is_bob = who > 2;
        let more = match kind {
            1 if is_bob => "List-Id: <l.evil.test>\r\n",
            _ => "",
        };
        if is_bob && !with_bob {
            continue;
        }
        let eml = scene.signed(from, "ada@engine.test", &id, more, &body);
        let accepted = scene.deliver(&eml, "ada@engine.test").await.expect("taken");
        scene.world.app.drain().await;
        if from == CONTACT {
            let sql = "SELECT id FROM runs WHERE trigger_message_id = $1";
            let message = accepted.copies[0].message.to_string();
            let run = scene.world.app.row(sql, &message).await[0]
                .clone()
                .expect("a run");
            let prompts = scene.world.app.prompts(&run).await;
            requests.extend(
                prompts
                    .iter()
                    .map(|request| without_ids(&request.to_string())),
            );
        }
    }
    requests
}

/// Ids are random and times pass; what is said does not depend on either.
pub fn without_ids(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | ':' | '.');
    let is_id = |word: &str| word.len() == 36 && word.matches('-').count() == 4;
    let is_time = |word: &str| {
        word.contains(':')
            && word
                .chars()
                .all(|c| c.is_ascii_digit() || "-:.TZ".contains(c))
    };
    let (mut plain, mut word) = (String::new(), String::new());
    for c in text.chars().chain(['\n']) {
        if is_word(c) {
            word.push(c);
            continue;
        }
        plain.push_str(match word.as_str() {
            id if is_id(id) => "ID",
            time if is_time(time) => "AT",
            other => other,
        });
        word.clear();
        plain.push(c);
    }
    plain
}

#[tokio::test]
#[ignore = "second tier"]
async fn nobodys_prompt_depends_on_what_another_wrote() {
    let mailboxes = std::env::var("ATTACHE_MAILBOXES").ok();
    let mailboxes = mailboxes
        .and_then(|count| count.parse().ok())
        .unwrap_or(MAILBOXES);
    let (mut compared, mut with_bob) = (0, 0);
    for number in 0..mailboxes {
        let (without, with) = (
            asked_for_carol(number, false).await,
            asked_for_carol(number, true).await,
        );
        assert_eq!(without, with, "mailbox {number}");
        compared += without.len();
        with_bob += usize::from(with.iter().any(|request| request.contains("carol")));
    }
    assert!(compared > 0 && with_bob > 0, "the mailboxes are empty");
}
