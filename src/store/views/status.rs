//! What waits and what failed, as counts: cheap whatever the size of the database.

use crate::domain::{PersonaId, Timestamp};
use crate::store::archive;
use crate::store::db::{Row, Sql};
use crate::store::nodes::list::NodeRecord;
use crate::store::sql::persona_id;
use crate::store::{OpenError, Result, Store};
use serde::Serialize;
use std::time::Duration;

/// Numbers of what waits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct WaitingWork {
    /// Letters whose senders a name server could not tell yet.
    pub letters_held: u64,
    pub runs_queued: u64,
    pub runs_running: u64,
    /// Runs that wait for another attempt, or for money.
    pub runs_waiting_retry: u64,
    pub runs_waiting_approval: u64,
    /// Questions to the owners, those of runs that wait among them.
    pub questions: u64,
    /// Mails that wait for a person to send them.
    pub drafts: u64,
    /// Entries of memory that wait for the owners.
    pub memory_proposed: u64,
    /// Mails that are queued, or being sent.
    pub mails: u64,
    /// Mails that an owner decides about: whether the server has them already is not known.
    pub mails_held: u64,
    /// Events that webhooks are to be told.
    pub webhook_events: u64,
}

/// Numbers of what has failed since an instant, as far as the feed goes back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailedWork {
    pub since: Timestamp,
    pub runs: u64,
    pub mails: u64,
    pub slots_missed: u64,
    /// Facts of which the owners were told, or are to be.
    pub notices: u64,
    /// `false`: the feed is pruned up to a later instant, so there may be more.
    pub is_whole: bool,
}

/// Rows of a persona, for comparison with its folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonaRecords {
    pub persona: PersonaId,
    /// Runs that have not ended.
    pub open_runs: u64,
}

/// What the records tell of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallRecords {
    pub bytes: u64,
    /// Bytes of pages that hold nothing.
    pub free_bytes: u64,
    /// `None`: nothing was stored yet.
    pub newest_at: Option<Timestamp>,
    pub personas: Vec<PersonaRecords>,
    pub last_backup: Option<NewestBackup>,
    /// Erasures of a person that were begun and are not finished.
    pub interrupted_erasures: usize,
    /// Engines on a database of PostgreSQL whose leases last; empty on SQLite.
    pub nodes: Vec<NodeRecord>,
}

/// The newest backup that this database knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewestBackup {
    pub at: Timestamp,
    pub file: String,
}

/// The conditions on states are those of the indexes of open rows.
const WAITING_WORK: &str = "
    SELECT (SELECT count(*) FROM held_letters) AS letters_held,
      (SELECT count(*) FROM runs WHERE state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')
        AND state = 'queued') AS runs_queued,
      (SELECT count(*) FROM runs WHERE state = 'running') AS runs_running,
      (SELECT count(*) FROM runs WHERE state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')
        AND state = 'waiting_retry') AS runs_waiting_retry,
      (SELECT count(*) FROM runs WHERE state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')
        AND state = 'waiting_approval') AS runs_waiting_approval,
      a.open - a.drafts AS questions, a.drafts,
      (SELECT count(*) FROM memory WHERE status = 'proposed') AS memory_proposed,
      (SELECT count(*) FROM deliveries WHERE state IN ('queued', 'sending', 'committing')) AS mails,
      (SELECT count(*) FROM deliveries WHERE state = 'held') AS mails_held,
      (SELECT count(*) FROM webhook_deliveries WHERE state = 'queued') AS webhook_events
    FROM (SELECT count(*) AS open, count(draft_id) AS drafts FROM approvals WHERE state = 'open' AND expires_at > '') a";
const FAILED_WORK: &str = "
    SELECT count(DISTINCT CASE WHEN kind = 'run.failed' THEN run_id END) AS runs,
      count(DISTINCT CASE WHEN kind = 'delivery.failed' THEN delivery_id END) AS mails,
      count(DISTINCT CASE WHEN kind = 'slot.missed' THEN item END) AS slots_missed,
      count(CASE WHEN kind = 'notice.opened' THEN 1 END) AS notices,
      coalesce((SELECT seq = 1 OR at < $1 FROM feed ORDER BY seq LIMIT 1), 1 = 1) AS is_whole
    FROM feed WHERE at >= $1";
/// The newest instants by the clock of this machine; not those of letters, of which imported ones have the sender's.
const NEWEST_INSTANT: &str = "
    SELECT max(coalesce((SELECT at FROM feed ORDER BY seq DESC LIMIT 1), ''),
      coalesce((SELECT created_at FROM runs ORDER BY seq DESC LIMIT 1), '')) AS at";

const DATABASE_SIZE: Sql = Sql::pair(
    "
    SELECT page_count * page_size AS bytes, freelist_count * page_size AS free_bytes
    FROM pragma_page_count, pragma_page_size, pragma_freelist_count",
    "SELECT pg_database_size(current_database()) AS bytes, 0 AS free_bytes",
);
const PERSONA_RECORDS: &str = "
    WITH open_runs (persona_id) AS MATERIALIZED (SELECT persona_id FROM runs
      WHERE state IN ('queued', 'running', 'waiting_approval', 'waiting_retry') ORDER BY seq)
    SELECT p.persona_id, (SELECT count(*) FROM open_runs o WHERE o.persona_id = p.persona_id) AS open_runs
    FROM (SELECT DISTINCT persona_id FROM threads) p ORDER BY p.persona_id";

/// Distance from which the newest row is in the future: the clock went back, or was ahead.
pub const ROW_AHEAD_MAX: Duration = Duration::from_secs(60);

impl Store {
    /// Returns the instant of the newest row by the clock of this machine; `None`: nothing was stored yet.
    pub async fn newest_instant(&self) -> Result<Option<Timestamp>> {
        let newest: String = self.one(NEWEST_INSTANT, ()).await?;
        Ok(Timestamp::parse(&newest))
    }

    /// Counts what waits.
    pub async fn waiting_work(&self) -> Result<WaitingWork> {
        let row = self.row(WAITING_WORK, ()).await?;
        let count = |column: &str| row.get::<i64>(column).unsigned_abs();
        Ok(WaitingWork {
            letters_held: count("letters_held"),
            runs_queued: count("runs_queued"),
            runs_running: count("runs_running"),
            runs_waiting_retry: count("runs_waiting_retry"),
            runs_waiting_approval: count("runs_waiting_approval"),
            questions: count("questions"),
            drafts: count("drafts"),
            memory_proposed: count("memory_proposed"),
            mails: count("mails"),
            mails_held: count("mails_held"),
            webhook_events: count("webhook_events"),
        })
    }

    /// Counts what has failed since that instant.
    pub async fn failed_work(&self, since: Timestamp) -> Result<FailedWork> {
        let row = self.row(FAILED_WORK, since).await?;
        let count = |column: &str| row.get::<i64>(column).unsigned_abs();
        Ok(FailedWork {
            since,
            runs: count("runs"),
            mails: count("mails"),
            slots_missed: count("slots_missed"),
            notices: count("notices"),
            is_whole: row.get("is_whole"),
        })
    }

    /// Returns the newest good backup, by the engine or by hand; `None`: none was made of this database, or its row is older.
    pub async fn newest_backup(&self) -> Result<Option<NewestBackup>> {
        let good = self.last_backup().await?.good;
        Ok(good.map(|row| NewestBackup {
            at: row.started,
            file: row.path,
        }))
    }

    /// Returns what the records tell of the installation.
    pub async fn install_records(&self) -> Result<InstallRecords> {
        let size = self.row(DATABASE_SIZE, ()).await?;
        let bytes = |column: &str| size.get::<i64>(column).unsigned_abs();
        let personas = self.rows(PERSONA_RECORDS, ());
        let records = |row: &Row| -> Result<PersonaRecords> {
            Ok(PersonaRecords {
                persona: persona_id(row)?,
                open_runs: row.get::<i64>("open_runs").unsigned_abs(),
            })
        };
        Ok(InstallRecords {
            bytes: bytes("bytes"),
            free_bytes: bytes("free_bytes"),
            newest_at: self.newest_instant().await?,
            personas: personas.await?.iter().map(records).collect::<Result<_>>()?,
            last_backup: self.newest_backup().await?,
            interrupted_erasures: self.open_erasures().await?.len(),
            nodes: self.living_nodes().await?,
        })
    }

    /// Returns the reason why no engine starts in this database: it is an archive, or rows of it are on their way.
    pub async fn engine_refusal(&self) -> Result<Option<OpenError>> {
        let mut conn = self.readers().acquire().await?;
        match archive::require_no_archive(&mut conn).await {
            Ok(()) => Ok(None),
            Err(OpenError::Sql(error)) => Err(error.into()),
            Err(refusal) => Ok(Some(refusal)),
        }
    }
}
