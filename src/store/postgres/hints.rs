//! Hints of nodes that a queue has new work, by LISTEN and NOTIFY
//! (<https://www.postgresql.org/docs/15/sql-notify.html>).
//!
//! A hint is a statement of its own: NOTIFY within a transaction has each commit of the whole server wait for the one before. One
//! that is lost costs a second, because each node looks at the queues every second.

use super::url::DatabaseUrl;
use sqlx::postgres::{PgListener, PgPoolOptions};
use std::time::Duration;

/// `$1`: epoch of the node, a blank, and the name of the queue.
pub static NOTIFY: &str = "SELECT pg_notify('attache_queue', $1)";
/// Time that a new connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A queue whose new work a node may leave to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HintedQueue {
    /// Runs that are due.
    Runs,
    /// Mails that are due.
    Mail,
}

impl HintedQueue {
    pub(in crate::store) fn payload(self, epoch: i64) -> String {
        format!("{epoch} {}", self.name())
    }

    fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Mail => "mail",
        }
    }

    /// Reads the hint of another node; `None`: it is this node's, or that of a newer program.
    fn of_payload(payload: &str, epoch: i64) -> Option<Self> {
        let (sender, name) = payload.split_once(' ')?;
        let queues = [Self::Runs, Self::Mail];
        let queue = queues.into_iter().find(|queue| queue.name() == name);
        queue.filter(|_| sender.parse() != Ok(epoch))
    }
}

/// Hints that the other nodes send, on a connection of its own.
pub struct QueueHints {
    url: DatabaseUrl,
    epoch: i64,
    listener: Option<PgListener>,
}

impl QueueHints {
    pub(in crate::store) fn new(url: DatabaseUrl, epoch: i64) -> Self {
        Self {
            url,
            epoch,
            listener: None,
        }
    }

    /// Connects, unless it is connected. Hints from now on are received.
    ///
    /// Errors: the server cannot be reached; the next call tries it again.
    pub async fn connect(&mut self) -> Result<(), sqlx::Error> {
        self.listener().await.map(|_connected| ())
    }

    async fn listener(&mut self) -> Result<&mut PgListener, sqlx::Error> {
        let listener = match self.listener.take() {
            Some(listener) => listener,
            None => {
                let pool = PgPoolOptions::new()
                    .max_connections(1)
                    .acquire_timeout(CONNECT_TIMEOUT)
                    .connect_lazy_with(self.url.options_to_listen(self.epoch));
                let mut listener = PgListener::connect_with(&pool).await?;
                listener.listen("attache_queue").await?;
                listener
            }
        };
        Ok(self.listener.insert(listener))
    }

    /// Returns the next hint of another node. A lost connection is made anew.
    ///
    /// Errors: the server cannot be reached; the next call tries it again.
    pub async fn next(&mut self) -> Result<HintedQueue, sqlx::Error> {
        let epoch = self.epoch;
        let listener = self.listener().await?;
        loop {
            let hint = listener.recv().await?;
            if let Some(queue) = HintedQueue::of_payload(hint.payload(), epoch) {
                return Ok(queue);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::HintedQueue;

    #[test]
    fn a_hint_is_read_by_others_than_its_sender() {
        let payload = HintedQueue::Mail.payload(7);
        assert_eq!(payload, "7 mail");
        assert_eq!(
            HintedQueue::of_payload(&payload, 8),
            Some(HintedQueue::Mail)
        );
        for (payload, epoch) in [(&*payload, 7), ("7 forks", 8), ("mail", 8), ("", 8)] {
            assert_eq!(HintedQueue::of_payload(payload, epoch), None, "{payload:?}");
        }
    }
}
