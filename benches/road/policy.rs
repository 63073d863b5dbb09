//! One decision by five hundred rules, of which the last decides.

use super::counters::percentile;
use attache::domain::{PersonaId, Timestamp};
use attache::policy::{CallFacts, PolicyCall, PolicyEffect, PolicyRule, decide, read_condition};
use serde_json::json;
use std::hint::black_box;
use std::time::{Duration, Instant};

const RULES: usize = 500;
const DECISIONS: usize = 10_000;

fn rule(number: usize) -> PolicyRule {
    // Every condition but the last of each rule holds, so that none is done with early; the last rule matches.
    let is_last = number + 1 == RULES;
    let address = if is_last {
        "*@x.test".to_owned()
    } else {
        format!("*@{number}.test")
    };
    let when = [
        ("floor", json!(">=contact")),
        ("recipients", json!(["outside", "allowed"])),
        ("recipient", json!(address)),
    ];
    PolicyRule {
        id: format!("rule-{number}"),
        effect: PolicyEffect::Allow,
        persona: None,
        tools: vec!["send_*".to_owned()],
        conditions: when
            .iter()
            .map(|(name, typed)| read_condition(name, typed).expect("a condition"))
            .collect(),
        until: None,
        uses_max: None,
        why: None,
    }
}

pub fn policy() {
    let rules: Vec<PolicyRule> = (0..RULES).map(rule).collect();
    let persona = PersonaId::parse("ada").expect("an id");
    let facts: CallFacts = serde_json::from_value(json!({
        "sender": "owner", "floor": "contact", "recipients": "outside", "recipient": ["a@x.test", "b@y.test"],
    }))
    .expect("facts");
    let call = PolicyCall {
        persona: &persona,
        tool: "send_email",
        facts: &facts,
        now: Timestamp::from_millis(0),
    };
    let mut times: Vec<Duration> = (0..DECISIONS)
        .map(|_| {
            let began = Instant::now();
            let decision = decide(black_box(&rules), black_box(call), |_| true);
            let took = began.elapsed();
            assert_eq!(decision.rule.as_deref(), Some("rule-499"));
            took
        })
        .collect();
    let micros = |of_hundred, times: &mut [Duration]| percentile(times, of_hundred) * 1e3;
    let (half, most) = (micros(50, &mut times), micros(99, &mut times));
    println!("  {RULES} rules: {half:.1} µs a decision, 99 % within {most:.1} µs");
}
