//! One condition of a rule: a fact and a test of its value.

use super::facts::{CallFacts, FactKind, KnownFact};
use crate::domain::Trust;
use crate::text::glob_matches;
use serde_json::Value;

/// Most patterns or words of one condition.
pub(super) const ALTERNATIVES_MAX: usize = 100;

/// A fact and a test of its value.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleCondition {
    pub(super) fact: &'static str,
    pub(super) test: FactTest,
    /// Value as typed.
    pub(super) typed: Value,
    /// `true`: the fact is known before a call.
    pub(super) is_of_run: bool,
}

/// Test of a fact's value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FactTest {
    Words(Vec<String>),
    /// Lowest and highest level.
    Levels(Trust, Trust),
    /// Lowest and highest number.
    Numbers(f64, f64),
    Flag(bool),
    SomeText(Vec<String>),
    EveryText(Vec<String>),
}

/// Reads a condition from its key and value. Errors: what would be legal.
pub fn read_condition(key: &str, value: &Value) -> Result<RuleCondition, String> {
    let fact = KnownFact::find(key).ok_or_else(|| format!("no fact `{key}`"))?;
    let test = match fact.kind {
        FactKind::Word(words) => FactTest::Words(words_of(key, words, value)?),
        FactKind::Level => levels(key, value)?,
        FactKind::Number => numbers(key, value)?,
        FactKind::Flag => FactTest::Flag(
            value
                .as_bool()
                .ok_or_else(|| format!("`{key}` is `true` or `false`"))?,
        ),
        FactKind::SomeText => FactTest::SomeText(patterns(key, value)?),
        FactKind::EveryText => FactTest::EveryText(patterns(key, value)?),
    };
    Ok(RuleCondition {
        fact: fact.name,
        test,
        typed: value.clone(),
        is_of_run: fact.is_of_run,
    })
}

/// Returns one text or a list of them.
fn texts(key: &str, value: &Value) -> Result<Vec<String>, String> {
    let typed: Option<Vec<String>> = match value {
        Value::String(one) => Some(vec![one.clone()]),
        Value::Array(many) if !many.is_empty() && many.len() <= ALTERNATIVES_MAX => many
            .iter()
            .map(|text| text.as_str().map(str::to_owned))
            .collect(),
        _ => None,
    };
    typed.ok_or_else(|| format!("`{key}` is a text, or a list of 1 to {ALTERNATIVES_MAX} texts"))
}

fn words_of(key: &str, words: &[&str], value: &Value) -> Result<Vec<String>, String> {
    let typed = texts(key, value)?;
    match typed.iter().find(|word| !words.contains(&word.as_str())) {
        Some(wrong) => Err(format!(
            "`{key}` is never `{wrong}`; it is one of: {}",
            words.join(", ")
        )),
        None => Ok(typed),
    }
}

/// Patterns in lower case; addresses and file names are compared so.
fn patterns(key: &str, value: &Value) -> Result<Vec<String>, String> {
    Ok(texts(key, value)?
        .iter()
        .map(|text| text.to_lowercase())
        .collect())
}

fn levels(key: &str, value: &Value) -> Result<FactTest, String> {
    let typed = value.as_str().unwrap_or_default();
    let (order, word) = split_order(typed);
    let level = Trust::parse(word).ok_or_else(|| {
        format!(
            "`{key}` is a level such as `contact` or `>=contact`; levels: unauthenticated, unknown, contact, owner, system"
        )
    })?;
    let all = [
        Trust::Unauthenticated,
        Trust::Unknown,
        Trust::Contact,
        Trust::Owner,
        Trust::System,
    ];
    let holds = |other: &Trust| match order {
        "" => *other == level,
        ">=" => *other >= level,
        ">" => *other > level,
        "<=" => *other <= level,
        _ => *other < level,
    };
    let within: Vec<Trust> = all.into_iter().filter(holds).collect();
    match (within.first(), within.last()) {
        (Some(lowest), Some(highest)) => Ok(FactTest::Levels(*lowest, *highest)),
        _ => Err(format!("`{key}` is never `{typed}`")),
    }
}

/// Splits a comparison from its value.
fn split_order(typed: &str) -> (&str, &str) {
    for order in [">=", "<=", ">", "<"] {
        if let Some(rest) = typed.strip_prefix(order) {
            return (order, rest.trim());
        }
    }
    ("", typed.trim())
}

fn numbers(key: &str, value: &Value) -> Result<FactTest, String> {
    let wrong =
        || format!("`{key}` is a number, or a range such as `\">=3\"`, `\"<10\"` or `\"1..9\"`");
    if let Some(number) = value.as_f64() {
        return Ok(FactTest::Numbers(number, number));
    }
    let typed = value.as_str().ok_or_else(wrong)?;
    let number = |text: &str| {
        let number: Option<f64> = text.trim().parse().ok();
        number.filter(|n| n.is_finite()).ok_or_else(wrong)
    };
    let (lowest, highest) = match (typed.split_once(".."), split_order(typed)) {
        (Some((from, to)), _) => (number(from)?, number(to)?),
        (None, (">=", least)) => (number(least)?, f64::INFINITY),
        (None, (">", below)) => (number(below)?.next_up(), f64::INFINITY),
        (None, ("<=", most)) => (f64::NEG_INFINITY, number(most)?),
        (None, ("<", above)) => (f64::NEG_INFINITY, number(above)?.next_down()),
        (None, (_, exact)) => (number(exact)?, number(exact)?),
    };
    match lowest <= highest {
        true => Ok(FactTest::Numbers(lowest, highest)),
        false => Err(format!("`{key}` is never in `{typed}`")),
    }
}

impl RuleCondition {
    /// Reports whether the condition holds. A fact that the call does not have holds no condition.
    pub fn holds(&self, facts: &CallFacts) -> bool {
        let Some(value) = facts.value(self.fact) else {
            return false;
        };
        match &self.test {
            FactTest::Words(words) => value
                .as_str()
                .is_some_and(|value| words.iter().any(|word| word == value)),
            FactTest::Levels(lowest, highest) => {
                let level = value.as_str().map(Trust::parse_stored);
                level.is_some_and(|level| (*lowest..=*highest).contains(&level))
            }
            FactTest::Numbers(lowest, highest) => value
                .as_f64()
                .is_some_and(|value| (*lowest..=*highest).contains(&value)),
            FactTest::Flag(wanted) => value.as_bool() == Some(*wanted),
            FactTest::SomeText(patterns) => texts_in(value).any(|text| fits(patterns, text)),
            FactTest::EveryText(patterns) => {
                texts_in(value).next().is_some() && texts_in(value).all(|text| fits(patterns, text))
            }
        }
    }
}

fn texts_in(value: &Value) -> impl Iterator<Item = &str> {
    let one = value.as_str().into_iter();
    one.chain(
        value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str),
    )
}

fn fits(patterns: &[String], text: &str) -> bool {
    let text = text.to_lowercase();
    patterns.iter().any(|pattern| glob_matches(pattern, &text))
}

impl FactTest {
    /// Reports whether every value that passes `other` passes this test.
    pub(super) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Words(mine), Self::Words(theirs)) => {
                theirs.iter().all(|word| mine.contains(word))
            }
            (Self::Levels(low, high), Self::Levels(from, to)) => low <= from && to <= high,
            (Self::Numbers(low, high), Self::Numbers(from, to)) => low <= from && to <= high,
            (Self::Flag(mine), Self::Flag(theirs)) => mine == theirs,
            (Self::SomeText(mine), Self::SomeText(theirs))
            | (Self::EveryText(mine), Self::EveryText(theirs)) => covers_patterns(mine, theirs),
            _ => false,
        }
    }
}

/// Reports whether each of their patterns is one of mine, or covered by one. A pattern covers another when it matches it as
/// a text in which the stars stand for themselves: a star is matched by a star alone.
pub(super) fn covers_patterns(mine: &[String], theirs: &[String]) -> bool {
    let covers = |pattern: &str, other: &str| {
        glob_matches(pattern, other) && (pattern.contains('*') || !other.contains(['*', '?']))
    };
    theirs.iter().all(|other| {
        mine.iter()
            .any(|pattern| pattern == other || (!pattern.contains('?') && covers(pattern, other)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn holds(key: &str, typed: Value, fact: &'static str, value: Value) -> Result<bool, String> {
        let condition = read_condition(key, &typed)?;
        Ok(condition.holds(&CallFacts::default().with(fact, value)))
    }

    #[test]
    fn each_kind_of_fact_has_its_tests() {
        let cases = [
            ("floor", json!(">=contact"), json!("owner"), true),
            ("floor", json!(">=contact"), json!("unknown"), false),
            ("floor", json!("contact"), json!("owner"), false),
            ("floor", json!("<owner"), json!("contact"), true),
            ("mails", json!(0), json!(0), true),
            ("mails", json!("<3"), json!(3), false),
            ("mails", json!("1..3"), json!(3), true),
            ("mails", json!(">2"), json!(3), true),
            ("private", json!(true), json!(true), true),
            ("trigger", json!(["email", "chat"]), json!("email"), true),
            ("trigger", json!("schedule"), json!("email"), false),
            (
                "recipient",
                json!("*@Evil.test"),
                json!(["a@x.test", "B@evil.test"]),
                true,
            ),
            ("recipient", json!("*@evil.test"), json!([]), false),
            ("path", json!("knowledge/*"), json!("knowledge/a.md"), true),
        ];
        for (fact, typed, value, wanted) in cases {
            let fact = KnownFact::find(fact).map_or("", |fact| fact.name);
            assert_eq!(
                holds(fact, typed.clone(), fact, value.clone()),
                Ok(wanted),
                "{fact} {typed} {value}"
            );
        }
        let every = |value| holds("every_recipient", json!("*@x.test"), "recipient", value);
        assert_eq!(every(json!(["a@x.test", "b@x.test"])), Ok(true));
        assert_eq!(every(json!(["a@x.test", "b@y.test"])), Ok(false));
        assert_eq!(every(json!([])), Ok(false));
    }

    #[test]
    fn a_fact_that_a_call_does_not_have_holds_nothing() {
        let condition = read_condition("private", &json!(false));
        assert_eq!(condition.map(|c| c.holds(&CallFacts::default())), Ok(false));
    }

    #[test]
    fn what_cannot_be_is_an_error() {
        for (key, value) in [
            ("colour", json!("red")),
            ("floor", json!(">system")),
            ("floor", json!("friend")),
            ("mails", json!("9..1")),
            ("mails", json!("few")),
            ("mails", json!(">NaN")),
            ("private", json!("yes")),
            ("trigger", json!([])),
            ("trigger", json!("telegram")),
            ("recipient", json!(["a@x.test", 3])),
        ] {
            assert!(read_condition(key, &value).is_err(), "{key} {value}");
        }
    }
}
