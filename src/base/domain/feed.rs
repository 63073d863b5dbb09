//! Kinds of what the feed tells, with the one spelling of each in rows, on screens and in event streams.

use super::run::word_enum;

word_enum!(
    /// What happened: what it is about, and its new state. Absent on purpose: texts, which a reader looks up by the ids.
    FeedKind {
        /// A letter was stored and got a run.
        LetterRun = "letter.run",
        /// A letter was stored and a rule keeps it from a run.
        LetterFiled = "letter.filed",
        /// A letter is kept until its sender can be verified.
        LetterHeld = "letter.held",
        /// A run was queued without a letter, or again.
        RunQueued = "run.queued",
        RunRunning = "run.running",
        RunWaitingApproval = "run.waiting_approval",
        RunWaitingRetry = "run.waiting_retry",
        RunSucceeded = "run.succeeded",
        RunFailed = "run.failed",
        RunCancelled = "run.cancelled",
        TurnAnswered = "turn.answered",
        TurnFailed = "turn.failed",
        /// A call of a tool is about to be made.
        CallBegun = "call.begun",
        /// A call of a tool has a result, be it an error.
        CallFinished = "call.finished",
        /// A mail is to be sent again: after a failure, a crash or at an operator's wish.
        DeliveryQueued = "delivery.queued",
        DeliveryDone = "delivery.done",
        DeliveryFailed = "delivery.failed",
        DeliveryHeld = "delivery.held",
        DeliveryCancelled = "delivery.cancelled",
        ApprovalAsked = "approval.asked",
        ApprovalApproved = "approval.approved",
        ApprovalRejected = "approval.rejected",
        ApprovalEdited = "approval.edited",
        ApprovalAnswered = "approval.answered",
        ApprovalExpired = "approval.expired",
        ApprovalSuperseded = "approval.superseded",
        ApprovalCancelled = "approval.cancelled",
        NoticeOpened = "notice.opened",
        /// A slot waits for its turn.
        SlotWaiting = "slot.waiting",
        SlotFired = "slot.fired",
        SlotSkipped = "slot.skipped_overlap",
        SlotMissed = "slot.missed",
        SlotPaused = "slot.paused",
        MemoryProposed = "memory.proposed",
        /// Edited files of the configuration are in force.
        ConfigurationReloaded = "configuration.reloaded",
        /// Edited files are faulty: what was in force before stays so.
        ConfigurationRefused = "configuration.refused",
    }
);

word_enum!(
    /// What other programs are told by a webhook.
    WebhookEvent {
        /// A letter was stored: it has a run, or a rule filed it.
        LetterStored = "letter.stored",
        /// A run has succeeded or was cancelled.
        RunFinished = "run.finished",
        RunFailed = "run.failed",
        ApprovalRequested = "approval.requested",
        /// An approval waits no more, whoever or whatever decided it.
        ApprovalDecided = "approval.decided",
        DeliveryFailed = "delivery.failed",
        SlotMissed = "slot.missed",
        NoticeOpened = "notice.opened",
        MemoryProposed = "memory.proposed",
    }
);

impl WebhookEvent {
    /// Returns the event of a kind; `None`: no other program is told of it.
    pub fn from_kind(kind: FeedKind) -> Option<Self> {
        Some(match kind {
            FeedKind::LetterRun | FeedKind::LetterFiled => Self::LetterStored,
            FeedKind::RunSucceeded | FeedKind::RunCancelled => Self::RunFinished,
            FeedKind::RunFailed => Self::RunFailed,
            FeedKind::ApprovalAsked => Self::ApprovalRequested,
            FeedKind::ApprovalApproved
            | FeedKind::ApprovalRejected
            | FeedKind::ApprovalEdited
            | FeedKind::ApprovalAnswered
            | FeedKind::ApprovalExpired
            | FeedKind::ApprovalSuperseded
            | FeedKind::ApprovalCancelled => Self::ApprovalDecided,
            FeedKind::DeliveryFailed => Self::DeliveryFailed,
            FeedKind::SlotMissed => Self::SlotMissed,
            FeedKind::NoticeOpened => Self::NoticeOpened,
            FeedKind::MemoryProposed => Self::MemoryProposed,
            _ => return None,
        })
    }
}

impl FeedKind {
    /// Returns what it is about, as the part of its spelling before the dot.
    pub fn subject(self) -> &'static str {
        self.as_str().split('.').next().unwrap_or_default()
    }

    /// Returns the new state, as the part of its spelling behind the dot.
    pub fn state(self) -> &'static str {
        let (_, state) = self.as_str().split_once('.').unwrap_or_default();
        state
    }

    /// Reports whether its run has ended, or waits for its owner: nothing more comes of it by itself.
    pub fn is_settled(self) -> bool {
        matches!(
            self,
            Self::RunSucceeded | Self::RunFailed | Self::RunCancelled | Self::RunWaitingApproval
        )
    }
}
