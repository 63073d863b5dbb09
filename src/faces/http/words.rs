//! Words of the pages: states, sums, instants, sizes. Pure.

use crate::domain::mail::filed;
use crate::domain::{ErrorClass, ThreadOutcome, Timestamp};
use crate::store::ThreadOverview;
use chrono_tz::Tz;
use minijinja::value::Value;
use serde::Serialize;

/// State in the words of a person, with its tone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct StateWords {
    pub words: String,
    /// `good`, `bad`, `wait`, `busy` or `quiet`: shape and colour of its mark.
    pub tone: &'static str,
    /// Reason, where one word is not enough.
    pub why: String,
}

impl StateWords {
    pub(super) fn new(words: impl Into<String>, tone: &'static str) -> Self {
        Self {
            words: words.into(),
            tone,
            why: String::new(),
        }
    }
}

/// Describes the state of a run.
pub(super) fn run_state(state: &str, error_class: Option<&str>) -> StateWords {
    let (words, tone) = match state {
        "queued" => ("queued", "busy"),
        "running" => ("working", "busy"),
        "waiting_approval" => ("waits for you", "wait"),
        "waiting_retry" => ("tries again later", "busy"),
        "succeeded" => ("done", "good"),
        "failed" => ("failed", "bad"),
        "cancelled" => ("cancelled", "quiet"),
        other => (other, "quiet"),
    };
    StateWords {
        why: match error_class.and_then(ErrorClass::parse) {
            Some(class) => class.words().to_owned(),
            None => error_class.unwrap_or_default().replace('_', " "),
        },
        ..StateWords::new(words, tone)
    }
}

/// Describes what became of a thread.
pub(super) fn thread_state(thread: &ThreadOverview) -> StateWords {
    let rule = thread
        .disposition
        .as_deref()
        .and_then(|disposition| disposition.split_once(':'));
    let run = thread.run.as_ref();
    match thread.outcome {
        ThreadOutcome::Waiting => StateWords::new("waits for you", "wait"),
        ThreadOutcome::AtWork => match run.filter(|run| !run.state.is_terminal()) {
            Some(run) => run_state(run.state.as_str(), None),
            None => StateWords::new("working", "busy"),
        },
        ThreadOutcome::Failed | ThreadOutcome::Cancelled => {
            let class = run.and_then(|run| run.error_class.as_ref());
            run_state(thread.outcome.as_str(), class.map(|class| class.as_str()))
        }
        ThreadOutcome::Filed => filed_by(rule.map_or("", |(_, rule)| rule)),
        ThreadOutcome::NotSent => withheld(rule.map_or("cancelled", |(_, rule)| rule)),
        ThreadOutcome::Leaving => StateWords::new("mail not sent yet", "busy"),
        ThreadOutcome::Undelivered => StateWords::new("not delivered", "bad"),
        ThreadOutcome::Answered if thread.sender.is_some() => StateWords::new("answered", "good"),
        ThreadOutcome::Answered => StateWords::new("sent", "good"),
        ThreadOutcome::Quiet if run.is_some() => StateWords::new("ended without mail", "quiet"),
        ThreadOutcome::Quiet => StateWords::new("no run", "quiet"),
    }
}

fn filed_by(rule: &str) -> StateWords {
    StateWords {
        why: filed::why(rule).to_owned(),
        ..StateWords::new("filed", "quiet")
    }
}

fn withheld(rule: &str) -> StateWords {
    let (words, tone) = match rule {
        // Somebody still waits for an answer.
        "not_approved" => ("rejected, nobody has answered", "bad"),
        "draft" => ("a draft that was not sent", "quiet"),
        _ => {
            return StateWords {
                why: rule.replace('_', " "),
                ..StateWords::new("not sent", "quiet")
            };
        }
    };
    StateWords::new(words, tone)
}

/// Describes what became of a message; `None`: its run says it.
pub(super) fn message_state(disposition: &str, has_run: bool) -> Option<StateWords> {
    match disposition.split_once(':') {
        Some(("filed", rule)) => Some(filed_by(rule)),
        Some(("withheld", rule)) => Some(withheld(rule)),
        _ if has_run || matches!(disposition, "run" | "sent") => None,
        _ => Some(StateWords::new(disposition.replace('_', " "), "quiet")),
    }
}

/// Describes the state of a delivery.
pub(super) fn delivery_state(state: &str, possible_duplicate: bool) -> StateWords {
    let (words, tone) = match state {
        "done" => ("delivered", "good"),
        "failed" => ("failed", "bad"),
        "held" => ("held", "wait"),
        "queued" => ("queued", "busy"),
        "sending" | "committing" => ("sending", "busy"),
        other => (other, "quiet"),
    };
    StateWords {
        why: match possible_duplicate {
            true => "a recipient may have it twice".to_owned(),
            false => String::new(),
        },
        ..StateWords::new(words, tone)
    }
}

/// Formats micro-dollars; nothing for an unknown sum.
pub(super) fn money(micros: Value) -> String {
    match micros.as_i64() {
        None => "–".to_owned(),
        Some(0) => "$0".to_owned(),
        Some(micros) if micros.abs() < 10_000 => format!("${:.4}", dollars(micros)),
        Some(micros) => format!("${:.2}", dollars(micros)),
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with four digits at most")]
fn dollars(micros: i64) -> f64 {
    micros as f64 / 1e6
}

/// Returns the end of an id, as lists of the command line show it.
pub(super) fn short_id(id: String) -> String {
    let from = id.char_indices().rev().nth(7).map_or(0, |(at, _)| at);
    id[from..].to_owned()
}

/// Formats a number of bytes.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} kB", bytes.div_ceil(1024)),
        1_048_576..1_073_741_824 => format!(
            "{}.{} MB",
            bytes / 1_048_576,
            bytes % 1_048_576 * 10 / 1_048_576
        ),
        _ => {
            let mb = bytes / 1_048_576;
            format!("{}.{} GB", mb / 1024, mb % 1024 * 10 / 1024)
        }
    }
}

/// Formats a number of milliseconds.
pub(super) fn span(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        60_000..7_200_000 => format!("{} min", ms / 60_000),
        7_200_000..172_800_000 => format!("{} h", ms / 3_600_000),
        _ => format!("{} days", ms / 86_400_000),
    }
}

/// Formats an instant to the minute, in a zone that it names; a text that is none stays as it is.
pub(super) fn minute(at: &str, zone: Tz) -> String {
    match Timestamp::parse(at) {
        Some(at) => {
            let at = at.to_utc().with_timezone(&zone);
            at.format("%-d %b %Y, %H:%M %Z").to_string()
        }
        None => at.to_owned(),
    }
}

/// Returns the milliseconds between two instants as text; `None` where one is missing.
pub(super) fn ms_between(start: &str, end: Option<&str>) -> Option<u64> {
    let (start, end) = (Timestamp::parse(start)?, Timestamp::parse(end?)?);
    u64::try_from(end.since(start).as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_spans_are_short_and_exact_enough() {
        let sums = [
            Value::from(1_234_567),
            Value::from(42),
            Value::from(0),
            Value::from(()),
        ];
        assert_eq!(sums.map(money), ["$1.23", "$0.0000", "$0", "–"]);
        assert_eq!(
            [5, 1_499, 61_000, 7_300_000, 200_000_000].map(span),
            ["5 ms", "1.4 s", "1 min", "2 h", "2 days"]
        );
        assert_eq!(
            [5, 1_025, 3 << 20, 63_972 << 20].map(size),
            ["5 B", "2 kB", "3.0 MB", "62.4 GB"]
        );
        assert_eq!(short_id("0192f0c1-aaaa".to_owned()), "0c1-aaaa");
        let berlin = chrono_tz::Europe::Berlin;
        let at = "2026-11-25T23:41:03.000Z";
        assert_eq!(minute(at, Tz::UTC), "25 Nov 2026, 23:41 UTC");
        assert_eq!(minute(at, berlin), "26 Nov 2026, 00:41 CET");
    }
}
