//! Plans that are expected of statements: the indexes of those that run often, and the reasons of those that walk a table.

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
    ("runs::CLAIM_RUNS", &["runs_ready", "runs_running"]),
    ("agent_files::EXPECTED", &["thread_tool_events_of_files"]),
    ("runs::OPEN_RUNS", &["runs_open"]),
    ("feed::FEED_AFTER", &["INTEGER PRIMARY KEY"]),
    (
        "feed_lines::FEED_LINES",
        &[
            "INTEGER PRIMARY KEY",
            "sqlite_autoindex_threads_1",
            "sqlite_autoindex_messages_1",
            "sqlite_autoindex_runs_1",
            "PRIMARY KEY",
            "thread_tool_events_once",
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
        "history::PAST_MESSAGES",
        &[
            "messages_by_thread",
            "INTEGER PRIMARY KEY",
            "sqlite_autoindex_runs_1",
        ],
    ),
    ("history::NEWEST_LETTER", &["messages_by_thread"]),
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
    ("history::PAST_STEPS", &["thread_tool_events_by_message"]),
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
    ("resume::JOURNAL_TURNS", &["PRIMARY KEY"]),
    (
        "resume::JOURNAL_STEPS",
        &["sqlite_autoindex_thread_tool_events_2"],
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
    ("index_build::INDEX_LETTERS", &["INTEGER PRIMARY KEY"]),
    ("index_build::NAME_PARTS", &["INTEGER PRIMARY KEY"]),
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
    ("filed::HAS_NEW", &["messages_filed"]),
    ("filed::FILED_SINCE", &["messages_filed"]),
    ("filed::MISSED_LETTERS", &["messages_filed"]),
    ("filed::LAST_SUMMARY", &["INTEGER PRIMARY KEY"]),
    (
        "events::DELAYED_DELIVERIES",
        &["deliveries_open", "sqlite_autoindex_notices_2"],
    ),
];

/// Statements that may walk a whole table that grows, and why.
pub const WALKS: &[(&str, &str)] = &[
    (
        "aliases::ENTRIES_OF_ADDRESS",
        "an act of the owner, who seldom says that two addresses are one person; every persona's entries move",
    ),
    (
        "sessions::FORGET_LOGINS",
        "codes of the last minute: those before are deleted by it",
    ),
    (
        "sessions::WEB_SESSIONS",
        "in the order of the key, ends at its limit",
    ),
    (
        "sessions::END_SESSIONS",
        "an owner ends all sessions, of which each login makes one",
    ),
    (
        "tokens::WEB_TOKENS",
        "in the order of the key, ends at its limit",
    ),
    (
        "aliases::CONTACT_ALIASES",
        "the whole table is wanted, and the owner types each row of it",
    ),
    (
        "feed::FEED_AFTER",
        "the first and the last row, found in one step each; its events by their number",
    ),
    ("feed::FEED_NEWEST", "the last row, found in one step"),
    (
        "feed::FEED_SINCE",
        "a person asked; the feed has at most a hundred thousand rows",
    ),
    (
        "feed_lines::FEED_NEWEST_LINES",
        "a person asked; newest first, ends at its limit",
    ),
    (
        "gc::FEED",
        "a person asked; its own rows by their number, and the first that stays",
    ),
    (
        "embedded::NEWEST_MESSAGE",
        "the last row by its number, at which it ends",
    ),
    (
        "embedded::VECTOR_SWITCHES",
        "a row for each persona at most; a person asked",
    ),
    (
        "letter_parts::PENDING_PARTS",
        "letters of the open transaction, of which it takes 1,000",
    ),
    (
        "index_build::PARTS_ARE_OPEN",
        "looks at the first row, once for each step of the upkeep",
    ),
    (
        "opened::THREAD_ATTACHMENTS",
        "the newest messages of one thread, found by its index, of which it takes 200",
    ),
    (
        "read::THREAD_CALENDARS",
        "the newest messages of one thread, found by its index, of which it takes 200",
    ),
    (
        "list::APPROVALS",
        "a person asked; newest first, ends at its limit",
    ),
    (
        "drafts::DRAFTS",
        "a person asked; newest first, ends at its limit",
    ),
    (
        "list::OPEN_APPROVALS",
        "the index of open questions, of which a persona has twenty at most",
    ),
    (
        "list::APPROVALS_SINCE",
        "a person asked for statistics; ends at its limit",
    ),
    (
        "list::RUNS_SINCE",
        "a person asked for statistics, once per command",
    ),
    (
        "mails::UNASKED",
        "the index of questions that nobody was asked yet",
    ),
    (
        "mails::TO_EXPLAIN",
        "the index of answers that are to be explained",
    ),
    ("list::APPROVALS_ENDING", "a person typed the end of an id"),
    ("listing::MEMORY_ENDING", "a person typed the end of an id"),
    (
        "digest::CLOSE_EVERY_DIGEST",
        "the index of open digests, one a persona",
    ),
    (
        "digest::DIGESTS_DUE",
        "the index of entries that wait, of which there are at most 200 a persona",
    ),
    (
        "digest::DIGEST_ANSWERS_TO_EXPLAIN",
        "the index of answers that are to be explained",
    ),
    ("listing::MEMORY_SINCE", "an owner erases, once per command"),
    (
        "redaction::ENDED_REDACTIONS",
        "the runs that were at work when an owner erased, until they have ended",
    ),
    (
        "redaction::PENDING_REDACTIONS",
        "the runs that were at work when an owner erased, until they have ended",
    ),
    (
        "listing::MEMORY_LIST",
        "a person lists entries, the newest first, of one persona or all",
    ),
    ("forks::FORKS", "newest first, ends at its limit"),
    (
        "open::RAISE_EPOCH",
        "an archive has one row, and any other database none",
    ),
    (
        "bundles::IS_EMPTY",
        "asked of a database that was made a moment ago; ends at the first row",
    ),
    ("threads::LATEST_THREADS", "newest first, ends at its limit"),
    ("usage::USAGE", "a person asked, once per command"),
    (
        "usage::THREADS_THAT_SPEND",
        "a person asked, once per command",
    ),
    ("money::OPEN_CALLS", "a row lives as long as its call"),
    ("money::FOLD_MONEY", "as for `money::OPEN_CALLS`"),
    ("runs::LATEST_RUNS", "newest first, ends at its limit"),
    (
        "filed::NEWEST_FILED",
        "newest first by `messages_filed`, ends at the first row",
    ),
    ("runs::NEWEST_RUN", "newest first, ends at the first row"),
    (
        "ids::RUNS_ENDING",
        "a person typed the end of an id; reads the index of ids and no row",
    ),
    ("ids::THREADS_ENDING", "as for `ids::RUNS_ENDING`"),
    ("ids::DELIVERIES_ENDING", "as for `ids::RUNS_ENDING`"),
    ("letters::MESSAGES_ENDING", "as for `ids::RUNS_ENDING`"),
    ("notices::NOTICES_ENDING", "as for `ids::RUNS_ENDING`"),
    ("forks::FORKS_ENDING", "as for `ids::RUNS_ENDING`"),
    ("runs::RUNS_ENDED", "a person asked, once per command"),
    ("runs::RUNS_SINCE", "a person asked, once per command"),
    ("notices::FOLDS", "a person asked, once per command"),
    ("outbox::LIST", "newest first, ends at its limit"),
    ("outbox::RETRY_ALL", "a person asked, once per command"),
    (
        "run_control::FAILED_RUNS",
        "a person asked, once per command",
    ),
    (
        "clock_steps::END_AHEAD",
        "once per start and step of the clock; one row per file that a person wrote",
    ),
    (
        "clock_steps::PULL_CURSORS",
        "as for `clock_steps::END_AHEAD`",
    ),
    (
        "schedules::RESPONSIBILITIES",
        "one row per file that a person wrote",
    ),
    ("slots::SLOTS", "a person asked, once per command"),
    (
        "sessions::FORGET_SESSIONS",
        "once per start of the engine, ends at its limit",
    ),
    ("providers::PROVIDER_CALLS", "one row per provider"),
    ("audit::PENDING", "a person asked, once per command"),
    ("backup::CONTENT", "a person asked, once per command"),
    (
        "gc::COUNTS",
        "a person asked; a row for each minute with mail",
    ),
    ("gc::PRUNE_COUNTS", "as for `gc::COUNTS`"),
    ("gc::FORKS_KEPT", "a person asked, and made each of them"),
    ("gc::RUNS_AT_WORK", "the last row, found in one step"),
    (
        "messages::INSERT_MESSAGE",
        "planned for the foreign key of `raw_letters`, skipped while no key is broken",
    ),
    (
        "imports::INSERT_IMPORTED",
        "as for `messages::INSERT_MESSAGE`",
    ),
    (
        "letter_rows::STORE_LETTERS",
        "as for `messages::INSERT_MESSAGE`",
    ),
    (
        "restored::OPEN_QUESTIONS",
        "once, at the first start on a restored backup; only open ones",
    ),
    ("halts::HALTS", "one row per persona at most"),
    ("mcp_tools::TOOLS_OFF", "one row per approved tool at most"),
];

/// Indexes that hold only rows that somebody still works on: walking one whole is bounded by the work at hand.
pub const OPEN_ROWS: &[&str] = &[
    "runs_open",
    "runs_ready",
    "runs_open_by_thread",
    "runs_running",
    "runs_poison",
    "deliveries_open",
    "responsibilities_due",
    "responsibility_slots_waiting",
    "responsibility_slots_catching_up",
    "notices_pending",
];
