//! What rules would have decided, against a brute-force decision by the facts of each call.

use crate::app::Workspace;
use crate::approvals::scene::{CONTACT, OWNER, Scene};
use attache::policy::{
    CallFacts, PolicyCall, PolicyEffect, PolicyRule, by_table, read_condition, shadow_of,
};
use attache::replay::policy_preview::{judged, preview, recorded_calls, sum_up};
use attache::store::{ApprovalVerdict, JudgedCallRow};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[tokio::test]
async fn a_preview_says_what_rules_would_have_allowed_and_what_of_it_was_rejected() {
    let scene = Scene::start().await;
    for (from, id) in [(CONTACT, "a"), (CONTACT, "b"), (OWNER, "c")] {
        scene.writes(from, id, "").await;
    }
    let open = scene.open().await;
    let of_carol: Vec<_> = open
        .iter()
        .filter(|q| q.view.contains("sender is contact"))
        .collect();
    assert_eq!(of_carol.len(), 2);
    scene
        .decide(&of_carol[0].id, ApprovalVerdict::Reject, "")
        .await;
    scene
        .decide(&of_carol[1].id, ApprovalVerdict::Approve, "")
        .await;
    scene.world.app.drain().await;
    let workspace = &scene.world.app.workspace;
    let rule = json!({ "id": "new", "effect": "allow", "tool": "send_email", "when": { "sender": "contact" } });
    workspace.write_json("configs/policy.json", &json!({ "rules": [rule] }));
    let names = attache::cli::name_catalog();
    let changed = attache::config::load(workspace.path(), &names).expect("a good configuration");
    let store = &scene.world.app.engine.store;
    let since = attache::domain::Timestamp::from_millis(0);
    let (calls, without) = recorded_calls(store, since).await.expect("calls");
    let found = sum_up(&preview(&changed, &calls), without);
    assert_eq!((found.calls, found.without_facts), (3, 0));
    let new = &found.by_rule["new"];
    assert_eq!((new.allow, new.changed, new.rejected_then), (2, 2, 1));
    assert_eq!(found.by_rule["table"].ask, 1);
}

fn any_rule() -> impl Strategy<Value = Value> {
    let effect = prop::sample::select(vec!["allow", "ask", "deny"]);
    let tool = prop::sample::select(vec![
        json!(null),
        json!("send_email"),
        json!("read_*"),
        json!(["update_memory", "send_email"]),
    ]);
    let key = prop::sample::select(vec![
        ("sender", json!("contact")),
        ("floor", json!(">=contact")),
        ("recipients", json!(["outside", "allowed"])),
        ("recipient", json!("*@x.test")),
        ("every_recipient", json!("*@x.test")),
        ("mails", json!("<2")),
        ("private", json!(true)),
        ("hour", json!("8..17")),
    ]);
    (
        effect,
        tool,
        prop::collection::vec(key, 0..3),
        prop::option::of(0_u64..4),
    )
        .prop_map(|(effect, tool, keys, uses)| {
            let when: BTreeMap<_, _> = keys.into_iter().collect();
            json!({ "effect": effect, "tool": tool, "when": when, "uses_max": uses })
        })
}

fn any_call() -> impl Strategy<Value = Value> {
    (
        prop::sample::select(vec!["send_email", "read_file", "update_memory"]),
        prop::sample::select(vec!["unauthenticated", "unknown", "contact", "owner"]),
        prop::sample::select(vec!["unauthenticated", "contact", "owner"]),
        prop::sample::select(vec!["owners", "in_thread", "allowed", "outside"]),
        prop::collection::vec(prop::sample::select(vec!["a@x.test", "b@y.test"]), 0..3),
        0_u32..4,
        any::<bool>(),
        0_u32..24,
    )
        .prop_map(|(tool, sender, floor, recipients, recipient, mails, private, hour)| {
            json!({ "tool": tool, "facts": { "sender": sender, "floor": floor, "recipients": recipients,
                "recipient": recipient, "mails": mails, "private": private, "hour": hour } })
        })
}

/// The rule that decides, found the slow way: every condition spelled out.
fn brute_force(rules: &[Value], call: &Value, uses: &mut [u64]) -> (String, Option<usize>) {
    let facts = &call["facts"];
    let level = |text: &str| {
        ["unauthenticated", "unknown", "contact", "owner", "system"]
            .iter()
            .position(|l| *l == text)
            .expect("a level")
    };
    let holds = |key: &str, typed: &Value| match key {
        "sender" => facts["sender"] == "contact",
        "floor" => level(facts["floor"].as_str().expect("a level")) >= level("contact"),
        "recipients" => typed
            .as_array()
            .expect("a list")
            .contains(&facts["recipients"]),
        "recipient" => facts["recipient"]
            .as_array()
            .expect("a list")
            .contains(&json!("a@x.test")),
        "every_recipient" => {
            let all = facts["recipient"].as_array().expect("a list");
            !all.is_empty() && all.iter().all(|one| one == "a@x.test")
        }
        "mails" => facts["mails"].as_u64().expect("a number") < 2,
        "private" => facts["private"] == true,
        _ => (8..=17).contains(&facts["hour"].as_u64().expect("a number")),
    };
    let concerns = |tool: &Value| match tool {
        Value::Null => true,
        Value::Array(tools) => tools.contains(&call["tool"]),
        Value::String(tool) if tool == "read_*" => call["tool"] == "read_file",
        tool => *tool == call["tool"],
    };
    let recorded: CallFacts = serde_json::from_value(facts.clone()).expect("facts");
    let table = by_table(&recorded);
    for (place, rule) in rules.iter().enumerate() {
        let matches = concerns(&rule["tool"])
            && rule["when"]
                .as_object()
                .expect("conditions")
                .iter()
                .all(|(key, typed)| holds(key, typed));
        let is_used_up = rule["uses_max"]
            .as_u64()
            .is_some_and(|max| uses[place] >= max);
        if !matches || is_used_up {
            continue;
        }
        let order = ["allow", "ask", "deny"];
        let rank = |effect: &str| {
            order
                .iter()
                .position(|one| *one == effect)
                .expect("an effect")
        };
        let effect = rule["effect"].as_str().expect("an effect");
        let is_wider = rank(effect) < rank(table.decision.effect.as_str());
        if is_wider && !table.is_widenable {
            break;
        }
        uses[place] += 1;
        return (effect.to_owned(), Some(place));
    }
    (table.decision.effect.as_str().to_owned(), None)
}

fn parsed(place: usize, rule: &Value) -> PolicyRule {
    let tools = match &rule["tool"] {
        Value::Null => Vec::new(),
        Value::String(one) => vec![one.clone()],
        many => serde_json::from_value(many.clone()).expect("tools"),
    };
    let when = rule["when"].as_object().expect("conditions");
    PolicyRule {
        id: place.to_string(),
        effect: match rule["effect"].as_str() {
            Some("allow") => PolicyEffect::Allow,
            Some("ask") => PolicyEffect::Ask,
            _ => PolicyEffect::Deny,
        },
        persona: None,
        tools,
        conditions: when
            .iter()
            .map(|(key, value)| read_condition(key, value).expect("a condition"))
            .collect(),
        until: None,
        uses_max: rule["uses_max"].as_u64(),
        why: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn rules_decide_as_the_slow_way_does(
        rules in prop::collection::vec(any_rule(), 0..8),
        calls in prop::collection::vec(any_call(), 1..30),
    ) {
        let compiled: Vec<PolicyRule> = rules.iter().enumerate().map(|(place, rule)| parsed(place, rule)).collect();
        let persona = attache::domain::PersonaId::parse("ada").expect("an id");
        let (mut slow, mut fast) = (vec![0; rules.len()], BTreeMap::<String, u64>::new());
        for call in &calls {
            let facts: CallFacts = serde_json::from_value(call["facts"].clone()).expect("facts");
            let asked = PolicyCall {
                persona: &persona,
                tool: call["tool"].as_str().expect("a tool"),
                facts: &facts,
                now: attache::domain::Timestamp::from_millis(0),
            };
            let has_uses = |rule: &PolicyRule| {
                rule.uses_max.is_none_or(|max| fast.get(&rule.id).copied().unwrap_or(0) < max)
            };
            let found = attache::policy::decide(&compiled, asked, has_uses);
            if let Some(rule) = &found.rule {
                *fast.entry(rule.clone()).or_default() += 1;
            }
            let (effect, rule) = brute_force(&rules, call, &mut slow);
            prop_assert_eq!(found.effect.as_str(), effect);
            prop_assert_eq!(found.rule, rule.map(|place| place.to_string()));
        }
    }
}

/// A call as the journal gives it back.
fn recorded(position: usize, call: &Value) -> JudgedCallRow {
    JudgedCallRow {
        position: i64::try_from(position).expect("few"),
        run: attache::domain::RunId::new("r"),
        persona: attache::domain::PersonaId::parse("ada").expect("an id"),
        tool: call["tool"].as_str().expect("a tool").to_owned(),
        call_id: position.to_string(),
        payload_json: json!({ "policy": { "effect": "allow", "facts": call["facts"] } })
            .to_string(),
        at: attache::domain::Timestamp::from_millis(0),
        approval: None,
    }
}

/// A rule as it stands in a file.
fn typed(place: usize, rule: &Value) -> Value {
    let mut typed = rule.clone();
    typed["id"] = json!(place.to_string());
    let members = typed.as_object_mut().expect("an object");
    members.retain(|_, value| !value.is_null() && *value != json!(0));
    typed
}

/// Up to five rules, and forty calls.
fn generated(runner: &mut TestRunner) -> (Vec<Value>, Vec<Value>) {
    let lists = (
        prop::collection::vec(any_rule(), 1..6),
        prop::collection::vec(any_call(), 40),
    );
    let (mut rules, calls) = lists.new_tree(runner).expect("rules and calls").current();
    // A rule without uses left is none in a file.
    rules.retain(|rule| rule["uses_max"] != 0);
    (rules, calls)
}

/// What the rules of a configuration would have decided, and which of them.
fn previewed(config: &attache::config::Config, calls: &[Value]) -> Vec<(String, Option<String>)> {
    let row = |(place, call)| {
        let row = recorded(place, call);
        let judged = judged(&row.payload_json).expect("facts");
        (row, judged)
    };
    let rows: Vec<_> = calls.iter().enumerate().map(row).collect();
    let found = preview(config, &rows).into_iter();
    found
        .map(|one| (one.now.effect.as_str().to_owned(), one.now.rule))
        .collect()
}

/// Two hundred lists of rules in files: each is refused for a rule that never decides, or previews as the slow way decides.
#[test]
#[ignore = "second tier"]
fn previews_of_random_rules_equal_the_slow_way() {
    let workspace = Workspace::new(&json!({ "rules": [] }));
    let names = attache::cli::name_catalog();
    let mut runner = TestRunner::deterministic();
    let (mut equal, mut refused) = (0, 0);
    for _ in 0..200 {
        let (rules, calls) = generated(&mut runner);
        let listed: Vec<Value> = rules
            .iter()
            .enumerate()
            .map(|(place, rule)| typed(place, rule))
            .collect();
        workspace.write_json("configs/policy.json", &json!({ "rules": listed }));
        let compiled: Vec<PolicyRule> = rules
            .iter()
            .enumerate()
            .map(|(place, rule)| parsed(place, rule))
            .collect();
        let mut slow = vec![0; rules.len()];
        let decided: Vec<_> = calls
            .iter()
            .map(|call| brute_force(&rules, call, &mut slow))
            .collect();
        let is_shadowed =
            |place: &usize| shadow_of(&compiled[..*place], &compiled[*place]).is_some();
        let shadowed: Vec<usize> = (0..rules.len()).filter(is_shadowed).collect();
        match attache::config::load(workspace.path(), &names) {
            Ok(config) => {
                assert_eq!(shadowed, [] as [usize; 0]);
                let found = previewed(&config, &calls);
                let wanted: Vec<_> = decided
                    .into_iter()
                    .map(|(effect, rule)| (effect, rule.map(|place| place.to_string())))
                    .collect();
                assert_eq!(found, wanted, "{rules:#?}");
                equal += 1;
            }
            Err(problems) => {
                let said = format!("{problems:?}");
                assert!(
                    !shadowed.is_empty() && said.contains("never decides"),
                    "{said}"
                );
                assert!(
                    decided
                        .iter()
                        .all(|(_, rule)| rule.is_none_or(|place| !shadowed.contains(&place)))
                );
                refused += 1;
            }
        }
    }
    println!(
        "B-8: 200 lists of rules: {equal} preview as the slow way decides 40 calls, {refused} are refused for a rule that never decides"
    );
    assert!(equal >= 50 && refused >= 10);
}
