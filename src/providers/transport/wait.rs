//! Wait that a provider asked for, by its headers and its message. Pure.
//!
//! Absolute times are read against the response's own `Date`, so neither our clock nor its skew
//! matters.

use crate::domain::Timestamp;
use crate::providers::transport::vendor_error::VendorError;
use chrono::{DateTime, Utc};
use reqwest::header::HeaderMap;
use std::time::Duration;

/// Headers of OpenAI's and Anthropic's rate-limit windows: the remaining amount, and the time of
/// the reset.
const WINDOWS: &[(&str, &str)] = &[
    (
        "x-ratelimit-remaining-requests",
        "x-ratelimit-reset-requests",
    ),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    (
        "anthropic-ratelimit-requests-remaining",
        "anthropic-ratelimit-requests-reset",
    ),
    (
        "anthropic-ratelimit-tokens-remaining",
        "anthropic-ratelimit-tokens-reset",
    ),
    (
        "anthropic-ratelimit-input-tokens-remaining",
        "anthropic-ratelimit-input-tokens-reset",
    ),
    (
        "anthropic-ratelimit-output-tokens-remaining",
        "anthropic-ratelimit-output-tokens-reset",
    ),
];
const PHRASES: &[&str] = &["retry in ", "try again in ", "reset after "];

/// Shortest wait for a quota of a day, whatever the vendor's delay says: it does not reset within a
/// minute.
pub const DAILY_QUOTA_MIN: Duration = Duration::from_secs(3600);

/// Returns the wait that was asked for: the explicit headers first, then the delay of the body,
/// then its message, then the rate-limit windows. Windows are read only when a limit was hit, since
/// every response carries them.
pub fn asked_wait(headers: &HeaderMap, error: &VendorError, limited: bool) -> Option<Duration> {
    let stated = milliseconds(headers).or_else(|| retry_after(headers));
    let stated = stated.or_else(|| error.retry_delay.as_deref().and_then(span));
    let stated = stated.or_else(|| spoken(&error.words()));
    stated.or_else(|| {
        if limited {
            window(headers).or_else(|| epoch(headers))
        } else {
            None
        }
    })
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn milliseconds(headers: &HeaderMap) -> Option<Duration> {
    let value: f64 = text(headers, "retry-after-ms")?.parse().ok()?;
    Duration::try_from_secs_f64(value / 1000.0).ok()
}

/// Reads `Retry-After`, RFC 9110 section 10.2.3: seconds or an HTTP-date; vendors also send
/// fractions.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = text(headers, "retry-after")?;
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    until(headers, Timestamp::parse_http_date(value)?.to_utc())
}

/// Returns the time from the response's `Date` to that instant; `None` if it has passed or there is
/// no `Date`.
fn until(headers: &HeaderMap, then: DateTime<Utc>) -> Option<Duration> {
    let now = Timestamp::parse_http_date(text(headers, "date")?)?;
    Some((then - now.to_utc()).to_std().unwrap_or_default())
}

/// Reads OpenRouter's end of its window: milliseconds since 1970, unlike other vendors' (its
/// documentation of limits).
fn epoch(headers: &HeaderMap) -> Option<Duration> {
    const LATELY: i64 = 1_000_000_000_000;
    let millis = text(headers, "x-ratelimit-reset")?
        .parse::<i64>()
        .ok()
        .filter(|millis| *millis > LATELY)?;
    until(headers, DateTime::from_timestamp_millis(millis)?)
}

/// Reads a wait from a message; `words` in lower case.
fn spoken(words: &str) -> Option<Duration> {
    let after = |phrase: &&str| words.split_once(*phrase).and_then(|(_, rest)| span(rest));
    PHRASES.iter().find_map(after)
}

/// Returns the longest reset among exhausted windows; among all windows, if none is marked as
/// exhausted.
fn window(headers: &HeaderMap) -> Option<Duration> {
    let reset = |name: &str| {
        let value = text(headers, name)?;
        let instant = || until(headers, DateTime::parse_from_rfc3339(value).ok()?.to_utc());
        span(value).or_else(instant)
    };
    let exhausted = WINDOWS
        .iter()
        .filter(|(left, _)| text(headers, left) == Some("0"));
    let longest = exhausted.filter_map(|(_, name)| reset(name)).max();
    longest.or_else(|| WINDOWS.iter().filter_map(|(_, name)| reset(name)).max())
}

/// Reads `6m0s`, `12.5s`, `289ms`, `18h31m10s`, `20 seconds` at the start of a text.
pub fn span(text: &str) -> Option<Duration> {
    let mut total = None;
    let mut rest = text;
    loop {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let Ok(number) = rest[..digits].parse::<f64>() else {
            return total;
        };
        let after = rest[digits..].trim_start_matches(' ');
        let letters = after
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(after.len());
        let Some(unit) = unit_seconds(&after[..letters]) else {
            return total;
        };
        let part = Duration::try_from_secs_f64(number * unit).ok()?;
        total = Some(total.unwrap_or(Duration::ZERO).saturating_add(part));
        rest = &after[letters..];
    }
}

fn unit_seconds(unit: &str) -> Option<f64> {
    match unit {
        "ms" => Some(0.001),
        "s" | "sec" | "second" | "seconds" => Some(1.0),
        "m" | "min" | "minute" | "minutes" => Some(60.0),
        "h" | "hour" | "hours" => Some(3600.0),
        "d" | "day" | "days" => Some(86400.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::{HeaderName, HeaderValue};

    fn wait(headers: &[(&'static str, &'static str)], message: &str, limited: bool) -> Option<f64> {
        let pairs = headers
            .iter()
            .map(|(k, v)| (HeaderName::from_static(k), HeaderValue::from_static(v)));
        let error = VendorError {
            message: message.to_owned(),
            ..VendorError::default()
        };
        asked_wait(&pairs.collect(), &error, limited).map(|wait| wait.as_secs_f64())
    }
    const DATE: (&str, &str) = ("date", "Fri, 20 Nov 2026 10:00:00 GMT");

    /// Headers, sentence, expected seconds.
    type Row = (
        &'static [(&'static str, &'static str)],
        &'static str,
        Option<f64>,
    );

    const WAITS: &[Row] = &[
        (
            &[("retry-after-ms", "250"), ("retry-after", "9")],
            "",
            Some(0.25),
        ),
        (&[("retry-after", "1.5")], "try again in 9s", Some(1.5)),
        (
            &[("retry-after", "Fri, 20 Nov 2026 10:01:00 GMT"), DATE],
            "",
            Some(60.0),
        ),
        (
            &[("retry-after", "Fri, 20 Nov 2026 09:00:00 GMT"), DATE],
            "",
            Some(0.0),
        ),
        (
            &[("retry-after", "Fri, 20 Nov 2026 10:01:00 GMT")],
            "",
            None,
        ),
        (&[("retry-after", "-3")], "", None),
        (&[("retry-after", "1e400")], "", None),
        (
            &[("retry-after", "soon")],
            "Please retry in 12.5s.",
            Some(12.5),
        ),
        (&[], "Please try again in 6m0s. Visit", Some(360.0)),
        (&[], "Please try again in 289ms.", Some(0.289)),
        (&[], "quota will reset after 18h31m10s", Some(66670.0)),
        (&[], "Try again in 20 seconds", Some(20.0)),
        (&[], "try again in a while", None),
        (
            &[
                ("x-ratelimit-reset-requests", "1s"),
                ("x-ratelimit-reset-tokens", "6m0s"),
            ],
            "",
            Some(360.0),
        ),
        (
            &[
                ("x-ratelimit-remaining-requests", "0"),
                ("x-ratelimit-reset-requests", "1s"),
                ("x-ratelimit-reset-tokens", "6m0s"),
            ],
            "",
            Some(1.0),
        ),
        (
            &[
                ("anthropic-ratelimit-tokens-reset", "2026-11-20T10:00:42Z"),
                DATE,
            ],
            "",
            Some(42.0),
        ),
        (
            &[("x-ratelimit-reset", "1795168830000"), DATE],
            "",
            Some(30.0),
        ),
        (&[("x-ratelimit-reset", "30"), DATE], "", None),
    ];

    #[test]
    fn headers_come_before_words_and_words_before_windows() {
        for (headers, message, expected) in WAITS {
            assert_eq!(
                wait(headers, message, true),
                *expected,
                "{headers:?} {message}"
            );
        }
        assert_eq!(
            wait(&[("x-ratelimit-reset-requests", "1s")], "", false),
            None
        );
        // The delay of the body comes between headers and message.
        let (delay, message) = (Some("34.07s".to_owned()), "Please retry in 9s".to_owned());
        let error = VendorError {
            retry_delay: delay,
            message,
            ..VendorError::default()
        };
        assert_eq!(
            asked_wait(&HeaderMap::new(), &error, true),
            Some(Duration::from_millis(34_070))
        );
        let headers = HeaderMap::from_iter([(
            HeaderName::from_static("retry-after"),
            HeaderValue::from_static("3"),
        )]);
        assert_eq!(
            asked_wait(&headers, &error, true),
            Some(Duration::from_secs(3))
        );
    }
}
