//! A wait for the engine that works on a workspace, which may be stopped, busy or broken: when to say so, and when to give up.

use super::other::is_stopped;
use crate::cli::{Exit, Failure};
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
    is_remarked: bool,
}

impl EngineWait {
    pub fn new(awaited: &'static str, longest: Duration, now: Duration) -> Self {
        Self {
            awaited,
            longest,
            since: now,
            is_remarked: false,
        }
    }

    /// Notes that the engine works: the wait begins anew.
    pub fn answered(&mut self, now: Duration) {
        self.since = now;
    }

    /// Returns what is to be said on stderr now, once.
    ///
    /// Errors: it has taken too long.
    pub fn look(&mut self, now: Duration, pid: &str) -> Result<Option<String>, Failure> {
        let (quiet, is_stopped) = (now.saturating_sub(self.since), is_stopped(pid));
        let most = if is_stopped {
            STOPPED_MAX
        } else {
            self.longest
        };
        let state = if is_stopped {
            ", which is stopped,"
        } else {
            ""
        };
        if quiet >= most.min(self.longest) {
            let (seconds, awaited) = (quiet.as_secs(), self.awaited);
            let message =
                format!("waited {seconds} s in vain for process {pid}{state} to {awaited}");
            return Err(Failure::new(Exit::TryAgain, message).hint(hint(pid, is_stopped)));
        }
        let is_due = quiet >= REMARK_AFTER && !std::mem::replace(&mut self.is_remarked, true);
        Ok(is_due.then(|| format!("waiting for process {pid}{state} to {}", self.awaited)))
    }
}

fn hint(pid: &str, is_stopped: bool) -> String {
    match is_stopped {
        true => {
            format!("`kill -CONT {pid}` lets it go on, `attache serve --take-over` replaces it")
        }
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
}
