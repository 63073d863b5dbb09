//! What the engine tells the service manager that started it: ready, stopping, alive (sd_notify(3)).
//!
//! Without `NOTIFY_SOCKET` in the environment nothing is told and nothing is watched.

use crate::store::Store;
use sd_notify::NotifyState;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Tells that letters are accepted, with a status line for `systemctl status`.
pub fn tell_ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Tells that the engine stops accepting and lets its work end.
pub(super) fn tell_stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Returns the time after which the service manager ends an engine that it does not hear from
/// (`WatchdogSec=`); `None`: it does not watch this process.
pub(super) fn watchdog_timeout() -> Option<Duration> {
    sd_notify::watchdog_enabled()
}

/// Tells that the engine is alive, three times within `timeout`, as long as the database's writer
/// answers: an engine that can store nothing is of no use, whatever its other tasks do. A write that
/// is refused, for example by a full disk, is an answer.
pub(super) async fn keep_alive(store: Store, timeout: Duration, shutdown: CancellationToken) {
    let mut beat = tokio::time::interval(timeout / 3);
    loop {
        tokio::select! {
            // The time that a shutdown may take is bounded by `limits.drain_max`.
            () = shutdown.cancelled() => return,
            _ = beat.tick() => {}
        }
        let _refused = tokio::select! {
            () = shutdown.cancelled() => return,
            answer = store.writer_answers() => answer,
        };
        tell(&[NotifyState::Watchdog]);
    }
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the service manager cannot be told how the engine fares");
    }
}
