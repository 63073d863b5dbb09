//! The audit of a test's database, and that the feed tells what its rows say.

use super::database;
use super::db::{self, Connection};
use attache::store::audit::{Audit, AuditScope, Findings};

/// Asserts everything that `attache doctor --audit` looks at, and what holds when nothing is due.
pub async fn audit(rows: &mut Connection) {
    let everything = AuditScope {
        bytes: true,
        at_rest: true,
    };
    let findings = examined(rows, everything).await;
    assert!(findings.broken.is_empty(), "{:#?}", findings.broken);
    let untold: Vec<String> = db::query_scalar(UNTOLD)
        .fetch_all(rows)
        .await
        .expect("the feed");
    assert!(
        untold.is_empty(),
        "the feed tells another state of {untold:#?}"
    );
}

/// The audit of the database behind a connection.
pub async fn examined(rows: &mut Connection, wanted: AuditScope) -> Findings {
    let which = rows.on(
        "SELECT file FROM pragma_database_list WHERE name = 'main'",
        "SELECT current_database()::text",
    );
    let which: String = db::query_scalar(which)
        .fetch_one(rows)
        .await
        .expect("a database");
    let audit = match rows {
        Connection::Sqlite(_) => Audit::open(which.as_ref()).await,
        Connection::Postgres(_) => {
            let folder = tempfile::tempdir().expect("a temporary folder");
            database::tell(folder.path(), &which);
            Audit::of_workspace(folder.path()).await
        }
    };
    let mut audit = audit.expect("a database of ours");
    audit.examine(wanted).await.expect("an audit")
}

/// Runs and mails whose newest event tells another state than their rows. Rows that a test wrote itself have none.
const UNTOLD: &str = "
    WITH newest AS (SELECT coalesce(delivery_id, run_id) AS subject, max(seq) AS seq FROM feed
        WHERE kind LIKE 'run.%' OR kind LIKE 'delivery.%' GROUP BY 1),
      told AS (SELECT n.subject, f.kind FROM newest n JOIN feed f ON f.seq = n.seq)
    SELECT 'run ' || r.id FROM told n JOIN runs r ON r.id = n.subject WHERE n.kind <> 'run.' || r.state
    UNION ALL SELECT 'mail ' || d.id FROM told n JOIN deliveries d ON d.id = n.subject
      WHERE n.kind <> 'delivery.' || d.state AND d.state NOT IN ('sending', 'committing')";
