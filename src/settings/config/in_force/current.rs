//! A value in force that is replaced while others work with it, such as the settings of an engine.
//!
//! Each unit of work (a letter, a run, a request) takes it once and keeps it to its end, so it never sees two.

use std::sync::Arc;
use tokio::sync::watch;

/// Value in force.
pub struct Current<T>(watch::Sender<Arc<T>>);

impl<T> Current<T> {
    pub fn new(value: Arc<T>) -> Self {
        Self(watch::Sender::new(value))
    }

    /// Returns the value in force now.
    pub fn get(&self) -> Arc<T> {
        self.0.borrow().clone()
    }

    /// Puts another value in force for all work that begins from now on.
    pub fn replace(&self, value: Arc<T>) {
        self.0.send_replace(value);
    }

    /// Returns a receiver that is woken at each replacement.
    pub fn changes(&self) -> watch::Receiver<Arc<T>> {
        self.0.subscribe()
    }
}
