//! Points at which a test may kill the engine: `crash_point!("I3")` on the line in question.
//!
//! With debug assertions, `ATTACHE_CRASH=I3:2` aborts the process when it reaches I3 for
//! the second time. Without it a point expands to nothing, and the shipped binary has neither the
//! points nor the variable (decision D-36). A point needs a line in `POINTS`, at least one call
//! site, and a workload of the sweep (`tests/it/crash_points/`) that reaches it.

/// Names a crash point. A condition after the name restricts the point; a plain build does not
/// evaluate it.
#[cfg(debug_assertions)]
#[macro_export]
macro_rules! crash_point {
    ($name:literal) => {
        $crate::crash::meet($name)
    };
    ($name:literal, $condition:expr) => {
        if $condition {
            $crate::crash::meet($name);
        }
    };
}
#[cfg(not(debug_assertions))]
#[macro_export]
macro_rules! crash_point {
    ($name:literal $(, $condition:expr)?) => {};
}
pub use crate::crash_point;

/// Reports whether a test of power cuts runs its control: an engine that reports a commit before
/// the disk has it (`ATTACHE_CHAOS_SYNCHRONOUS=NORMAL`). Always `false` in a plain build (decision
/// D-36).
pub fn is_unsafe_sync() -> bool {
    #[cfg(debug_assertions)]
    return std::env::var("ATTACHE_CHAOS_SYNCHRONOUS").is_ok_and(|value| value == "NORMAL");
    #[cfg(not(debug_assertions))]
    false
}

#[cfg(debug_assertions)]
pub use armed::{POINTS, meet};

#[cfg(debug_assertions)]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// `NAME:HIT`; hits count from 1 and over all threads.
    const VARIABLE: &str = "ATTACHE_CRASH";

    /// Every point, and the state on disk when the engine dies there.
    pub const POINTS: &[(&str, &str)] = &[
        ("I0", "nothing: a recipient is being judged"),
        ("I1", "nothing: a part of the letter is in memory"),
        (
            "I2",
            "nothing: the letter is read, judged and about to be stored",
        ),
        (
            "I3",
            "nothing: the letter stands in a transaction that is not committed",
        ),
        ("I4", "the letter and its run; the peer has no yes"),
        (
            "I5",
            "the letter and its run; the peer has its yes and has spoken since",
        ),
        ("IM1", "nothing: a letter of a mailbox is fetched"),
        (
            "IM2",
            "the letter and its run; on its server it is not marked",
        ),
        (
            "IM3",
            "the letter and its run; on its server it is marked, and that is not written down",
        ),
        ("R1", "a claimed run"),
        ("R2", "a claimed run; its context is in memory"),
        (
            "R3",
            "a request, the first one with its context, and the advance for it; nothing was sent",
        ),
        (
            "R4",
            "the same; the provider has it, and a part of its answer is in memory",
        ),
        ("R5", "the same; the whole answer is in memory"),
        (
            "R6",
            "an answer, with the call or the end that followed from it",
        ),
        ("R7", "a call that has not begun"),
        (
            "R8",
            "a call that has taken effect, if it acts outside the store; its result is in memory",
        ),
        ("R9", "a result with its effect in the store"),
        (
            "R10",
            "all but the end: it stands in a transaction that is not committed",
        ),
        (
            "R11",
            "a request to cancel the run; the worker has just seen it",
        ),
        (
            "A1",
            "nothing of a question: it stands in a transaction that is not committed, with its call",
        ),
        (
            "A2",
            "an open question: its decision stands in a transaction that is not committed",
        ),
        (
            "A3",
            "an open question: its decision with all effects stands in a transaction that is not committed",
        ),
        (
            "A4",
            "an approved call that is written down as begun; its tool has not run",
        ),
        (
            "A5",
            "a draft as it was before an edit; the edit stands in a transaction that is not committed",
        ),
        ("O1", "a queued mail"),
        ("O2", "a claimed mail; the transport was not asked"),
        ("O3", "a claimed mail; the server waits for its bytes"),
        (
            "O4",
            "a mail past the point of no return; the final dot is sent and not answered",
        ),
        ("O5", "the same; the server said yes"),
        (
            "O6",
            "a verdict for every recipient; the connection is open",
        ),
        (
            "O7",
            "the same; one recipient has the mail and another one not yet",
        ),
        (
            "MC1",
            "a command by mail with its letter; its effect stands in a transaction that is not committed",
        ),
        (
            "MC2",
            "the effect of the command; the answer stands in a transaction that is not committed",
        ),
        ("MC3", "the effect of the command, with its outcome"),
        ("MC4", "the effect of the command, and its queued answer"),
        ("SC1", "nothing of the slot: its work is in memory"),
        (
            "SC2",
            "nothing of the slot: it stands in a transaction that is not committed",
        ),
        (
            "SC3",
            "the slot, its message and its run; no worker was woken",
        ),
        (
            "SC4",
            "a slot that waits for its turn, with the cursor behind it; nobody has looked at it",
        ),
        (
            "SC5",
            "a slot that waits: its message and its run stand in a transaction that is not committed",
        ),
        (
            "SC6",
            "as many failures as are allowed; the pause stands in a transaction that is not committed",
        ),
        (
            "U1",
            "the database as it was, and a copy of it under a temporary name",
        ),
        ("U2", "the database as it was, and a whole copy of it"),
        (
            "U3",
            "the database with some of the migrations that it lacked",
        ),
        (
            "U4",
            "the database with some of the migrations, and a part of one in a transaction that is not committed",
        ),
        ("E1", "an erasure that is written down; nothing is erased"),
        ("E2", "the same; files and memory are erased, and no letter"),
        (
            "E3",
            "the same; every row is erased, and the file has old pages",
        ),
        ("K1", "a whole backup under a temporary name"),
        (
            "K2",
            "a restored workspace, but for the database, which is there under a temporary name",
        ),
        (
            "K3",
            "a whole copy of the database, under a temporary name; whatever is made of it has no name yet",
        ),
        (
            "K4",
            "a backup under a temporary name that lacks a plain file and the manifest",
        ),
        (
            "K5",
            "a whole backup under its name; no row says that it was made",
        ),
        (
            "K6",
            "a restored workspace that lacks a plain file and the database, and the mark of a restore",
        ),
        ("W1", "what was there before a group of writes"),
        ("W2", "the group of writes; nobody was told"),
    ];

    struct Order {
        point: String,
        hit: u32,
    }

    /// Reaches a point; does not return if the process is to die there.
    pub fn meet(point: &'static str) {
        static ORDER: OnceLock<Option<Order>> = OnceLock::new();
        static HITS: AtomicU32 = AtomicU32::new(0);
        tracing::trace!(point);
        let Some(order) = ORDER.get_or_init(order) else {
            return;
        };
        if order.point == point && HITS.fetch_add(1, Ordering::Relaxed) + 1 == order.hit {
            // No destructor runs and no buffer is flushed, as after `kill -9`.
            std::process::abort();
        }
    }

    fn order() -> Option<Order> {
        let value = std::env::var(VARIABLE).ok()?;
        let order = value.split_once(':').and_then(|(point, hit)| {
            let is_listed = POINTS.iter().any(|(name, _)| *name == point);
            Some(Order {
                point: point.to_owned(),
                hit: hit.parse().ok().filter(|_| is_listed)?,
            })
        });
        if order.is_none() {
            // A sweep with a misspelt name would pass without having tested anything.
            tracing::error!(%value, "`{VARIABLE}` names no crash point; it is `NAME:HIT`");
            std::process::abort();
        }
        order
    }
}
