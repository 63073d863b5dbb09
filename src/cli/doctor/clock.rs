//! The clock of this machine: beside the newest row, whether it is kept by a time server, and, with `--online`, beside the clocks
//! of the servers that are asked anyway.

use super::finding::{ExaminedArea, FindingArea, FindingSeverity, InstallCheck, InstallFinding};
use crate::config::spell;
use crate::domain::Timestamp;
use crate::store::ROW_AHEAD_MAX;
use std::path::Path;
use std::time::Duration;

/// Distance to the clock of a server from which it is worth a warning: answers take a while, and their clock has whole seconds.
const APART_MAX: Duration = Duration::from_secs(60);
/// Distance from which it is a fault: signatures with an end, certificates and codes of logins fail.
const APART_FAULT: Duration = Duration::from_secs(5 * 60);
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

/// Clock of a server beside the one of this machine.
pub struct ServerClock {
    /// The server, in words.
    pub of: String,
    pub there: Timestamp,
    pub here: Timestamp,
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

/// Compares this machine's clock with those of servers; the one that is nearest to it counts, since a server may be wrong, too.
pub fn compare(servers: &[ServerClock]) -> ExaminedArea {
    static CHECKS: &[InstallCheck<[ServerClock]>] = &[apart];
    match servers {
        [] => ExaminedArea::default(),
        servers => ExaminedArea::of(CHECKS, servers),
    }
}

fn apart(servers: &[ServerClock]) -> Vec<InstallFinding> {
    let distance = |server: &ServerClock| {
        let millis = server.here.as_millis().abs_diff(server.there.as_millis());
        Duration::from_millis(millis)
    };
    let Some(server) = servers.iter().min_by_key(|server| distance(server)) else {
        return Vec::new();
    };
    let severity = match distance(server) {
        by if by <= APART_MAX => return Vec::new(),
        by if by <= APART_FAULT => FindingSeverity::Warning,
        _ => FindingSeverity::Fault,
    };
    let which = match server.here > server.there {
        true => "ahead of",
        false => "behind",
    };
    let what = format!(
        "this clock is {} {which} that of {}: it is {} here, and {} there",
        spell(Duration::from_secs(distance(server).as_secs() / 60 * 60)),
        server.of,
        server.here,
        server.there
    );
    finding(
        severity,
        what,
        "set the clock (`timedatectl set-ntp true`): up to a minute is taken for the way of the answer",
    )
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
        .filter(|at| *at > facts.now.plus(ROW_AHEAD_MAX))
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
    fn a_clock_is_judged_by_the_nearest_server() {
        let server = |off_s: i64| ServerClock {
            of: "provider `grok`".to_owned(),
            there: Timestamp::from_millis(EARLIEST_MS + off_s * 1000),
            here: Timestamp::from_millis(EARLIEST_MS),
        };
        use FindingSeverity::{Fault, Warning};
        for (offsets, found) in [
            (&[][..], None),
            (&[0], None),
            (&[60], None),
            (&[-61], Some(Warning)),
            (&[300], Some(Warning)),
            (&[301], Some(Fault)),
            (&[-3600], Some(Fault)),
            (&[-3600, 2], None),
        ] {
            let servers: Vec<ServerClock> = offsets.iter().map(|off| server(*off)).collect();
            let findings = compare(&servers).findings;
            let severities: Vec<FindingSeverity> =
                findings.iter().map(|one| one.severity).collect();
            assert_eq!(severities, Vec::from_iter(found), "{offsets:?}");
        }
        let what = &compare(&[server(3600)]).findings[0].what;
        assert!(
            what.starts_with("this clock is 1h behind that of provider `grok`"),
            "{what}"
        );
    }

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
