//! Every table that can have rows of a persona: all go to a server, to another server, to a file, and back, and nothing of others
//! changes.

use super::cells::{Rows, cell, closed, lines, lived, moved, moved_by};
use crate::app::Workspace;
use crate::app::db::{Connection, query_scalar};
use crate::migrate::every_table::{copied_tables, plant_a_row_in_each_table};
use sqlx::AssertSqlSafe;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What an opening, or the record of a move, changes; and what is made anew or stays behind.
const OTHERS: [&str; 13] = [
    "engine",
    "program_versions",
    "persona_moves",
    "provider_sessions",
    "knowledge_files",
    "knowledge_chunks",
    "notices",
    "nodes",
    "letter_words_build",
    "letter_parts_build",
    "letter_parts_pending",
    "filed_summaries",
    "budget_accounts",
];

/// Makes every planted row one of ada's, in a state of rest.
async fn plant(workspace: &Workspace) {
    plant_a_row_in_each_table(workspace.path()).await;
    let mut rows = Connection::file(&workspace.path().join("data/attache.db")).await;
    rows.unchecked().await;
    for table in copied_tables(&mut rows).await {
        let own = format!(
            "UPDATE \"{table}\" SET persona_id = 'ada' WHERE persona_id LIKE '%persona_id ä'"
        );
        // Most tables of the cell itself have no such column.
        let _no_such_column = rows.execute(AssertSqlSafe(own)).await;
    }
    let rest = "
        DELETE FROM persona_moves;
        DELETE FROM budget_reservations;
        UPDATE erasures SET state = 'done';
        UPDATE forks SET state = 'succeeded';
        UPDATE embedding_calls SET state = 'answered';
        UPDATE runs SET state = 'succeeded' WHERE state = 'running';
        UPDATE deliveries SET state = 'done' WHERE state IN ('sending', 'committing');
        UPDATE letter_vectors SET seq = (SELECT max(seq) FROM messages WHERE persona_id = 'ada'), persona_id = 'ada';
        UPDATE thread_memory SET inputs_json = '[]', from_seq = 1, upto_seq = 2;
        UPDATE run_turns SET sources_json = NULL WHERE sources_json = '{}' OR NOT json_valid(sources_json);
        UPDATE budget_accounts SET scope = 'persona', owner = 'ada' WHERE owner LIKE '% ä';
        UPDATE thread_resets SET thread_id = (SELECT thread_id FROM messages WHERE persona_id = 'ada' LIMIT 1);
        UPDATE memory_events SET before_json = NULL WHERE before_json = '{}' AND why = ''";
    rows.execute(rest).await.expect("at rest");
    rows.close().await.expect("closed");
}

/// Rows of all tables by their names, without their numbers.
async fn everything(workspace: &Workspace) -> BTreeMap<String, Vec<String>> {
    let mut file = Connection::file(&workspace.path().join("data/attache.db")).await;
    let mut found = BTreeMap::new();
    for table in copied_tables(&mut file).await {
        if OTHERS.contains(&table.as_str()) {
            continue;
        }
        let rows = lines(&mut file, &table, "1 = 1").await;
        found.insert(table, rows);
    }
    file.close().await.expect("closed");
    found
}

fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = std::fs::read(&path).expect("a file");
                let name = path.strip_prefix(folder).expect("below").to_owned();
                found.insert(name, bytes);
            }
        }
    }
    found
}

/// Moves the persona along these cells, one after the other.
async fn along(cells: &[&Workspace]) {
    for pair in cells.windows(2) {
        let report = moved_by(&cells[0].clock, pair[0], pair[1]).await;
        let report = report.expect("a move");
        assert!(report.rows > 100 && report.tables.len() > 45, "{report:?}");
        assert!(!pair[0].path().join("personas/ada").exists());
        for mut rows in [pair[0].rows().await, pair[1].rows().await] {
            let begun = lines(&mut rows, "persona_moves", "state <> 'ended'").await;
            assert_eq!(begun, [] as [&str; 0]);
        }
    }
}

#[tokio::test]
async fn every_row_goes_to_a_file_and_to_servers_and_comes_back() {
    let first = lived(Rows::File).await.expect("a cell of a file");
    plant(&first).await;
    let (before, folder) = (everything(&first).await, first.path().join("personas/ada"));
    let of_ada = files(&folder);
    let second = cell(Rows::File, "eva").await.expect("a cell of a file");
    let mut cells = vec![&first, &second];
    let servers = [
        cell(Rows::Server, "eva").await,
        cell(Rows::Server, "eva").await,
    ];
    cells.extend(servers.iter().flatten());
    // From the last server to another file, and home.
    let last = cell(Rows::File, "eva").await.expect("a cell of a file");
    cells.push(&last);
    cells.push(&first);
    along(&cells).await;

    let after = everything(&first).await;
    for (table, rows) in &before {
        assert_eq!(&after[table], rows, "{table}");
    }
    assert_eq!(files(&folder), of_ada);
    // Nothing of her is left on the way.
    for cell in &cells[1..cells.len() - 1] {
        let mut rows = cell.rows().await;
        for table in [
            "messages",
            "runs",
            "threads",
            "usage_days",
            "memory",
            "notices",
        ] {
            assert_eq!(
                lines(&mut rows, table, "1 = 1").await,
                [] as [&str; 0],
                "{table}"
            );
        }
    }
}

#[tokio::test]
async fn numbers_go_behind_those_of_the_cell_and_others_keep_theirs() {
    let first = lived(Rows::File).await.expect("a cell of a file");
    let second = super::cells::other(Rows::File, "eva", &first).await;
    let second = second.expect("a cell of a file");
    let numbers = "SELECT count(*) FROM messages WHERE persona_id = 'eva' AND seq <= 2";
    let before = super::cells::count(&second, numbers).await;
    assert_eq!(before, 2);
    let of_eve = "SELECT count(*) FROM messages WHERE persona_id = 'eve'";
    let here = super::cells::count(&first, of_eve).await;
    moved(&first, &second).await.expect("a move");
    assert_eq!(super::cells::count(&second, numbers).await, before);
    let behind = "SELECT count(*) FROM messages WHERE persona_id = 'ada' AND seq <= 2";
    assert_eq!(super::cells::count(&second, behind).await, 0);
    assert!(here > 1);
    assert_eq!(super::cells::count(&first, of_eve).await, here);
    // Old letters are no news to those who follow what happens.
    let news = "SELECT count(*) FROM feed WHERE persona_id = 'ada'";
    assert_eq!(super::cells::count(&second, news).await, 0);
    drop(closed(second.start().await).await);
}

/// Those of a persona's tables are translated (`src/store/transfer/persona/numbers.rs`); the others do not go along. Columns of
/// JSON that name numbers are `inputs_json` of summaries and `sources_json` of turns.
#[tokio::test]
async fn columns_that_name_numbers_of_letters_are_these() {
    let workspace = closed(cell(Rows::File, "eva").await.expect("a cell").start().await).await;
    let sql = "SELECT t.name || '.' || c.name FROM pragma_table_list t JOIN pragma_table_info(t.name) c
        WHERE t.schema = 'main' AND t.type = 'table' AND c.name <> 'seq' AND (c.name LIKE '%seq%' OR c.name LIKE '%after%') ORDER BY 1";
    let mut rows = workspace.rows().await;
    let columns = query_scalar::<String>(sql).fetch_all(&mut rows).await;
    let known = [
        // Of iCalendar (RFC 5545, section 3.8.7.4), and no number of a row.
        "events.sequence",
        "filed_summaries.through_seq",
        "provider_sessions.seen_seq",
        "thread_memory.from_seq",
        "thread_memory.upto_seq",
        "thread_participants.joined_after",
        "thread_resets.after_seq",
        "webhooks.through_seq",
    ];
    assert_eq!(columns.expect("columns"), known);
}
