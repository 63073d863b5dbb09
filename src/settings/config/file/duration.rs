//! Durations in configuration files: a number and a unit.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serializer};
use std::borrow::Cow;
use std::time::Duration;

/// Pattern of a duration; the schema shows it, and the checker recognises it for a message of its
/// own.
pub const PATTERN: &str = "^[0-9]+(ms|s|m|h|d)$";
/// Maximum seconds of a duration in a file: a hundred years. A larger one is a typing error and
/// would overflow dates.
const SECONDS_MAX: u64 = 100 * 366 * 24 * 3600;

/// A duration such as `30s`, `5m`, `2h`, `5d` or `250ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct TypedDuration(pub Duration);

impl TryFrom<String> for TypedDuration {
    type Error = String;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        parse(&text)
            .map(Self)
            .ok_or_else(|| format!("`{text}` is not a duration"))
    }
}

/// Form of a [`Duration`] in a file: `#[serde(with = "TypedDuration")]`.
impl TypedDuration {
    pub fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&spell(*span))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        <Self as Deserialize>::deserialize(from).map(|typed| typed.0)
    }
}

impl JsonSchema for TypedDuration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": PATTERN, "examples": ["30s", "5m", "2h", "5d"]})
    }
}

fn parse(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let span = match unit {
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(number.checked_mul(60)?),
        "h" => Duration::from_secs(number.checked_mul(3600)?),
        "d" => Duration::from_secs(number.checked_mul(24 * 3600)?),
        _ => return None,
    };
    (span.as_secs() <= SECONDS_MAX).then_some(span)
}

/// Formats the shortest text that parses to the same duration, to the millisecond.
pub fn spell(span: Duration) -> String {
    let ms = span.as_millis();
    let units = [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1000),
    ];
    let whole = units
        .iter()
        .find(|(_, size)| ms > 0 && ms.is_multiple_of(*size));
    whole.map_or_else(
        || format!("{ms}ms"),
        |(unit, size)| format!("{}{unit}", ms / size),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit_and_an_end() {
        assert_eq!(parse("30s"), Some(Duration::from_secs(30)));
        assert_eq!(parse("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(parse("5d"), Some(Duration::from_secs(432_000)));
        for bad in [
            "",
            "30",
            "s",
            "-5s",
            "1.5h",
            "5 m",
            "5M",
            "99999999999999999999s",
            "40000d",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_formatted_duration_reads_back() {
        for text in ["30s", "90s", "5m", "2h", "5d", "1500ms", "0ms"] {
            assert_eq!(parse(text).map(spell), Some(text.to_owned()));
        }
    }
}
