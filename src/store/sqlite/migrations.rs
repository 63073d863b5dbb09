//! The migrations, each a file of `migrations/`. A new file gets a line here; a test says so if it has none.
//!
//! Not `sqlx::migrate!`: its crate of macros compiles SQLite, sqlx-core, sqlx-sqlite and tokio once more for the build
//! machine, only to list a folder.

use sqlx::SqlStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use std::sync::LazyLock;

/// In the words that `sqlx::migrate!` would have written: a number, what follows it with spaces, the digest of the file.
pub(in crate::store) static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let migration = |&(version, name, sql): &(i64, &'static str, &'static str)| {
        let words = name
            .split_once('_')
            .map_or(name, |(_, words)| words)
            .replace('_', " ");
        Migration::new(
            version,
            words.into(),
            MigrationType::Simple,
            SqlStr::from_static(sql),
            false,
        )
    };
    Migrator::with_migrations(FILES.iter().map(migration).collect())
});

/// Returns the number of the newest migration that this program knows.
pub fn newest_known() -> i64 {
    let numbers = MIGRATIONS.iter().map(|migration| migration.version);
    numbers.max().unwrap_or(0)
}

/// What 0059 leaves to be done when all letters are in its index: at once in a new database, else after the last step of
/// `search/index_build.rs`.
pub(in crate::store) const DROP_OLD_INDEX: &str =
    "DROP TABLE IF EXISTS messages_fts; DELETE FROM letter_words_build WHERE id = 1";

macro_rules! files {
    ($($version:literal $name:literal,)*) => {
        &[$(($version, $name, include_str!(concat!("../../../migrations/", $name, ".sql"))),)*]
    };
}

/// Their numbers, names and texts.
const FILES: &[(i64, &str, &str)] = files! {
    1 "0001_house",
    2 "0002_slots",
    3 "0003_browse",
    4 "0004_ready_runs",
    5 "0005_trace",
    7 "0007_correspondence",
    8 "0008_bounces",
    9 "0009_mailboxes",
    10 "0010_outbound",
    11 "0011_notices",
    12 "0012_mailbox_contents",
    14 "0014_failing_mailboxes",
    15 "0015_money",
    16 "0016_agents",
    17 "0017_outputs",
    18 "0018_turns",
    19 "0019_contents",
    20 "0020_crashes",
    21 "0021_circumstances",
    22 "0022_keeping",
    23 "0023_apart",
    24 "0024_long_history",
    25 "0025_asked",
    26 "0026_duties",
    27 "0027_readers",
    28 "0028_held_letters",
    29 "0029_knowledge_read_again",
    30 "0030_files_of_tools",
    31 "0031_turn_texts",
    33 "0033_filed",
    34 "0034_field_words",
    35 "0035_letter_quarantined",
    36 "0036_packed_requests",
    37 "0037_search_merge",
    38 "0038_halts",
    39 "0039_approvals",
    43 "0043_mail_commands",
    44 "0044_hooks",
    45 "0045_copies",
    46 "0046_attachment_texts",
    47 "0047_events",
    48 "0048_mcp_tools_off",
    50 "0050_drafts",
    55 "0055_readers_of_answers",
    57 "0057_memory",
    58 "0058_redacted",
    59 "0059_letter_words",
    61 "0061_thread_summaries",
    62 "0062_thread_instructions",
    63 "0063_memory_uses",
    64 "0064_memory_review",
    65 "0065_letter_parts",
    66 "0066_letter_vectors",
    67 "0067_web_sessions",
    68 "0068_web_tokens",
    69 "0069_feed",
    70 "0070_feed_turns",
    71 "0071_contact_aliases",
    72 "0072_pending_redactions",
    73 "0073_api_calls",
    74 "0074_program_chats",
    76 "0076_webhooks",
    77 "0077_ingest_tokens",
    79 "0079_persona_file_versions",
    80 "0080_usage_days",
    81 "0081_program_versions",
    82 "0082_keeping",
    83 "0083_erasures",
    84 "0084_one_record_of_backups",
    85 "0085_deliveries_held",
    86 "0086_nodes",
    87 "0087_engine_parts",
    88 "0088_objects",
    89 "0089_functions_with_plans",
    90 "0090_persona_moves",
    91 "0091_object_tokens",
    97 "0097_node_identities",
    98 "0098_no_ingest_tokens",
    99 "0099_log_marks",
    100 "0100_silence_and_dismissal",
    101 "0101_bytes_in_their_rows",
};

#[cfg(test)]
mod tests {
    use super::MIGRATIONS;
    use sqlx::migrate::{Migration, Migrator};
    use std::path::Path;

    #[tokio::test]
    async fn every_file_is_listed_as_sqlx_would_read_it() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
        let read = Migrator::new(folder).await.expect("readable migrations");
        let whole = |m: &Migration| {
            (
                m.version,
                m.description.clone(),
                m.checksum.clone(),
                m.no_tx,
            )
        };
        let (listed, read): (Vec<_>, Vec<_>) = (
            MIGRATIONS.iter().map(whole).collect(),
            read.iter().map(whole).collect(),
        );
        assert_eq!(listed, read);
    }
}
