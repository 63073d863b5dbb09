//! The feed: what happens, in the order of commits, as kinds and ids without text.
//!
//! Its rows are written by triggers (migration 0201), each in the transaction that makes it true; only of the
//! configuration, which is no row, the engine tells by itself. A row's number is given inside a
//! transaction that holds SQLite's only write lock, in whatever process, so numbers grow in the order of commits: a reader that
//! has seen number N has seen every smaller one, and none appears below N later (decision D-104). PostgreSQL gives a number when
//! a row is inserted, and others may commit before; there newer events are read while no write goes on. Numbers of what was rolled
//! back are missing there, too, so what was pruned is known by a row of its own.

use crate::domain::{DeliveryId, FeedKind, MessageId, PersonaId, RunId, ThreadId, Timestamp};
use crate::store::db::{self, Query, Row, Scope, Sql};
use crate::store::sql::to_json;
use crate::store::{PersonaStore, Result, Store, StoreError};
use serde::{Deserialize, Serialize};

/// Most events of a page.
pub const FEED_PAGE_MAX: u32 = 1000;

/// Most rows that one read looks at, so that a narrow filter costs no more than this.
const WINDOW: i64 = 10_000;

/// Selection of events; what is `None` does not select.
#[derive(Debug, Clone, Default)]
pub struct FeedFilter {
    pub persona: Option<PersonaId>,
    pub run: Option<RunId>,
    pub thread: Option<ThreadId>,
}

/// Something that happened. Rows that its ids name may be pruned meanwhile, and threads may have become one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FeedEvent {
    pub seq: i64,
    pub kind: FeedKind,
    pub persona: Option<PersonaId>,
    pub thread: Option<ThreadId>,
    pub run: Option<RunId>,
    pub message: Option<MessageId>,
    pub delivery: Option<DeliveryId>,
    pub approval: Option<String>,
    /// What it is about where no other field says so: `[turn,attempt]`, the id of a call, a notice or an entry of memory,
    /// `[responsibility,slot]`, a [`ConfigurationEvent`] as JSON.
    pub item: Option<String>,
    pub at: Timestamp,
}

/// Item of an event about the configuration: which files, and how much was found in them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConfigurationEvent {
    /// Paths below the workspace, at most [`FILES_MAX`].
    pub files: Vec<String>,
    /// Number of further files.
    pub more_files: usize,
    pub problems: usize,
    pub warnings: usize,
}

/// Most files that an event names.
const FILES_MAX: usize = 20;

impl ConfigurationEvent {
    /// Names as many of the files as an event may.
    pub fn of(mut files: Vec<String>, problems: usize, warnings: usize) -> Self {
        let more_files = files.len().saturating_sub(FILES_MAX);
        files.truncate(FILES_MAX);
        Self {
            files,
            more_files,
            problems,
            warnings,
        }
    }
}

/// Events after a number, and where to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedPage {
    pub events: Vec<FeedEvent>,
    /// Number after which the next page begins. It may be larger than that of the last event: what lies between is of others.
    pub through: i64,
    /// Number of the newest event of all.
    pub newest: i64,
    /// `true`: the reader asked for events after a number whose successors are pruned, or that this database never gave. The
    /// page begins with the oldest event that is kept, and what was before it is missing.
    pub has_gap: bool,
}

impl FeedPage {
    /// Reports whether more events may be there already.
    pub fn has_more(&self) -> bool {
        self.through < self.newest
    }
}

/// One statement, so that bounds and rows are of one snapshot. There is always a row: the bounds without an event.
const FEED_AFTER: Sql = Sql::pair(
    "
    WITH bounds (oldest, newest) AS MATERIALIZED (
      SELECT coalesce((SELECT min(seq) FROM feed), 1), coalesce((SELECT max(seq) FROM feed), 0)),
    start (newest, after) AS MATERIALIZED (
      SELECT newest, CASE WHEN $1 > newest OR $1 < oldest - 1 THEN oldest - 1 ELSE $1 END FROM bounds)
    SELECT s.newest, s.after, f.seq, f.kind, f.persona_id, f.thread_id, f.run_id, f.message_id, f.delivery_id, f.approval_id,
      f.item, f.at
    FROM start s LEFT JOIN feed f ON f.seq > s.after AND f.seq <= s.after + $2
      AND ($3 IS NULL OR f.persona_id = $3) AND ($4 IS NULL OR f.run_id = $4) AND ($5 IS NULL OR f.thread_id = $5)
    ORDER BY f.seq LIMIT $6",
    "
    WITH bounds (oldest, newest, pruned) AS MATERIALIZED (
      SELECT coalesce((SELECT min(seq) FROM feed), 1), coalesce((SELECT max(seq) FROM feed), 0), (SELECT through FROM feed_pruned)),
    start (newest, after) AS MATERIALIZED (
      SELECT newest, CASE WHEN $1 > newest OR $1 < pruned THEN oldest - 1 ELSE $1 END FROM bounds)
    SELECT s.newest, s.after, f.seq, f.kind, f.persona_id, f.thread_id, f.run_id, f.message_id, f.delivery_id, f.approval_id,
      f.item, f.at
    FROM start s LEFT JOIN feed f ON f.seq > s.after AND f.seq <= s.after + $2
      AND ($3 IS NULL OR f.persona_id = $3) AND ($4 IS NULL OR f.run_id = $4) AND ($5 IS NULL OR f.thread_id = $5)
    ORDER BY f.seq LIMIT $6",
);
const FEED_NEWEST: &str = "SELECT coalesce(max(seq), 0) AS newest FROM feed";
const FEED_SINCE: &str = "SELECT min(seq) FROM feed WHERE at >= $1";

const TELL_OF_CONFIGURATION: &str = "INSERT INTO feed (kind, item, at) VALUES ($1, $2, $3)";

impl Store {
    /// Tells that files of the configuration were read again, and what became of them.
    pub async fn tell_of_configuration(
        &self,
        kind: FeedKind,
        event: &ConfigurationEvent,
    ) -> Result<()> {
        let (item, now) = (to_json(event)?, self.clock().now());
        transact!(self, Scope::Rows, |conn| {
            conn.exec(TELL_OF_CONFIGURATION, (&kind, item, now)).await?;
            Ok(())
        })
        .await
    }

    /// Returns events after number `since`, the oldest first, at most `limit` and [`FEED_PAGE_MAX`]. A page may be empty although
    /// [`FeedPage::has_more`].
    pub async fn feed_after(
        &self,
        since: i64,
        filter: &FeedFilter,
        limit: u32,
    ) -> Result<FeedPage> {
        let limit = limit.clamp(1, FEED_PAGE_MAX);
        let rows = db::query(FEED_AFTER).bind((
            since,
            WINDOW,
            &filter.persona,
            &filter.run,
            &filter.thread,
            limit,
        ));
        let rows = self.in_order_of_commits(rows, since).await?;
        let first = rows.first();
        let first = first.ok_or(StoreError::Unreadable { what: "feed" })?;
        let (newest, after): (i64, i64) = (first.get("newest"), first.get("after"));
        let events = rows
            .iter()
            .filter(|row| row.get::<Option<i64>>("seq").is_some())
            .map(Row::to)
            .collect::<Result<Vec<FeedEvent>>>()?;
        let is_full = events.len() == limit as usize;
        let through = match events.last() {
            Some(last) if is_full => last.seq,
            _ => newest.min(after + WINDOW),
        };
        Ok(FeedPage {
            events,
            through,
            newest,
            has_gap: after != since,
        })
    }

    /// Returns the number of the newest event; 0: there is none.
    pub async fn feed_newest(&self) -> Result<i64> {
        let newest = db::query(FEED_NEWEST);
        let rows = self.in_order_of_commits(newest, 0).await?;
        let newest = rows.first().map(|row| row.get("newest"));
        newest.ok_or(StoreError::Unreadable { what: "feed" })
    }

    /// Returns the number of the newest event that is seen now, for a look whether [`Store::feed_after`]
    /// has more. On PostgreSQL a smaller one may still appear.
    pub async fn feed_glance(&self) -> Result<i64> {
        self.one(FEED_NEWEST, ()).await
    }

    /// Executes a query of events; none below the newest of its result appears later.
    async fn in_order_of_commits(&self, query: Query, since: i64) -> Result<Vec<Row>> {
        let is_server = self.is_on_server();
        if is_server && self.feed_glance().await? > since {
            return transact!(self, Scope::Engine, |conn| query.rows(conn).await).await;
        }
        query.rows(self.readers()).await
    }

    /// Returns the number after which the events at or after an instant begin.
    pub async fn feed_before(&self, at: Timestamp) -> Result<i64> {
        let newest = self.feed_newest().await?;
        let first: Option<i64> = self.one(FEED_SINCE, at).await?;
        Ok(first.map_or(newest, |first| first - 1))
    }
}

impl PersonaStore {
    /// Returns events of one of this persona's runs, as [`Store::feed_after`] does.
    pub async fn feed_of_run(&self, run: &RunId, since: i64) -> Result<FeedPage> {
        let filter = FeedFilter {
            persona: Some(self.persona.clone()),
            run: Some(run.clone()),
            thread: None,
        };
        self.store.feed_after(since, &filter, FEED_PAGE_MAX).await
    }

    /// Returns the number of the newest event of all; it says nothing of what happened.
    pub async fn feed_newest(&self) -> Result<i64> {
        self.store.feed_newest().await
    }
}

from_row!(FeedEvent {
    seq,
    kind,
    persona: "persona_id",
    thread: "thread_id",
    run: "run_id",
    message: "message_id",
    delivery: "delivery_id",
    approval: "approval_id",
    item,
    at
});
