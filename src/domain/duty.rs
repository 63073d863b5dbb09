//! What a responsibility says beside its schedule: how its slots become runs, and what its runs are held to.

use super::run::word_enum;
use super::{Address, RunId, ThreadId};
use std::time::Duration;

word_enum!(
    /// What becomes of slots that came due while nobody looked.
    CatchUp {
        /// The newest fires, the others are missed.
        Latest = "latest",
        /// None fires.
        Skip = "skip",
        /// They fire one after another, the oldest first; of more than [`SlotTerms::CAUGHT_UP_MAX`] the newest.
        All = "all",
    }
);

word_enum!(
    /// What becomes of a slot that comes due while the run before it is not over.
    Overlap {
        /// It does not fire.
        Skip = "skip",
        /// The first such slot waits for the end of the run; those after it do not fire.
        BufferOne = "buffer_one",
    }
);

word_enum!(
    /// Who paused a responsibility.
    PausedBy {
        /// A person, by `attache schedule pause`.
        Owner = "owner",
        /// The engine, because its runs failed one after another.
        Failures = "failures",
    }
);

/// How slots become runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotTerms {
    pub catch_up: CatchUp,
    /// A slot older than this never fires.
    pub catch_up_window: Duration,
    pub overlap: Overlap,
    /// Slots fire up to this much later than they are due, each always by the same time.
    pub jitter: Duration,
    /// The owner is told when a slot's run has not ended this long after it was to begin.
    pub grace: Duration,
    /// The run in which a persona proposed it.
    pub proposed_by: Option<RunId>,
}

impl SlotTerms {
    /// Slots that [`CatchUp::All`] catches up with.
    pub const CAUGHT_UP_MAX: usize = 24;
}

impl Default for SlotTerms {
    fn default() -> Self {
        Self {
            catch_up: CatchUp::Latest,
            catch_up_window: Duration::from_secs(7 * 24 * 3600),
            overlap: Overlap::Skip,
            jitter: Duration::ZERO,
            grace: Duration::from_secs(3600),
            proposed_by: None,
        }
    }
}

/// Where the answer of a run goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum DeliverTo {
    /// By mail to the engine's owners.
    #[default]
    Owners,
    /// By mail to these people, at least one.
    People(Vec<Address>),
    /// The run stands in this thread and sees it; its answer goes to the people of the thread, as a reply to its newest
    /// letter.
    Thread(ThreadId),
    /// Nowhere: it is stored in the responsibility's own thread.
    Store,
}

/// What the runs of a responsibility are held to, beside budget and output schema. A slot keeps those of its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunTerms {
    /// Context profile, a key of `configs/context.json`.
    pub profile: String,
    /// Instead of the persona's provider; never without a model.
    pub provider: Option<String>,
    /// Instead of the persona's model.
    pub model: Option<String>,
    /// The only tools it may use, of those that its persona may.
    pub tools: Option<Vec<String>>,
    pub deliver_to: DeliverTo,
    /// Attempts after the first; `None`: as `run_attempts_max` of `configs/inference.json` says.
    pub retries: Option<u32>,
}

impl RunTerms {
    pub const PROFILE: &str = "responsibility";
}

impl Default for RunTerms {
    fn default() -> Self {
        Self {
            profile: Self::PROFILE.to_owned(),
            provider: None,
            model: None,
            tools: None,
            deliver_to: DeliverTo::Owners,
            retries: None,
        }
    }
}
