//! When a backup is due. Pure.

use crate::config::ScheduledBackup;
use crate::domain::Timestamp;
use crate::store::LastScheduled;
use std::time::Duration;

/// Time after which one that failed is tried again, if no other is due before.
pub const RETRY_AFTER: Duration = Duration::from_secs(3600);

/// Reports whether a backup is to be begun.
///
/// One is due at each multiple of the interval, counted from the time of day; the first at once. An engine that was down makes one,
/// however many it has missed.
pub fn is_due(settings: &ScheduledBackup, last: Option<LastScheduled>, now: Timestamp) -> bool {
    let Some(last) = last else {
        return true;
    };
    // The clock was set back: an instant that is to come says nothing.
    if last.started > now {
        return true;
    }
    let is_past_slot = last.started < last_slot(settings, now);
    is_past_slot || (!last.is_good && now.since(last.started) >= RETRY_AFTER)
}

/// Returns the newest instant at which one was due.
fn last_slot(settings: &ScheduledBackup, now: Timestamp) -> Timestamp {
    let ms = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    let every = ms(settings.every).max(1);
    let begin = ms(settings.since_midnight());
    let since = now.as_millis() - begin;
    Timestamp::from_millis(since - since.rem_euclid(every) + begin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::NaiveTime;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(&format!("2026-11-{text}:00.000Z")).expect("an instant")
    }

    fn last(text: &str, is_good: bool) -> Option<LastScheduled> {
        Some(LastScheduled {
            started: at(text),
            is_good,
        })
    }

    #[test]
    fn one_is_due_each_day_at_its_hour_and_an_hour_after_a_failure() {
        let settings = ScheduledBackup {
            every: Duration::from_secs(24 * 3600),
            at: NaiveTime::from_hms_opt(3, 30, 0).expect("a time"),
            folder: "/backups".into(),
            count: 7,
        };
        let due = |last, now| is_due(&settings, last, at(now));
        assert!(due(None, "26T12:00"));
        assert!(!due(last("26T03:30", true), "27T03:29"));
        assert!(due(last("26T03:30", true), "27T03:30"));
        assert!(due(last("20T03:30", true), "27T01:00"));
        assert!(!due(last("26T12:00", true), "26T23:59"));
        assert!(!due(last("26T03:30", false), "26T04:29"));
        assert!(due(last("26T03:30", false), "26T04:30"));
        assert!(
            due(last("28T03:30", true), "27T01:00"),
            "the clock was set back"
        );
    }
}
