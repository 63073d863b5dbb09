//! A slot as a value: a firing, its work, its result.

use crate::domain::{ResponsibilityId, RunId, RunOptions, SlotOptions, Timestamp};
use crate::store::NewSynthetic;
use crate::store::schedules::responsibility::{MissedSlots, NextSlot, Version};

/// Failures in a row after which a responsibility is paused until an operator resumes it.
pub const FAILURES_MAX: u32 = 5;

/// Due slots of a responsibility.
#[derive(Debug, Clone)]
pub struct Firing {
    pub responsibility: ResponsibilityId,
    pub seen: Version,
    pub slot_options: SlotOptions,
    /// The slot to fire, when it is within its window.
    pub slot: Option<DueSlot>,
    /// Slots to catch up with, oldest first.
    pub late: Vec<Timestamp>,
    /// Slots that never fire.
    pub missed: Option<MissedSlots>,
    /// The newest slot that this firing accounts for.
    pub cursor_at: Timestamp,
    pub next: NextSlot,
    pub now: Timestamp,
}

#[derive(Debug, Clone)]
pub struct DueSlot {
    pub at: Timestamp,
    /// Instant at which it was to fire.
    pub fire_at: Timestamp,
    pub to: SlotWork,
}

#[derive(Debug, Clone)]
pub enum SlotWork {
    /// The prompt with its run; `thread` is filled in from the responsibility.
    Run(Box<ScheduledPrompt>),
    /// Error of rendering the prompt; the slot is missed, with this note.
    Unrenderable(String),
}

/// A rendered prompt with its run.
#[derive(Debug, Clone)]
pub struct ScheduledPrompt {
    pub message: NewSynthetic,
    /// SHA-256 of the template, in hex.
    pub prompt_sha256: String,
    /// JSON Schema of the run's answer.
    pub output_schema: Option<String>,
    /// Options of the run besides the schema.
    pub run_options: RunOptions,
}

/// Result of a firing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fired {
    Run(RunId),
    /// Number of slots that now wait for their turn.
    Waiting(usize),
    /// The previous run is not over.
    SkippedOverlap,
    /// No slot fires; missed slots were accounted for.
    Missed,
    /// The slot has a row of an earlier firing, for example from before the clock was set back.
    AlreadyAccounted,
    /// Another process fired the slot, or the responsibility changed meanwhile: nothing was
    /// written.
    Stale,
}

impl std::fmt::Display for Fired {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Run(run) => write!(f, "run {run}"),
            Self::Waiting(slots) => write!(f, "{slots} wait"),
            Self::SkippedOverlap => f.write_str("skipped, because the previous run is not over"),
            Self::Missed => f.write_str("missed"),
            Self::AlreadyAccounted => f.write_str("fired before"),
            Self::Stale => f.write_str("left to whoever changed it meanwhile"),
        }
    }
}
