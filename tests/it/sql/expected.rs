//! Plans that are expected of statements that run often: the indexes that serve them.

/// Statements that run for every letter, tick or turn, as `file::CONST`, and the indexes that must serve them.
pub const HOT: &[(&str, &[&str])] = &[
    (
        "arrival_facts::ARRIVALS",
        &[
            "messages_by_dedup",
            "PRIMARY KEY",
            "threads_by_conversation",
            "messages_by_rfc_id",
        ],
    ),
    (
        "placement::FIND_THREAD",
        &["threads_by_conversation", "messages_by_rfc_id"],
    ),
    ("runs::RUNS_OF_THREAD", &["runs_by_thread"]),
    ("runs::CLAIM_RUNS", &["runs_ready", "runs_running"]),
    ("agent_files::EXPECTED", &["thread_tool_events_of_files"]),
    ("runs::OPEN_RUNS", &["runs_open"]),
    (
        "status::WAITING_WORK",
        &[
            "runs_open",
            "runs_running",
            "approvals_open",
            "memory_proposed",
            "deliveries_open",
            "webhook_deliveries_queued",
        ],
    ),
    ("feed::FEED_AFTER", &["INTEGER PRIMARY KEY"]),
    (
        "persona_file_versions::PRUNE_VERSIONS",
        &["persona_file_versions_by_name", "INTEGER PRIMARY KEY"],
    ),
    (
        "persona_file_versions::VERSIONS",
        &["persona_file_versions_by_name"],
    ),
    (
        "follow::WEBHOOK",
        &["sqlite_autoindex_webhooks_1", "webhook_deliveries_queued"],
    ),
    ("attempts::DUE_DELIVERIES", &["webhook_deliveries_queued"]),
    (
        "attempts::NOTE_ATTEMPT",
        &["sqlite_autoindex_webhook_deliveries_1"],
    ),
    (
        "feed_lines::FEED_LINES",
        &[
            "INTEGER PRIMARY KEY",
            "sqlite_autoindex_threads_1",
            "sqlite_autoindex_messages_1",
            "sqlite_autoindex_runs_1",
            "sqlite_autoindex_run_turns_1",
            "thread_tool_events_once",
        ],
    ),
    (
        "event_sizes::EVENT_SIZES",
        &[
            "INTEGER PRIMARY KEY",
            "sqlite_autoindex_messages_1",
            "sqlite_autoindex_raw_letters_1",
            "sqlite_autoindex_runs_1",
            "sqlite_autoindex_run_turns_1",
            "thread_tool_events_once",
            "sqlite_autoindex_deliveries_1",
        ],
    ),
    ("runs::OPEN_RUNS_UP_TO", &["runs_open"]),
    ("runs::CANCEL_REQUESTED", &["runs_running"]),
    (
        "letters::RAW_LETTER",
        &[
            "sqlite_autoindex_messages_1",
            "sqlite_autoindex_raw_letters_1",
        ],
    ),
    ("history::MESSAGE", &["sqlite_autoindex_messages_1"]),
    (
        "synthetic::QUESTION_OF_DIGEST",
        &[
            "messages_said",
            "runs_by_trigger_message",
            "messages_by_thread",
        ],
    ),
    (
        "history::PAST_MESSAGES",
        &[
            "messages_by_thread",
            "INTEGER PRIMARY KEY",
            "sqlite_autoindex_runs_1",
        ],
    ),
    ("history::NEWEST_LETTER", &["messages_by_thread"]),
    ("letter_rows::NEWEST_TEXTS", &["messages_by_thread"]),
    ("summaries::SUMMARY_SO_FAR", &["thread_memory_by_thread"]),
    ("summaries::NEWEST_PROBLEMS", &["thread_memory_by_thread"]),
    (
        "summaries::LETTERS_TO_SUMMARISE",
        &[
            "messages_by_thread",
            "runs_by_trigger_message",
            "messages_by_run",
        ],
    ),
    (
        "summaries::QUEUE_SUMMARY",
        &[
            "runs_by_thread",
            "messages_by_thread",
            "thread_memory_by_run",
        ],
    ),
    (
        "instructions::INSTRUCTIONS_IN_FORCE",
        &["thread_instructions_by_scope"],
    ),
    ("record::OPEN_COMMANDS", &["mail_commands_open"]),
    ("sender_notes::FAILED_WITHOUT_NOTE", &["runs_failed"]),
    ("sender_notes::SLOW_WITHOUT_NOTE", &["runs_open"]),
    ("act::LATER_HALT_COMMAND", &["mail_commands_halts"]),
    ("answer::ANSWERS_SINCE", &["mail_commands_answered"]),
    (
        "sessions::RUN_MAILS",
        &["messages_by_run", "sqlite_autoindex_runs_1"],
    ),
    ("messages::READERS", &["INTEGER PRIMARY KEY", "PRIMARY KEY"]),
    ("run_options::SLOT_OF_RUN", &["responsibility_slots_by_run"]),
    ("history::PAST_STEPS", &["runs_by_trigger_message"]),
    ("digest::DIGEST_OF_TOKEN", &["PRIMARY KEY"]),
    (
        "digest::DIGESTS_DUE",
        &["memory_proposed", "memory_digests_by_persona"],
    ),
    (
        "digest::WAITING_MEMORY",
        &["memory_proposed", "memory_digest_entries_by_entry"],
    ),
    (
        "digest::REPLACED_MEMORY",
        &["PRIMARY KEY", "sqlite_autoindex_memory_1"],
    ),
    (
        "digest::DIGEST_ENTRIES",
        &["PRIMARY KEY", "sqlite_autoindex_memory_1"],
    ),
    ("proposals::WHOLE_MEMORY", &["sqlite_autoindex_memory_2"]),
    ("proposals::PROPOSALS_FOR", &["memory_replaces_by_replaced"]),
    ("change::KEPT_OUT_BY", &["memory_by_replacement"]),
    (
        "erase::DERIVED_MEMORY",
        &["memory_replaces_by_replaced", "memory_by_superseded"],
    ),
    ("listing::MEMORY_OF_MESSAGE", &["memory_sources_by_message"]),
    ("audience::OPEN_MEMORY", &["memory_open"]),
    ("aliases::MOVE_ALIASES", &["contact_aliases_by_person"]),
    ("write::IS_ALIAS", &["PRIMARY KEY"]),
    ("audience::MEMORY_REJECTED", &["memory_rejected"]),
    ("audience::MEMORY_OF_RUN", &["memory_by_run"]),
    (
        "expiry::OVERDUE_MEMORY",
        &["memory_ending", "memory_unused"],
    ),
    ("redaction::ENDED_REDACTIONS", &["sqlite_autoindex_runs_1"]),
    ("money::RESERVE", &["PRIMARY KEY"]),
    ("money::FINISH", &["PRIMARY KEY"]),
    ("money::LOSE", &["PRIMARY KEY"]),
    ("resume::JOURNAL_TURNS", &["sqlite_autoindex_run_turns_1"]),
    (
        "resume::JOURNAL_STEPS",
        &["sqlite_autoindex_thread_tool_events_1"],
    ),
    ("deliveries::CLAIM", &["deliveries_open"]),
    ("deliveries::NEXT_DUE", &["deliveries_open"]),
    ("deliveries::OPEN_RECIPIENTS", &["PRIMARY KEY"]),
    (
        "outcomes::RECORD",
        &["sqlite_autoindex_deliveries_1", "PRIMARY KEY"],
    ),
    ("reports::BY_TOKEN", &["deliveries_by_bounce_token"]),
    (
        "correspondence::MENTIONED_MAIL",
        &["messages_by_rfc_id", "messages_by_thread"],
    ),
    (
        "reports::NAMED",
        &["messages_by_rfc_id", "deliveries_by_message"],
    ),
    ("mailboxes::HAS_CONTENT", &["PRIMARY KEY"]),
    ("mailboxes::OUTCOMES", &["PRIMARY KEY"]),
    ("held::NEXT_HELD", &["held_letters_due"]),
    ("held::POSTPONE", &["sqlite_autoindex_held_letters_1"]),
    ("held::RELEASE", &["sqlite_autoindex_held_letters_1"]),
    ("inbox::INBOX", &["messages_inbox"]),
    ("imports::KNOWN", &["messages_by_dedup"]),
    ("imports::WRITTEN_HERE", &["messages_by_rfc_id"]),
    ("schedules::DUE_RESPONSIBILITIES", &["responsibilities_due"]),
    (
        "firing::BEFORE_IT",
        &[
            "runs_open_by_thread",
            "responsibility_slots_by_run",
            "responsibility_slots_waiting_of",
        ],
    ),
    (
        "waiting::TURNS",
        &[
            "responsibility_slots_waiting",
            "responsibility_slots_waiting_of",
            "runs_open_by_thread",
        ],
    ),
    (
        "waiting::CATCHING_UP",
        &["responsibility_slots_catching_up"],
    ),
    (
        "waiting::BEGIN_WAITING",
        &[
            "PRIMARY KEY",
            "responsibility_slots_catching_up",
            "runs_open_by_thread",
        ],
    ),
    ("waiting::END_WAITING", &["responsibility_slots_waiting_of"]),
    ("pauses::FAILING", &["responsibilities_failing"]),
    ("pauses::NEWEST_SLOT", &["PRIMARY KEY"]),
    ("slot_events::IS_OVERDUE", &["responsibility_slots_watched"]),
    (
        "slot_events::OVERDUE_SLOTS",
        &["responsibility_slots_watched"],
    ),
    (
        "notices::DUE_CAUSES",
        &["notices_pending", "notices_notified", "INTEGER PRIMARY KEY"],
    ),
    ("notices::PENDING", &["notices_pending"]),
    (
        "letter_search::SEARCH_MESSAGES_BY_DATE",
        &["messages_by_time"],
    ),
    ("letter_search::NEWEST_WITH", &["INTEGER PRIMARY KEY"]),
    ("letter_search::READABLE_WITH", &["INTEGER PRIMARY KEY"]),
    (
        "letter_search::THREADS_OF",
        &["thread_participants_by_address"],
    ),
    ("letter_search::COUNT_READABLE", &["messages_by_thread"]),
    (
        "letter_search::NEIGHBOURS",
        &["INTEGER PRIMARY KEY", "messages_by_thread"],
    ),
    ("letter_search::RECEIVED", &["INTEGER PRIMARY KEY"]),
    ("found::SHOW_HITS", &["INTEGER PRIMARY KEY"]),
    ("letter_search::NUMBER_OF", &["sqlite_autoindex_messages_1"]),
    (
        "vectors::NEWEST_VECTORS",
        &["letter_vectors_of_persona", "INTEGER PRIMARY KEY"],
    ),
    (
        "vectors::READABLE_VECTORS",
        &[
            "thread_participants_by_address",
            "messages_by_thread",
            "sqlite_autoindex_letter_vectors_1",
        ],
    ),
    (
        "embedded::LETTERS_BEFORE",
        &["messages_by_time", "sqlite_autoindex_letter_vectors_1"],
    ),
    (
        "embedded::LETTERS_BETWEEN",
        &["INTEGER PRIMARY KEY", "sqlite_autoindex_letter_vectors_1"],
    ),
    ("embedded::TEXTS_TO_EMBED", &["INTEGER PRIMARY KEY"]),
    ("embedded::CURRENT_TEXT", &["INTEGER PRIMARY KEY"]),
    ("embedded::KNOWN_VECTORS", &["letter_vectors_by_text"]),
    ("embedded::VECTOR_SWITCH", &["PRIMARY KEY"]),
    ("embedding_calls::FINISH_EMBEDDING_CALL", &["PRIMARY KEY"]),
    ("embedding_calls::LOSE_EMBEDDING_CALL", &["PRIMARY KEY"]),
    (
        "embedding_calls::OPEN_EMBEDDING_CALLS",
        &["embedding_calls_open"],
    ),
    ("letter_search::NEWEST_WITH_PART", &["INTEGER PRIMARY KEY"]),
    (
        "letter_search::READABLE_WITH_PART",
        &["INTEGER PRIMARY KEY"],
    ),
    (
        "replies::ANSWERED_LETTERS",
        &["messages_by_time", "messages_by_rfc_id"],
    ),
    ("replies::NEW_TEXTS", &["messages_by_time"]),
    ("letter_parts::STORE_PARTS", &["INTEGER PRIMARY KEY"]),
    ("index_merge::INDEX_LETTERS", &["INTEGER PRIMARY KEY"]),
    ("filed::HAS_NEW", &["messages_filed"]),
    ("filed::FILED_SINCE", &["messages_filed"]),
    ("filed::MISSED_LETTERS", &["messages_filed"]),
    ("filed::LAST_SUMMARY", &["INTEGER PRIMARY KEY"]),
    (
        "events::DELAYED_DELIVERIES",
        &["deliveries_open", "sqlite_autoindex_notices_2"],
    ),
];

/// Indexes that hold only rows that somebody still works on: walking one whole is bounded by the work at hand.
pub const OPEN_ROWS: &[&str] = &[
    "runs_open",
    "runs_ready",
    "runs_open_by_thread",
    "runs_running",
    "runs_poison",
    "deliveries_open",
    "deliveries_held",
    "responsibilities_due",
    "responsibility_slots_waiting",
    "responsibility_slots_catching_up",
    "notices_pending",
];
