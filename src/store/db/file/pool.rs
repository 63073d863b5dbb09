//! Connections that read a file.

use super::{FileConnection, FileOptions};
use crate::store::sqlite::read_health::FailedReads;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Most connections that read at once.
const READERS_MAX: u32 = 4;

/// Connections that read, opened when they are needed.
#[derive(Clone)]
pub struct FilePool {
    options: FileOptions,
    places: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<FileConnection>>>,
    pub failed: Arc<FailedReads>,
}

impl FilePool {
    pub fn new(options: FileOptions) -> Self {
        Self {
            options,
            places: Arc::new(Semaphore::new(READERS_MAX as usize)),
            idle: Arc::default(),
            failed: Arc::default(),
        }
    }

    pub fn options(&self) -> &FileOptions {
        &self.options
    }

    /// Returns a connection when one is free.
    pub async fn acquire(&self) -> Result<FileReader, sqlx::Error> {
        let place = self.places.clone().acquire_owned().await;
        let place = place.map_err(|_closed| sqlx::Error::PoolClosed)?;
        let idle = self.idle().pop();
        let conn = match idle {
            Some(conn) => conn,
            None => self.failed.noted(self.options.open())?,
        };
        Ok(FileReader {
            conn: Some(conn),
            idle: self.idle.clone(),
            _place: place,
        })
    }

    /// Closes the connections, when those who have one have returned it.
    pub async fn close(&self) {
        if let Ok(all) = self.places.acquire_many(READERS_MAX).await {
            self.places.close();
            drop(all);
        }
        self.idle().clear();
    }

    fn idle(&self) -> MutexGuard<'_, Vec<FileConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection of a pool, to which it returns.
pub struct FileReader {
    /// `None` after it has returned.
    conn: Option<FileConnection>,
    idle: Arc<Mutex<Vec<FileConnection>>>,
    _place: OwnedSemaphorePermit,
}

impl FileReader {
    pub fn conn(&mut self) -> Result<&mut FileConnection, sqlx::Error> {
        self.conn.as_mut().ok_or(sqlx::Error::PoolClosed)
    }

    pub fn into_own(mut self) -> Option<FileConnection> {
        self.conn.take()
    }
}

impl Drop for FileReader {
    fn drop(&mut self) {
        // Who was cancelled in the middle of a transaction leaves nothing for the next one.
        if let Some(conn) = self.conn.take().filter(FileConnection::is_at_rest) {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.push(conn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::FileAccess;
    use super::*;
    use std::path::Path;

    /// Returns whether the connection is there again after somebody has left it so.
    async fn is_kept_after(sql: &str) -> bool {
        let memory = FileOptions::new(Path::new(":memory:"), FileAccess::Write, Vec::new());
        let pool = FilePool::new(memory);
        let mut reader = pool.acquire().await.expect("a connection");
        let left = reader.conn().expect("open").execute_batch(sql);
        left.expect("executed");
        drop(reader);
        !pool.idle().is_empty()
    }

    #[tokio::test]
    async fn a_transaction_that_was_left_open_is_nobody_elses() {
        assert!(is_kept_after("BEGIN; SELECT 1; COMMIT").await);
        assert!(!is_kept_after("BEGIN; SELECT 1").await);
    }
}
