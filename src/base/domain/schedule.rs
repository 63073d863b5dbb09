//! Settings of a responsibility besides its schedule: how its slots become runs, and the options of
//! its runs.

use super::approval::{PlanMode, ReplyMode};
use super::run::word_enum;
use super::{Address, RunId, ThreadId};
use std::time::Duration;

/// Tools that only a responsibility of the owner's own may name: they read the memory of all people.
pub const OWNER_SCHEDULE_TOOLS: [&str; 2] = ["list_memory", "propose_memory_change"];

word_enum!(
    /// Action on slots that came due while no engine ran.
    CatchUp {
        /// The newest slot fires, the others are missed.
        Latest = "latest",
        /// No slot fires.
        Skip = "skip",
        /// The slots fire one after another, the oldest first; of more than
        /// [`SlotOptions::CAUGHT_UP_MAX`] the newest.
        All = "all",
    }
);

word_enum!(
    /// Action on a slot that comes due while the previous run is not over.
    Overlap {
        /// The slot does not fire.
        Skip = "skip",
        /// The first such slot waits for the end of the run; later ones do not fire.
        BufferOne = "buffer_one",
    }
);

word_enum!(
    /// Actor that paused a responsibility.
    PausedBy {
        /// A person, by `attache schedule pause`.
        Owner = "owner",
        /// The engine, because its runs failed one after another.
        Failures = "failures",
    }
);

/// Options by which slots become runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotOptions {
    pub catch_up: CatchUp,
    /// Age above which a slot never fires.
    pub catch_up_window: Duration,
    pub overlap: Overlap,
    /// Longest delay of a slot after its due time; the delay of a responsibility is constant.
    pub jitter: Duration,
    /// Time after a slot's begin after which the owner is notified that its run has not ended.
    pub grace: Duration,
    /// The run in which a persona proposed the responsibility.
    pub proposed_by: Option<RunId>,
}

impl SlotOptions {
    /// Most slots that [`CatchUp::All`] catches up with.
    pub const CAUGHT_UP_MAX: usize = 24;
}

impl Default for SlotOptions {
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

/// Destination of the answer of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum DeliverTo {
    /// By mail to the engine's owners.
    #[default]
    Owners,
    /// By mail to the sender of the letter that the run answers.
    Sender,
    /// By mail to these addresses, at least one.
    People(Vec<Address>),
    /// The run belongs to this thread and sees it; its answer goes to the participants, as a reply
    /// to its newest letter.
    Thread(ThreadId),
    /// No mail: the answer is stored in the thread of the run.
    Store,
}

/// Options of the runs of a responsibility or of letters, besides budget and output schema. A slot
/// keeps the options of its run; the run of a letter has its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOptions {
    /// Context profile, a key of `configs/context.json`.
    pub profile: String,
    /// Provider that replaces the persona's; never without a model.
    pub provider: Option<String>,
    /// Model that replaces the persona's.
    pub model: Option<String>,
    /// The tools that its runs may use, a subset of the persona's; `None`: all of them.
    pub tools: Option<Vec<String>>,
    pub deliver_to: DeliverTo,
    /// Retries after the first attempt; `None`: `run_attempts_max` of `configs/inference.json`.
    pub retries: Option<u32>,
    /// Whether its runs propose a plan first; `None`: as the persona's.
    pub plan: Option<PlanMode>,
    pub settings: RunSettings,
    /// Handling of the final text; `None`: as the persona's.
    pub reply: Option<ReplyMode>,
}

impl RunOptions {
    pub const PROFILE: &str = "responsibility";
    /// Profile of letters whose persona names no other.
    pub const LETTER_PROFILE: &str = "thread";

    /// Returns the default options of the runs of letters.
    pub fn for_letters() -> Self {
        Self {
            profile: Self::LETTER_PROFILE.to_owned(),
            deliver_to: DeliverTo::Sender,
            ..Self::default()
        }
    }
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            profile: Self::PROFILE.to_owned(),
            provider: None,
            model: None,
            tools: None,
            deliver_to: DeliverTo::Owners,
            retries: None,
            plan: None,
            settings: RunSettings::default(),
            reply: None,
        }
    }
}

/// Settings of the calls and bounds of a run, as one level sets them: its duty or a rule for
/// letters, its persona, the block of a provider. `None` leaves a setting to the next level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunSettings {
    /// Maximum output tokens of a call.
    pub max_output_tokens: Option<u32>,
    pub temperature: Option<Temperature>,
    /// Maximum provider calls of a run.
    pub max_tool_turns: Option<u32>,
    /// Maximum tool calls of a run.
    pub tool_calls_max: Option<u32>,
    /// Maximum working time of a run.
    pub duration_max: Option<Duration>,
    /// Maximum duration of a provider call.
    pub call_timeout: Option<Duration>,
    /// Maximum time without data from a provider.
    pub idle_timeout: Option<Duration>,
}

impl RunSettings {
    /// Bounds that also hold where a level may set a value.
    pub const OUTPUT_TOKENS_MAX: u32 = 10_000_000;
    pub const TURNS_MAX: u32 = 1000;
    pub const TOOL_CALLS_MAX: u32 = 100_000;
    /// Shortest and longest time of a run or a call that a duty or a rule for letters may set.
    pub const SPAN_MIN: Duration = Duration::from_secs(1);
    pub const SPAN_MAX: Duration = Duration::from_secs(24 * 3600);
}

/// Sampling temperature from 0 to 2, in thousandths: values that are equal are written alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Temperature(u16);

impl Temperature {
    /// Rounds a number to thousandths; `None` for one that is not from 0 to 2.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 2000"
    )]
    pub fn from_number(number: f64) -> Option<Self> {
        let thousandths = (number * 1000.0).round();
        (0.0..=2000.0)
            .contains(&thousandths)
            .then_some(Self(thousandths as u16))
    }

    /// Returns the number nearest to the thousandths.
    pub fn value(self) -> f32 {
        f32::from(self.0) / 1000.0
    }

    /// As [`Self::value`], for JSON: `0.7` for 700.
    pub fn number(self) -> f64 {
        f64::from(self.0) / 1000.0
    }
}
