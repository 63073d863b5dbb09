//! What `attache doctor` finds of the installation, as the page shows it: looked for at most once a minute, and in bounded time.

use crate::clock::Clock;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// Time for which an examination is shown.
const SHOWN: Duration = Duration::from_secs(60);
/// Longest time for which the page waits for one, its own or another request's.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Finding about the installation, in the words of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallationFinding {
    pub area: &'static str,
    pub severity: &'static str,
    pub says: String,
    pub remedy: String,
}

/// Outcome of an examination.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExaminedInstallation {
    pub checks: usize,
    pub findings: Vec<InstallationFinding>,
}

/// Looks at the installation as `attache doctor` does, and asks nobody.
pub trait InstallationExaminer: Send + Sync {
    fn examine(&self) -> BoxFuture<'_, ExaminedInstallation>;
}

/// Examiner with its last examination.
pub struct InstallationWatch {
    examiner: Arc<dyn InstallationExaminer>,
    clock: Arc<dyn Clock>,
    /// Last examination, with the instant of the clock that only goes forward.
    last: Mutex<Option<(Duration, Arc<ExaminedInstallation>)>>,
    wait_max: Duration,
}

impl InstallationWatch {
    pub fn new(examiner: Arc<dyn InstallationExaminer>, clock: Arc<dyn Clock>) -> Self {
        Self {
            examiner,
            clock,
            last: Mutex::new(None),
            wait_max: WAIT_MAX,
        }
    }

    /// Changes the longest time for which a page waits.
    #[must_use]
    pub fn waiting_for(self, wait_max: Duration) -> Self {
        Self { wait_max, ..self }
    }

    /// Returns the examination of the last minute, or makes one; `None`: it takes longer than a page may.
    pub async fn latest(&self) -> Option<Arc<ExaminedInstallation>> {
        tokio::time::timeout(self.wait_max, async {
            // Requests that come meanwhile wait for the one that looks.
            let mut last = self.last.lock().await;
            let now = self.clock.monotonic();
            if let Some((_, made)) = last
                .as_ref()
                .filter(|(at, _)| now.saturating_sub(*at) < SHOWN)
            {
                return made.clone();
            }
            let made = Arc::new(self.examiner.examine().await);
            *last = Some((now, made.clone()));
            made
        })
        .await
        .ok()
    }
}
