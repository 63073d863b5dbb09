//! The states, triggers, stop reasons and error classes of a run, and the reasons for which its
//! text is withheld, with their one spelling in rows and on screens.

macro_rules! word_enum {
    ($(#[$doc:meta])+ $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant),+];
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
            /// Parses the text of [`Self::as_str`]; `None` for any other text.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|v| v.as_str() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = String::deserialize(from)?;
                let unknown = || serde::de::Error::custom(format!("unknown word `{text}`"));
                Self::parse(&text).ok_or_else(unknown)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.as_str())
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": [$($word),+] })
            }
        }
    };
}
pub(super) use word_enum;

word_enum!(
    /// Trigger of a run.
    Trigger {
        Email = "email",
        Schedule = "schedule",
        Chat = "chat",
        Manual = "manual",
        /// The history of a thread no longer fits: the run summarises its older letters.
        Summary = "summary",
    }
);

word_enum!(
    /// PDF files of a letter that the model of its run is sent as they are.
    #[derive(Default)]
    PdfFiles {
        /// Those without text, which only their pages show.
        // A scan tells a model nothing otherwise, and its pages go where the letter's text goes.
        #[default]
        Scans = "scans",
        Always = "always",
        Never = "never",
    }
);

word_enum!(
    /// State of a run.
    RunState {
        Queued = "queued",
        Running = "running",
        WaitingApproval = "waiting_approval",
        WaitingRetry = "waiting_retry",
        Succeeded = "succeeded",
        Failed = "failed",
        Cancelled = "cancelled",
    }
);

impl RunState {
    /// Reports whether no further transition happens by itself.
    pub fn is_terminal(self) -> bool {
        matches!(
            self,
            RunState::Succeeded | RunState::Failed | RunState::Cancelled
        )
    }

    /// Reports whether an operator may queue a run in this state again.
    pub fn may_be_retried(self) -> bool {
        matches!(
            self,
            RunState::Failed | RunState::Cancelled | RunState::WaitingRetry
        )
    }
}

word_enum!(
    /// What has become of a thread, by its open runs, its newest message and that message's mail.
    ThreadOutcome {
        /// A run or a draft waits for the owner.
        Waiting = "waiting",
        /// A run is queued, at work, or will be tried again.
        AtWork = "at_work",
        /// Its last run failed.
        Failed = "failed",
        /// Its last run was cancelled.
        Cancelled = "cancelled",
        /// A rule filed its newest letter.
        Filed = "filed",
        /// Its newest mail was withheld, or cancelled before it left.
        NotSent = "not_sent",
        /// Its newest mail is on its way, or kept back by the owner.
        Leaving = "leaving",
        /// A recipient of its newest mail will not get it.
        Undelivered = "undelivered",
        /// Its newest message is mail that has left.
        Answered = "answered",
        /// Its last run ended and wrote no mail, or it never had one.
        Quiet = "quiet",
    }
);

word_enum!(
    /// Reason why a run stopped.
    StopReason {
        /// The model answered with text.
        Answered = "answered",
        /// The model had nothing to add after its tool calls.
        NoReply = "no_reply",
        /// The model said that its letter needs no answer.
        NoAnswer = "no_answer",
        /// The provider or the model refused.
        Refused = "refused",
        LimitTurns = "limit_turns",
        LimitToolCalls = "limit_tool_calls",
        LimitToolFailures = "limit_tool_failures",
        LimitTokens = "limit_tokens",
        LimitCost = "limit_cost",
        LimitTime = "limit_time",
        /// The answer was cut at the length that the program which asked gave it.
        LimitOutput = "limit_output",
        /// Its recipients have reached their limit of mails; the model was not asked.
        RateLimited = "rate_limited",
        Failed = "failed",
        Cancelled = "cancelled",
        /// A later run answers its letter, together with the next one of the thread.
        AnsweredTogether = "answered_together",
    }
);

word_enum!(
    /// Reason why a text of a run is stored and not sent.
    Withheld {
        /// The run had replied by a tool.
        AlreadyReplied = "already_replied",
        /// The persona sends by tools only.
        ToolOnly = "tool_only",
        /// The responsibility only stores its answers.
        StoreOnly = "store_only",
        /// The responsibility names a recipient that is neither an owner nor in `send_allow`.
        NotAllowed = "not_allowed",
        OutboundNotConfigured = "outbound_not_configured",
        NoRecipient = "no_recipient",
        /// A recipient has reached the limit of automatic mails in an hour or a day.
        RateLimited = "rate_limited",
        /// The thread has reached the limit of alternations without a letter of the owner.
        Alternations = "alternations",
        /// The sender's organisation has reached the limit of letters that are answered in a day.
        DomainLimited = "domain_limited",
        /// The persona has sent as many mails as it may in a day.
        DayMails = "day_mails",
        /// The mail has reached the limit of hops from persona to persona.
        HopLimit = "hop_limit",
        /// A rule of the policy refuses it, or its owner was asked and did not approve.
        NotApproved = "not_approved",
        /// A hook does not allow it, or gave no answer.
        HookDenied = "hook_denied",
        /// It waits as a draft until an owner sends, edits or discards it.
        Draft = "draft",
        /// It was to be a draft, and its persona has as many open ones as it may.
        DraftsUsedUp = "drafts_used_up",
    }
);

impl Withheld {
    /// Returns the reason as words, for owners and for agents that asked.
    pub fn why(self) -> &'static str {
        match self {
            Self::AlreadyReplied => "the run had replied by a tool before",
            Self::ToolOnly => "this persona writes by `send_email` only",
            Self::StoreOnly => "such answers are stored and not mailed",
            Self::NotAllowed => {
                "`deliver_to` names somebody who is neither an owner nor in `send_allow`"
            }
            Self::OutboundNotConfigured => "no outbound transport is configured",
            Self::NoRecipient => "there is nobody to send it to",
            Self::RateLimited => "its recipient has had as many mails as a correspondent may have",
            Self::Alternations => "its thread has had as many answers as it may have in a day",
            Self::DomainLimited => {
                "as many letters of its sender's organisation were answered today as may be"
            }
            Self::DayMails => "the persona has sent as many mails as it may in a day",
            Self::HopLimit => "it has gone from persona to persona as often as a mail may",
            Self::NotApproved => {
                "a rule of the policy refuses it, or its owner was asked and did not approve"
            }
            Self::HookDenied => "a hook does not allow it, or gave no answer",
            Self::Draft => "it waits as a draft, or has waited, until an owner sends it",
            Self::DraftsUsedUp => "it was to be a draft, and as many drafts waited as may",
        }
    }
}

word_enum!(
    /// Reason why a queued run does not begin, where a row says it.
    RunWait {
        /// Its persona, or every persona, is halted.
        Halted = "halted",
        /// A run of its thread that was queued earlier has not ended.
        EarlierRun = "earlier_run",
    }
);

word_enum!(
    /// Kind of the failure that ended a run or a provider call; decides who acts and whether it is
    /// retried.
    ErrorClass {
        Auth = "auth",
        Billing = "billing",
        Permission = "permission",
        ModelNotFound = "model_not_found",
        RateLimited = "rate_limited",
        Overloaded = "overloaded",
        Transient = "transient",
        Timeout = "timeout",
        ContextOverflow = "context_overflow",
        RequestTooLarge = "request_too_large",
        /// The answer reached its length limit before its first word.
        OutputLimit = "output_limit",
        /// The answer is longer than the limit of a mail; it is stored.
        AnswerTooLarge = "answer_too_large",
        BadRequest = "bad_request",
        ContentFilter = "content_filter",
        /// The provider's answer could not be parsed, or ended too early.
        Protocol = "protocol",
        Unsupported = "unsupported",
        /// The model called a tool that does not exist.
        UnknownTool = "unknown_tool",
        /// A tool asked for an action that this engine does not offer.
        UnsupportedAction = "unsupported_action",
        /// A mail was to be sent, and no outbound transport is configured.
        OutboundNotConfigured = "outbound_not_configured",
        /// A command-line agent is not installed.
        BinaryMissing = "binary_missing",
        /// The session that an agent was to resume is gone.
        SessionMissing = "session_missing",
        /// The session that an agent was to begin exists already or is in use.
        SessionBusy = "session_busy",
        /// An agent did or asked something outside the persona's tier.
        DisallowedTool = "disallowed_tool",
        /// The budget of a thread, a persona or the day is used up.
        Budget = "budget",
        /// The answer does not fit the schema that was asked for, after all repairs.
        OutputInvalid = "output_invalid",
        /// The model ended without a word that could be mailed.
        NoAnswer = "no_answer",
        /// A persona, profile, resolver or file that the run needs is missing or wrong.
        Config = "config",
        /// A hook does not allow the run, or gave no answer.
        HookDenied = "hook_denied",
        /// The database refused a statement.
        Store = "store",
        /// The engine stopped too often during the run.
        Crashed = "crashed",
        Cancelled = "cancelled",
    }
);

impl ErrorClass {
    /// Says what failed, for people: `the provider refused the key`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Auth => "the provider refused the key",
            Self::Billing => "the account at the provider is empty or not paid",
            Self::Permission => "the provider does not allow the request",
            Self::ModelNotFound => "the provider does not have the model",
            Self::RateLimited => "the provider was asked too often",
            Self::Overloaded => "the provider was overloaded",
            Self::Transient => "the provider failed",
            Self::Timeout => "the provider took too long",
            Self::ContextOverflow => "the request is too long for the model",
            Self::RequestTooLarge => "the request is too large for the provider",
            Self::OutputLimit => "the model used up its length limit before its first word",
            Self::AnswerTooLarge => "the answer is too long for a mail",
            Self::BadRequest => "the provider refused the request",
            Self::ContentFilter => "the provider's content filter stopped it",
            Self::Protocol => "the provider's answer could not be read",
            Self::Unsupported => "the provider lacks something that the run needs",
            Self::UnknownTool => "the model called a tool that does not exist",
            Self::UnsupportedAction => "a tool asked for something that is not supported",
            Self::OutboundNotConfigured => "no outgoing mail is configured",
            Self::BinaryMissing => "the agent is not installed",
            Self::SessionMissing => "the agent's session is gone",
            Self::SessionBusy => "the agent's session is in use",
            Self::DisallowedTool => "the agent did something that it may not do",
            Self::Budget => "the budget is used up",
            Self::OutputInvalid => "the answer does not have the required form",
            Self::NoAnswer => "the model wrote no answer",
            Self::Config => "the configuration is wrong",
            Self::HookDenied => "a hook did not allow it",
            Self::Store => "the database failed",
            Self::Crashed => "the engine stopped too often during the run",
            Self::Cancelled => "it was cancelled",
        }
    }

    /// Reports whether a retry of the unchanged call may succeed.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            ErrorClass::RateLimited
                | ErrorClass::Overloaded
                | ErrorClass::Transient
                | ErrorClass::Timeout
                | ErrorClass::Protocol
                | ErrorClass::Store
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_reads_back() {
        for state in RunState::ALL {
            assert_eq!(RunState::parse(state.as_str()), Some(*state));
        }
        for class in ErrorClass::ALL {
            assert_eq!(ErrorClass::parse(class.as_str()), Some(*class));
        }
        assert_eq!(Trigger::parse("Email"), None);
    }
}
