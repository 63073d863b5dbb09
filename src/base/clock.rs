//! The only source of the current time and of ids; a manual one for tests.

use crate::domain::{Timestamp, sha256_hex};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Source of time and randomness, as an argument.
pub trait Clock: Send + Sync {
    /// Wall-clock time; may step.
    fn now(&self) -> Timestamp;
    /// Time since some fixed instant; never steps back. For budgets and deadlines.
    fn monotonic(&self) -> Duration;
    /// Reports whether this is the clock of the machine, which other machines' clocks can be compared with.
    fn is_of_machine(&self) -> bool {
        false
    }
    /// A new id, UUIDv7 text: later ids sort after earlier ones of the same clock.
    fn new_id(&self) -> String;
    /// A new unguessable text, even for a peer that sees our ids: 20 hexadecimal digits, 80 bits.
    ///
    /// Made from four ids, because a UUIDv7 next to a known one has only 32 bits that are not a
    /// counter.
    fn new_token(&self) -> String {
        let ids: [String; 4] = std::array::from_fn(|_| self.new_id());
        let mut token = sha256_hex(&ids.each_ref().map(String::as_bytes));
        token.truncate(20);
        token
    }
    /// A new secret of 256 bits, in hexadecimal digits, made as [`Clock::new_token`] from enough ids.
    fn new_secret(&self) -> String {
        let ids: [String; 12] = std::array::from_fn(|_| self.new_id());
        sha256_hex(&ids.each_ref().map(String::as_bytes))
    }
}

/// The machine's clock.
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // A clock before 1970 reads as 1970: letters are still accepted, with a Date that shows the
        // fault.
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }
    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
    fn is_of_machine(&self) -> bool {
        true
    }
    fn new_id(&self) -> String {
        uuid::Uuid::now_v7().to_string()
    }
}

/// A clock that moves only when a test sets it.
pub struct ManualClock {
    state: Mutex<ManualState>,
}

struct ManualState {
    now: Timestamp,
    monotonic: Duration,
    ids: u64,
}

impl ManualClock {
    pub fn at(now: Timestamp) -> Self {
        Self {
            state: Mutex::new(ManualState {
                now,
                monotonic: Duration::ZERO,
                ids: 0,
            }),
        }
    }
    /// Advances wall and monotonic time.
    pub fn advance(&self, span: Duration) {
        let mut state = self.lock();
        state.now = state.now.plus(span);
        state.monotonic += span;
    }
    /// Steps the wall clock, as an operator or NTP would; monotonic time stays unchanged.
    pub fn set(&self, now: Timestamp) {
        self.lock().now = now;
    }
    fn lock(&self) -> std::sync::MutexGuard<'_, ManualState> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.lock().now
    }
    fn monotonic(&self) -> Duration {
        self.lock().monotonic
    }
    fn new_id(&self) -> String {
        let mut state = self.lock();
        state.ids += 1;
        let ms = state.now.as_millis() & 0xffff_ffff_ffff;
        format!(
            "{:08x}-{:04x}-7000-8000-{:012x}",
            ms >> 16,
            ms & 0xffff,
            state.ids
        )
    }
}
