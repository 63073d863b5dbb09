//! Conditions of a rule for calls like one that was made, as narrow as the facts of calls can say it.

use super::condition::{ALTERNATIVES_MAX, read_condition};
use super::decision::PolicyEffect;
use super::facts::CallFacts;
use serde_json::{Map, Value, json};

/// Conditions that hold for calls like one that was made.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LikeConditions {
    pub when: Map<String, Value>,
    /// What no condition says, so that the rule is wider than the call.
    pub gaps: Vec<String>,
}

impl LikeConditions {
    /// Adds a condition that a rule can ask for; a value that no rule may name adds none.
    fn add(&mut self, key: &str, value: Value) {
        if read_condition(key, &value).is_ok() {
            self.when.insert(key.to_owned(), value);
        }
    }

    fn gap(&mut self, text: &str) {
        self.gaps.push(text.to_owned());
    }
}

/// Returns the conditions for calls like this one: to be allowed, of callers trusted as much or more; to be refused, of callers
/// trusted as much or less. Errors: why there are none.
pub fn conditions_like(facts: &CallFacts, effect: PolicyEffect) -> Result<LikeConditions, String> {
    let mut like = LikeConditions::default();
    let is_allowed = effect == PolicyEffect::Allow;
    what_it_does(&mut like, facts)?;
    for fact in ["sender", "floor"] {
        let level = facts
            .text(fact)
            .ok_or("the trust of its run was not recorded with it")?;
        match (is_allowed, level) {
            // Every level.
            (true, "unauthenticated") | (false, "system") => {}
            // No level is above or below.
            (true, "system") | (false, "unauthenticated") => like.add(fact, json!(level)),
            (true, level) => like.add(fact, json!(format!(">={level}"))),
            (false, level) => like.add(fact, json!(format!("<={level}"))),
        }
    }
    if is_allowed {
        limits_of_call(&mut like, facts);
    }
    Ok(like)
}

/// Adds whom it writes to, what it asks, what it reads.
fn what_it_does(like: &mut LikeConditions, facts: &CallFacts) -> Result<(), String> {
    let recipients = facts.value("recipient").and_then(Value::as_array);
    let recipients: Vec<&str> = recipients
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if recipients.len() > ALTERNATIVES_MAX {
        let (count, most) = (recipients.len(), ALTERNATIVES_MAX);
        return Err(format!(
            "its mail has {count} recipients, and a condition names {most} at most"
        ));
    }
    let (host, path) = (facts.text("host"), facts.text("path"));
    let mut texts = recipients.iter().copied().chain(host).chain(path);
    if texts.any(|text| text.contains(['*', '?'])) {
        like.gap("`?` stands for any one character: a pattern cannot name `*` or `?` themselves");
    }
    if !recipients.is_empty() {
        let named: Vec<String> = recipients.iter().map(|one| named(one)).collect();
        like.add("every_recipient", json!(named));
        like.gap("what a mail says is no fact: the rule looks at who writes and who reads");
    }
    if let Some(host) = host {
        like.add("host", json!(named(host)));
        like.gap("a rule names a host, and every page of it with it");
    }
    if let Some(path) = path {
        like.add("path", json!(named(path)));
        like.gap("a rule names a path, and not what is written there");
    }
    if facts.is_true("runs_command") {
        like.gap("no fact tells commands apart: the rule is for every command of this tool");
    } else if like.when.is_empty() {
        like.gap("no fact tells its arguments apart: the rule is for every call of this tool");
    }
    Ok(())
}

/// Adds how it was called, where another way of calling it would give more reason to ask.
fn limits_of_call(like: &mut LikeConditions, facts: &CallFacts) {
    if let Some(trigger) = facts.text("trigger") {
        like.add("trigger", json!(trigger));
    }
    if facts.text("audience") == Some("may_read") {
        like.add("audience", json!("may_read"));
    }
    if facts.value("private") == Some(&json!(false)) {
        like.add("private", json!(false));
    }
    match facts.value("attachments").and_then(Value::as_u64) {
        Some(count) => {
            like.add("attachments", json!(format!("<={count}")));
            let names = facts.value("attachment").and_then(Value::as_array);
            let names: Vec<String> = names
                .into_iter()
                .flatten()
                .filter_map(|name| name.as_str().map(named))
                .collect();
            like.add("attachment", json!(names));
            if count > 1 {
                like.gap("one of the files has to be named so, the others may be any");
            }
        }
        None if like.when.contains_key("every_recipient") => {
            like.gap("no condition says `without files`: mails with files are allowed too");
        }
        None => {}
    }
    if facts.text("host").is_some() && facts.text("link").is_none() {
        like.gap("no condition says that no letter leads to a page: such pages are allowed too");
    } else if let Some(link) = facts.text("link") {
        like.add("link", json!(link));
    }
}

/// Returns a pattern for exactly this text, as far as patterns can say it.
fn named(text: &str) -> String {
    text.replace('*', "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn like(facts: Value, effect: PolicyEffect) -> (Value, usize) {
        let facts: CallFacts = serde_json::from_value(facts).expect("facts");
        let like = conditions_like(&facts, effect).expect("conditions");
        let holds = |(key, value): (&String, &Value)| {
            read_condition(key, value).is_ok_and(|condition| condition.holds(&facts))
        };
        assert!(like.when.iter().all(holds), "{like:?}");
        (Value::Object(like.when), like.gaps.len())
    }

    #[test]
    fn a_mail_is_allowed_to_its_recipients_and_refused_from_less_trusted_ones() {
        let mail = json!({ "trigger": "email", "sender": "contact", "floor": "contact", "private": true,
            "recipient": ["eve@new.test", "odd*one@new.test"], "recipients": "outside", "audience": "may_read", "bytes": 20 });
        let (when, gaps) = like(mail.clone(), PolicyEffect::Allow);
        let wanted = json!({ "every_recipient": ["eve@new.test", "odd?one@new.test"], "sender": ">=contact",
            "floor": ">=contact", "trigger": "email", "audience": "may_read" });
        assert_eq!((when, gaps), (wanted, 3));
        let (when, gaps) = like(mail, PolicyEffect::Deny);
        let wanted = json!({ "every_recipient": ["eve@new.test", "odd?one@new.test"], "sender": "<=contact",
            "floor": "<=contact" });
        assert_eq!((when, gaps), (wanted, 2));
    }

    #[test]
    fn the_ends_of_trust_are_named_alone_or_not_at_all() {
        let slot = json!({ "trigger": "schedule", "sender": "system", "floor": "system", "runs_command": true });
        let (when, gaps) = like(slot.clone(), PolicyEffect::Allow);
        let wanted = json!({ "sender": "system", "floor": "system", "trigger": "schedule" });
        assert_eq!((when, gaps), (wanted, 1));
        assert_eq!(like(slot, PolicyEffect::Deny), (json!({}), 1));
    }

    #[test]
    fn nothing_is_proposed_for_calls_whose_trust_or_recipients_no_condition_says() {
        let many: Vec<String> = (0..=ALTERNATIVES_MAX)
            .map(|n| format!("a{n}@x.test"))
            .collect();
        for facts in [
            json!({ "sender": "owner", "floor": "owner", "recipient": many }),
            json!({ "sender": "owner" }),
        ] {
            let facts: CallFacts = serde_json::from_value(facts).expect("facts");
            assert!(conditions_like(&facts, PolicyEffect::Allow).is_err());
        }
    }
}
