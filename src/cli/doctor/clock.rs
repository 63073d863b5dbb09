//! The clock of this machine: beside the newest row, and whether it is kept by a time server.
//!
//! Absent on purpose: time of other servers, which `--online` compares where it asks one.

use super::finding::{ExaminedArea, FindingArea, FindingSeverity, InstallCheck, InstallFinding};
use crate::domain::Timestamp;
use std::path::Path;
use std::time::Duration;

/// Distance from which the newest row is in the future.
const AHEAD_MAX: Duration = Duration::from_secs(60);
/// No clock of a working machine shows less: this program is younger. 2026-01-01.
const EARLIEST_MS: i64 = 1_767_225_600_000;
/// Folder of systemd's client of time servers, and its mark that the clock is theirs (systemd-timesyncd.service(8)).
const TIMESYNC: &str = "/run/systemd/timesync";

/// The clock and what it can be compared with.
pub struct ClockFacts {
    pub now: Timestamp,
    /// Instant of the newest row.
    pub newest_row: Option<Timestamp>,
    /// `None`: nothing tells.
    pub is_kept: Option<bool>,
}

static CHECKS: &[InstallCheck<ClockFacts>] = &[went_back, unset, unkept];

pub fn examine(now: Timestamp, newest_row: Option<Timestamp>) -> ExaminedArea {
    let folder = Path::new(TIMESYNC);
    let is_kept = folder
        .is_dir()
        .then(|| folder.join("synchronized").exists());
    let facts = ClockFacts {
        now,
        newest_row,
        is_kept,
    };
    ExaminedArea::of(CHECKS, &facts)
}

fn finding(severity: FindingSeverity, what: String, remedy: &str) -> Vec<InstallFinding> {
    vec![InstallFinding::new(
        FindingArea::Clock,
        severity,
        what,
        remedy,
    )]
}

fn went_back(facts: &ClockFacts) -> Vec<InstallFinding> {
    let Some(newest) = facts
        .newest_row
        .filter(|at| *at > facts.now.plus(AHEAD_MAX))
    else {
        return Vec::new();
    };
    let what = format!(
        "it is {} here, and the newest row of the database is of {newest}: the clock went back, or was ahead",
        facts.now
    );
    let remedy = "set the clock (`timedatectl set-ntp true`), and start the engine anew: it brings forward what waits";
    finding(FindingSeverity::Fault, what, remedy)
}

fn unset(facts: &ClockFacts) -> Vec<InstallFinding> {
    if facts.now.as_millis() >= EARLIEST_MS {
        return Vec::new();
    }
    let what = format!(
        "it is {} here, which is before this program was written",
        facts.now
    );
    let remedy = "set the clock (`timedatectl set-ntp true`): certificates, signatures and schedules go by it";
    finding(FindingSeverity::Fault, what, remedy)
}

fn unkept(facts: &ClockFacts) -> Vec<InstallFinding> {
    if facts.is_kept != Some(false) {
        return Vec::new();
    }
    let what = "no time server has set the clock since this machine started".to_owned();
    let remedy = "see `timedatectl timesync-status`; signatures of letters are judged by the clock";
    finding(FindingSeverity::Warning, what, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_judged_by_the_newest_row_and_by_what_keeps_it() {
        let facts = |now_ms, newest_ms: Option<i64>, is_kept| ClockFacts {
            now: Timestamp::from_millis(now_ms),
            newest_row: newest_ms.map(Timestamp::from_millis),
            is_kept,
        };
        let good = facts(EARLIEST_MS, Some(EARLIEST_MS + 59_000), None);
        let severities = |facts| {
            let found = ExaminedArea::of(CHECKS, facts).findings;
            found.iter().map(|one| one.severity).collect::<Vec<_>>()
        };
        assert_eq!(severities(&good), []);
        let hour_off = facts(EARLIEST_MS, Some(EARLIEST_MS + 3_600_000), Some(true));
        assert_eq!(severities(&hour_off), [FindingSeverity::Fault]);
        let unset = facts(0, None, Some(false));
        assert_eq!(
            severities(&unset),
            [FindingSeverity::Fault, FindingSeverity::Warning]
        );
    }
}
