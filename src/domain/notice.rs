//! What an owner is told of, with its one spelling in rows and on screens.

use super::run::word_enum;

word_enum!(
    /// Which kind of fact a notice tells.
    NoticeKind {
        /// A run failed for good.
        RunFailed = "run_failed",
        /// A call of a tool was cut off, and nobody knows whether it has happened.
        OutcomeUnknown = "outcome_unknown",
        /// A budget is used up.
        BudgetReached = "budget_reached",
        /// A recipient will not get a mail.
        DeliveryFailed = "delivery_failed",
        /// A mail has been waiting for hours.
        DeliveryDelayed = "delivery_delayed",
        /// A mail that the server may have waits for a decision.
        DeliveryHeld = "delivery_held",
        /// A mail that was handed over came back.
        Bounced = "bounced",
        /// The smarthost does not accept our credentials.
        TransportRefused = "transport_refused",
        /// The smarthost has not been reachable for a while.
        TransportDown = "transport_down",
        /// A mailbox that we fetch from does not accept our credentials.
        MailboxRefused = "mailbox_refused",
        /// A mailbox that we fetch from could not be read for a while.
        MailboxDown = "mailbox_down",
        /// What is said of a persona is wrong, and it does not work.
        PersonaOutOfService = "persona_out_of_service",
        /// An agent changed files that no agent may change.
        AgentChangedFiles = "agent_changed_files",
        /// Engines died while they took a letter, and it is not taken any more.
        LetterSetAside = "letter_set_aside",
        /// Letters or connections are refused for want of something.
        LettersRefused = "letters_refused",
        /// Letters were filed that somebody may wait to be answered.
        LetterFiled = "letter_filed",
        /// A correspondent or a thread has had as many answers as they may have.
        LimitReached = "limit_reached",
        /// A responsibility's file cannot be used.
        ResponsibilityBroken = "responsibility_broken",
        /// Runs of a responsibility failed one after another, and nothing of it fires any more.
        ResponsibilityPaused = "responsibility_paused",
        /// Slots did not fire, and nothing ran in their place.
        SlotsMissed = "slots_missed",
        /// A slot has not ended within its grace time.
        SlotOverdue = "slot_overdue",
        /// A persona proposed a responsibility, which waits to be enabled.
        ResponsibilityProposed = "responsibility_proposed",
    }
);

word_enum!(
    /// What a fact is about.
    NoticeSubject {
        Run = "run",
        Budget = "budget",
        Delivery = "delivery",
        Transport = "transport",
        Mailbox = "mailbox",
        Folder = "folder",
        /// Where letters come in.
        Ingress = "ingress",
        Letter = "letter",
        Correspondent = "correspondent",
        Responsibility = "responsibility",
        Persona = "persona",
    }
);
