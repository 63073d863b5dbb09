//! One instant, in milliseconds since the Unix epoch, and its one spelling.

use chrono::{DateTime, SecondsFormat, Utc};
use chrono_tz::Tz;
use std::fmt;
use std::time::Duration;

/// An instant in UTC, to the millisecond.
///
/// Printed as RFC 3339 with exactly three decimals and `Z`, so that text order is time order in the
/// database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Returns the instant of milliseconds since 1970-01-01T00:00:00Z; instants outside the years 0
    /// to 9999 are clamped to 1970.
    pub fn from_millis(ms: i64) -> Self {
        const YEAR_10000_MS: i64 = 253_402_300_800_000;
        const YEAR_0_MS: i64 = -62_167_219_200_000;
        Self(if (YEAR_0_MS..YEAR_10000_MS).contains(&ms) {
            ms
        } else {
            0
        })
    }
    pub fn as_millis(self) -> i64 {
        self.0
    }
    /// Parses RFC 3339; `None` when the text is not an instant.
    pub fn parse(text: &str) -> Option<Self> {
        DateTime::parse_from_rfc3339(text)
            .ok()
            .map(|t| Self::from_millis(t.timestamp_millis()))
    }
    /// Parses the date of an HTTP answer, which has whole seconds (RFC 9110 section 5.6.7).
    pub fn parse_http_date(text: &str) -> Option<Self> {
        DateTime::parse_from_rfc2822(text)
            .ok()
            .map(|t| Self::from_millis(t.timestamp_millis()))
    }
    pub fn to_utc(self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.0).unwrap_or(DateTime::UNIX_EPOCH)
    }
    /// Formats the instant as a mail says it, to the minute: `Sat 12 Dec 2026, 20:42 (Europe/Berlin)`.
    pub fn minute_in(self, zone: Tz) -> String {
        let at = self.to_utc().with_timezone(&zone);
        format!("{} ({})", at.format("%a %-d %b %Y, %H:%M"), zone.name())
    }
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self::from_millis(
            self.0
                .saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)),
        )
    }
    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        Self::from_millis(
            self.0
                .saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)),
        )
    }
    /// Returns the span from `earlier` to `self`; zero when `earlier` is later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl From<DateTime<Utc>> for Timestamp {
    fn from(t: DateTime<Utc>) -> Self {
        Self::from_millis(t.timestamp_millis())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_utc().to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

impl<'de> serde::Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let bad = || serde::de::Error::custom(format!("`{text}` is no time"));
        Self::parse(&text).ok_or_else(bad)
    }
}

impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl schemars::JsonSchema for Timestamp {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_order_is_time_order_and_reads_back() {
        let early = Timestamp::from_millis(1_795_000_000_005);
        let late = early.plus(Duration::from_millis(1));
        assert!(early.to_string() < late.to_string());
        assert_eq!(Timestamp::parse(&early.to_string()), Some(early));
        assert_eq!(early.since(late), Duration::ZERO);
    }

    #[test]
    fn people_read_an_instant_in_their_zone_which_is_named() {
        let at = Timestamp::parse("2026-12-12T23:42:17.779Z").expect("an instant");
        assert_eq!(at.minute_in(Tz::UTC), "Sat 12 Dec 2026, 23:42 (UTC)");
        assert_eq!(
            at.minute_in(chrono_tz::Europe::Berlin),
            "Sun 13 Dec 2026, 00:42 (Europe/Berlin)"
        );
    }
}
