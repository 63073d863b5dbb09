//! Age of the newest backup.

use super::finding::{ExaminedArea, FindingArea, FindingSeverity, InstallCheck, InstallFinding};
use crate::domain::Timestamp;
use crate::store::NewestBackup;
use std::time::Duration;

/// The newest backup, and how old it may be.
pub struct BackupFacts {
    pub last: Option<NewestBackup>,
    /// Interval between backups that the configuration promises; `None`: it promises none.
    pub every: Option<Duration>,
    pub now: Timestamp,
}

static CHECKS: &[InstallCheck<BackupFacts>] = &[overdue];

pub fn examine(facts: &BackupFacts) -> ExaminedArea {
    ExaminedArea::of(CHECKS, facts)
}

/// Half an interval more is granted, since a backup is made in a quiet hour.
fn overdue(facts: &BackupFacts) -> Vec<InstallFinding> {
    let Some(every) = facts.every else {
        return Vec::new();
    };
    let last = facts.last.as_ref();
    let is_late = last.is_none_or(|last| facts.now.since(last.at) > every + every / 2);
    if !is_late {
        return Vec::new();
    }
    let what = match last {
        Some(last) => format!("the newest backup is of {} (`{}`)", last.at, last.file),
        None => "no backup was made of this database".to_owned(),
    };
    let remedy =
        "`attache backup FILE` makes one; the log of the engine says why the scheduled one was not";
    vec![InstallFinding::new(
        FindingArea::Backups,
        FindingSeverity::Fault,
        what,
        remedy,
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_is_late_half_an_interval_after_its_time() {
        let day = Duration::from_secs(24 * 3600);
        let at = Timestamp::from_millis(0);
        let late = |hours: u64, has_backup: bool, every| {
            let last = has_backup.then(|| NewestBackup {
                at,
                file: "house.db".to_owned(),
            });
            let now = at.plus(Duration::from_secs(hours * 3600));
            !examine(&BackupFacts { last, every, now })
                .findings
                .is_empty()
        };
        assert!(!late(36, true, Some(day)));
        assert!(late(37, true, Some(day)));
        assert!(late(0, false, Some(day)));
        assert!(!late(1000, false, None));
    }
}
