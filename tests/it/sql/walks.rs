//! Statements that may walk a whole table, as `file::CONST`, and why.

/// Statements that may walk a whole table that grows, and why.
pub const WALKS: &[(&str, &str)] = &[
    ("burial::DROP_LEASES", "a dozen leases; when a node is gone"),
    (
        "list::NODES",
        "as many nodes as machines, and a dozen leases",
    ),
    (
        "numbers::GIVEN",
        "SQLite's own table, with a row for each table that never gives a number again; once in a move",
    ),
    (
        "numbers::GO_ON",
        "SQLite's own table, with a row for each table that never gives a number again; once in a move",
    ),
    (
        "progress::OPEN_ERASURES",
        "one row for each person whom the owner erased; by the owner's commands alone",
    ),
    (
        "quotes::ALL_RUNS",
        "an erasure reads the record of every run, with the engine stopped",
    ),
    (
        "quotes::RUNS_OF_CONTENTS",
        "an act of the owner, who seldom erases a person, with the engine stopped",
    ),
    (
        "quotes::ANSWERS_OF_THE_API",
        "an act of the owner, who seldom erases a person, with the engine stopped",
    ),
    (
        "quotes::REPORTS_TO_OWNERS",
        "an act of the owner, who seldom erases a person, with the engine stopped",
    ),
    (
        "redaction::EMPTY_ANSWERS",
        "an act of the owner, who seldom erases a person, with the engine stopped",
    ),
    (
        "statements::EMPTY_API_ANSWERS",
        "an act of the owner, who seldom erases a person, with the engine stopped",
    ),
    (
        "remains::RUNS_PACKED",
        "an act of the owner, who seldom erases a person, with the engine stopped",
    ),
    (
        "quotes::VERSIONS_OF_FILES",
        "an act of the owner, who seldom erases a person, with the engine stopped",
    ),
    (
        "scope::HELD_WITH_ADDRESS",
        "an act of the owner, who seldom erases a person",
    ),
    (
        "scope::LETTERS_OF_PERSON",
        "an act of the owner, who seldom erases a person, with the engine stopped",
    ),
    (
        "scope::MAILS_TO_PERSON",
        "an act of the owner, who seldom erases a person, with the engine stopped",
    ),
    (
        "statements::EMPTY_EVENTS",
        "an act of the owner, who seldom erases a person, with the engine stopped",
    ),
    (
        "statements::EMPTY_INSTRUCTIONS",
        "an act of the owner, who seldom erases a person, with the engine stopped",
    ),
    (
        "statements::EMPTY_NOTICES",
        "an act of the owner, who seldom erases a person, with the engine stopped",
    ),
    (
        "export::PERSONAS_WITH_ROWS",
        "an act of the owner, on a copy that no engine uses",
    ),
    (
        "backups::PRUNE_BACKUPS",
        "the last row, found in one step, and the five hundred that are kept",
    ),
    (
        "backups::BACKUP_PATHS",
        "the five hundred rows that are kept, when an owner erases a person",
    ),
    (
        "backups::LAST_SCHEDULED",
        "the last row of its index, at which it ends",
    ),
    (
        "backups::LAST_GOOD_BACKUP",
        "the last row of its index, at which it ends",
    ),
    (
        "backups::LAST_TRIED_BACKUP",
        "the last row, at which it ends",
    ),
    (
        "upgrade_check::LAST_MEASURED",
        "the last row of its index, at which it ends",
    ),
    (
        "before_upgrade::ROWS_OF_COPY",
        "counted once, when a new version first opens a database",
    ),
    (
        "versions::APPLIED_MIGRATIONS",
        "a row for each migration of the program",
    ),
    (
        "versions::PROGRAM_VERSIONS",
        "a row for each version of the program; a person asked",
    ),
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
        "index_merge::NEWEST_LETTERS",
        "the last row by its number, at which it ends",
    ),
    (
        "letter_parts::PENDING_PARTS",
        "letters of the open transaction, of which it takes 1,000",
    ),
    (
        "open_words::OPEN_WORDS",
        "counts what waits, once at a start: nothing but what an earlier engine failed to index",
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
        "drafts::DRAFTS",
        "a person asked; newest first, ends at its limit",
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
    (
        "change::WEBHOOK_DELIVERIES",
        "a person asked; newest first, ends at its limit",
    ),
    (
        "change::WEBHOOK_DELIVERIES_ENDING",
        "a person typed the end of an id",
    ),
    (
        "change::FORGET_BACKLOG",
        "the last row of the feed by its number",
    ),
    (
        "follow::OPEN_WEBHOOKS",
        "once at a start; twenty webhooks at most, and some ten thousand of their rows",
    ),
    ("follow::WEBHOOKS", "twenty webhooks at most"),
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
        "calls::RUNS_WITH_WORDS",
        "a person searched; the newest steps, ends at its limit",
    ),
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
    (
        "status::WAITING_WORK",
        "indexes of what is open: letters held, questions, entries that wait, events of webhooks",
    ),
    (
        "status::FAILED_WORK",
        "a person asked; the feed has at most a hundred thousand rows",
    ),
    (
        "status::NEWEST_INSTANT",
        "the last row of each table by its number, at which it ends",
    ),
    (
        "status::PERSONA_RECORDS",
        "a person asked, once per command; reads the index of personas and no row",
    ),
    ("halts::HALTS", "one row per persona at most"),
    ("mcp_tools::TOOLS_OFF", "one row per approved tool at most"),
];
