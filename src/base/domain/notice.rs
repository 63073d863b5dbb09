//! Kinds and subjects of the notices to an owner, with the one spelling of each in rows and on
//! screens.

use super::run::word_enum;

word_enum!(
    /// Kind of the event that a notice reports.
    NoticeKind {
        /// A run failed for good.
        RunFailed = "run_failed",
        /// A tool call was interrupted and its outcome is unknown.
        OutcomeUnknown = "outcome_unknown",
        /// A budget is used up.
        BudgetReached = "budget_reached",
        /// A recipient will not get a mail.
        DeliveryFailed = "delivery_failed",
        /// A mail has been waiting to be sent for hours.
        DeliveryDelayed = "delivery_delayed",
        /// A mail that the server may have received already waits for a decision.
        DeliveryHeld = "delivery_held",
        /// A mail that was handed over came back.
        Bounced = "bounced",
        /// The smarthost refuses our credentials.
        TransportRefused = "transport_refused",
        /// The smarthost has been unavailable for a while.
        TransportDown = "transport_down",
        /// A mailbox that we fetch from refuses our credentials.
        MailboxRefused = "mailbox_refused",
        /// A mailbox that we fetch from has been unavailable for a while.
        MailboxDown = "mailbox_down",
        /// The configuration of a persona is invalid, and the persona does not work.
        PersonaOutOfService = "persona_out_of_service",
        /// An agent changed files that no agent may change.
        AgentChangedFiles = "agent_changed_files",
        /// Engines died while they processed a letter; it is quarantined.
        LetterQuarantined = "letter_quarantined",
        /// Letters or connections are refused because a resource is exhausted.
        LettersRefused = "letters_refused",
        /// Letters were filed whose senders may wait for an answer.
        LetterFiled = "letter_filed",
        /// Messages have been waiting for a free run for a while.
        RunsWaiting = "runs_waiting",
        /// Unusually many people wrote for the first time in a day.
        UnusualDay = "unusual_day",
        /// A correspondent or a thread has reached its limit of answers.
        LimitReached = "limit_reached",
        /// An answer went to the sender, and the letter's `Reply-To` names somebody else.
        ReplyToUnused = "reply_to_unused",
        /// A responsibility's file cannot be used.
        ResponsibilityBroken = "responsibility_broken",
        /// Runs of a responsibility failed one after another, and it is paused.
        ResponsibilityPaused = "responsibility_paused",
        /// Slots did not fire, and nothing ran in their place.
        SlotsMissed = "slots_missed",
        /// A slot has not ended within its grace time.
        SlotOverdue = "slot_overdue",
        /// A persona proposed a responsibility, which waits to be enabled.
        ResponsibilityProposed = "responsibility_proposed",
        /// A hook hung, died or gave no usable answer.
        HookFailed = "hook_failed",
        /// An edited file of the configuration is faulty; what was good before stays in force.
        ConfigFaulty = "config_faulty",
        /// A standing text is gone, and runs wait for it.
        TextMissing = "text_missing",
        /// A tool of an MCP server is not as it was approved, and is off.
        McpToolOff = "mcp_tool_off",
        /// An MCP server hung, flooded, ended or broke the protocol.
        McpServerFailed = "mcp_server_failed",
        /// A webhook is asked no more: its server failed for days, or wants no more events.
        WebhookDisabled = "webhook_disabled",
        /// A backup that the engine makes by itself was not made, or is not good.
        BackupFailed = "backup_failed",
        /// Events did not reach a webhook that takes others.
        WebhookFailed = "webhook_failed",
    }
);

word_enum!(
    /// Subject of an event.
    NoticeSubject {
        Run = "run",
        Budget = "budget",
        Delivery = "delivery",
        Transport = "transport",
        Mailbox = "mailbox",
        Folder = "folder",
        /// The ingress of letters.
        Ingress = "ingress",
        Letter = "letter",
        Correspondent = "correspondent",
        Responsibility = "responsibility",
        Persona = "persona",
        Hook = "hook",
        /// A file of the configuration.
        ConfigFile = "config_file",
        McpServer = "mcp_server",
        Webhook = "webhook",
        Backup = "backup",
    }
);

impl NoticeSubject {
    /// Returns the path of the page about a subject with this id.
    pub fn page(self, id: &str) -> String {
        match self {
            Self::Run => format!("/r/{id}"),
            Self::Delivery => format!("/outbox#d{id}"),
            Self::Letter => format!("/m/{id}"),
            Self::Correspondent => {
                let query: String = form_urlencoded::byte_serialize(id.as_bytes()).collect();
                format!("/search?q={query}")
            }
            Self::Budget => "/usage#budgets".to_owned(),
            Self::Persona => format!("/personas/{id}"),
            Self::Responsibility => "/schedule".to_owned(),
            Self::ConfigFile | Self::Hook | Self::McpServer => "/config".to_owned(),
            Self::Transport
            | Self::Mailbox
            | Self::Folder
            | Self::Ingress
            | Self::Webhook
            | Self::Backup => "/doctor".to_owned(),
        }
    }
}
