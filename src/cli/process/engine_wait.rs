//! A wait for the engine that works on a workspace, which may be stopped, busy or broken: when to say so, and when to give up.

use super::other::{is_stopped, stopped_hint};
use crate::cli::{Exit, Failure, refuse};
use std::time::Duration;

/// Time after which a command says what it waits for.
const REMARK_AFTER: Duration = Duration::from_secs(5);
/// Longest wait for a process that is stopped: it does not go on by itself.
const STOPPED_MAX: Duration = Duration::from_secs(10);

/// A wait for the engine of a workspace. Instants are those of [`crate::clock::Clock::monotonic`].
pub struct EngineWait {
    /// What the engine is to do, behind `to`: `read its files`.
    awaited: &'static str,
    /// Longest wait for a process that is not stopped.
    longest: Duration,
    since: Duration,
    /// When the process was first seen stopped; `None`: it is not.
    stopped_since: Option<Duration>,
    is_remarked: bool,
}

impl EngineWait {
    pub fn new(awaited: &'static str, longest: Duration, now: Duration) -> Self {
        Self {
            awaited,
            longest,
            since: now,
            stopped_since: None,
            is_remarked: false,
        }
    }

    /// Notes that the engine works: the wait begins anew.
    pub fn answered(&mut self, now: Duration) {
        self.since = now;
        self.stopped_since = None;
    }

    /// Returns what is to be said on stderr now, once.
    ///
    /// Errors: it has taken too long.
    pub fn look(&mut self, now: Duration, pid: &str) -> Result<Option<String>, Failure> {
        self.look_at(now, pid, is_stopped(pid))
    }

    fn look_at(
        &mut self,
        now: Duration,
        pid: &str,
        is_stopped: bool,
    ) -> Result<Option<String>, Failure> {
        let quiet = now.saturating_sub(self.since);
        self.stopped_since = is_stopped.then(|| self.stopped_since.unwrap_or(now));
        let stopped = self.stopped_since.map(|since| now.saturating_sub(since));
        let state = match is_stopped {
            true => ", which is stopped,",
            false => "",
        };
        if quiet >= self.longest || stopped.is_some_and(|stopped| stopped >= STOPPED_MAX) {
            let (seconds, awaited) = (quiet.as_secs(), self.awaited);
            return refuse(
                Exit::TryAgain,
                format!("waited {seconds} s in vain for process {pid}{state} to {awaited}"),
                hint(pid, is_stopped),
            );
        }
        let is_due = quiet >= REMARK_AFTER && !std::mem::replace(&mut self.is_remarked, true);
        Ok(is_due.then(|| format!("waiting for process {pid}{state} to {}", self.awaited)))
    }
}

fn hint(pid: &str, is_stopped: bool) -> String {
    match is_stopped {
        true => stopped_hint(pid),
        false => "its log says why: `attache status` and `attache doctor` look the workspace over"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_announced_once_and_has_an_end() {
        let (pid, at) = (std::process::id().to_string(), Duration::from_secs);
        let mut wait = EngineWait::new("answer", at(30), at(100));
        assert!(wait.look(at(104), &pid).expect("early").is_none());
        let remark = wait.look(at(105), &pid).expect("early").expect("a remark");
        assert_eq!(remark, format!("waiting for process {pid} to answer"));
        assert!(wait.look(at(129), &pid).expect("early").is_none());
        wait.answered(at(129));
        assert!(wait.look(at(158), &pid).expect("early").is_none());
        let late = wait.look(at(159), &pid).expect_err("too long");
        assert!(late.to_string().contains("30 s in vain"), "{late}");
    }

    #[test]
    fn a_stopped_process_has_its_time_since_it_was_stopped() {
        let at = Duration::from_secs;
        let mut wait = EngineWait::new("answer", at(600), at(0));
        assert!(wait.look_at(at(60), "7", false).expect("busy").is_some());
        for second in [61, 70] {
            assert!(wait.look_at(at(second), "7", true).is_ok(), "{second}");
        }
        assert!(wait.look_at(at(71), "7", false).is_ok(), "it goes on");
        assert!(wait.look_at(at(72), "7", true).is_ok(), "stopped anew");
        assert!(wait.look_at(at(81), "7", true).is_ok());
        let late = wait.look_at(at(82), "7", true).expect_err("ten seconds");
        assert!(late.to_string().contains("which is stopped"), "{late}");
    }
}
