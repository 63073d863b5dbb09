//! Occasions on which an owner's programs are asked, and what they may say.

use super::run::word_enum;

word_enum!(
    /// Occasion of a hook.
    HookEvent {
        /// A run is about to begin.
        BeforeRun = "before_run",
        /// A tool is about to be called.
        BeforeCall = "before_call",
        /// A call has succeeded, and the model has not read its result.
        AfterCall = "after_call",
        /// A mail of a run is about to be queued.
        BeforeSend = "before_send",
        /// A run has ended.
        AfterRun = "after_run",
    }
);

word_enum!(
    /// Answer of a hook.
    HookDecision {
        Allow = "allow",
        Deny = "deny",
        /// The owner is asked first.
        Ask = "ask",
        /// It gave no usable answer, which counts as `deny`.
        Failed = "failed",
    }
);

impl HookEvent {
    /// Reports whether the occasion belongs to a call of a tool.
    pub fn is_of_call(self) -> bool {
        !matches!(self, HookEvent::BeforeRun | HookEvent::AfterRun)
    }

    /// Reports whether a hook may have the owner asked on this occasion.
    pub fn may_ask(self) -> bool {
        matches!(self, HookEvent::BeforeCall | HookEvent::BeforeSend)
    }
}
