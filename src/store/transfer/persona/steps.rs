//! A move of one persona, step by step. A death between any two of them is begun anew by the same command:
//!
//! 1. the old database says that the persona goes; no engine starts there any more
//! 2. the new one gets all rows in one transaction, compared before the commit, and says that the persona comes
//! 3. the new workspace has the folder, compared
//! 4. the old one has none any more
//! 5. the old database loses the rows, and says that the move has ended
//! 6. the new one says so, and engines start there
//!
//! So at no instant do engines work with the persona in both cells, and until 5 all rows are in the old one.

use super::cell::{MovingCell, absolute, require_two};
use super::checks::{
    folder_of, require_at_rest, require_config, require_folder, require_no_folder, require_no_rows,
};
use super::error::PersonaMoveError;
use super::folder::{self, FolderSize};
use super::numbers::{NumberShifts, go_on};
use super::objects::ObjectRooms;
use super::record::{self, MoveDirection};
use super::removal::remove;
use super::rows::{MovingTable, RowTranslation};
use super::{money, texts};
use crate::clock::Clock;
use crate::config::NameCatalog;
use crate::domain::PersonaId;
use crate::store::archive::{OpenMove, open_moves};
use crate::store::db::{self, Connection};
use crate::store::persona_tables::{PERSONA_TABLES, PersonaTable};
use crate::store::search::index_words;
use crate::store::transfer::TransferError;
use crate::store::transfer::canonical::TableDigest;
use crate::store::transfer::source::BEGIN_SNAPSHOT;
use crate::store::transfer::triggers::{OF_INDEXES, RestingTriggers};
use serde::Serialize;
use std::path::Path;

/// The trigger that names letters to the index of parts of words.
static NAMES_PARTS: &str = "letter_parts_new";
/// Filed letters that the owner was not told of yet: those of the persona in the old cell, and all others in the new one.
pub(in crate::store) const HAS_PENDING: &str = "
    SELECT EXISTS (SELECT 1 FROM messages
      WHERE disposition >= 'filed:' AND disposition < 'filed:~' AND disposition <> 'filed:import'
        AND seq > (SELECT through_seq FROM filed_summaries) AND ($1 IS NULL OR persona_id = $1))";
/// What the owner was told of in the old cell is no news in the new one.
pub(in crate::store) const ALL_NOTIFIED: &str = "
    UPDATE filed_summaries SET through_seq = (SELECT coalesce(max(seq), 0) FROM messages)
    WHERE id = 1 AND through_seq < (SELECT coalesce(max(seq), 0) FROM messages)";

/// A persona that went to another cell.
#[derive(Debug, Clone, Serialize)]
pub struct PersonaMoveReport {
    pub persona: String,
    /// Folders of the two workspaces.
    pub from: String,
    pub to: String,
    /// Tables with the persona's rows and their digest, which both databases had.
    pub tables: Vec<TableDigest>,
    pub rows: u64,
    /// Texts that its runs name.
    pub texts: u64,
    pub folder: FolderSize,
    /// An earlier attempt had died; this one has finished it.
    pub is_resumed: bool,
}

/// A persona on its way from one cell to another.
pub struct PersonaMove<'a> {
    source: MovingCell,
    target: MovingCell,
    persona: &'a PersonaId,
    id: String,
    clock: &'a dyn Clock,
}

/// What begins a move, or goes on with one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MoveStart {
    New,
    Resumed,
    /// The old cell has ended it already.
    EndedHere,
}

impl<'a> PersonaMove<'a> {
    /// Moves a persona with everything to the workspace `to`, or finishes an attempt that died. The engines of both cells must be
    /// stopped.
    pub async fn carry_out(
        (from, to): (&Path, &Path),
        persona: &'a PersonaId,
        names: &NameCatalog,
        clock: &'a dyn Clock,
    ) -> Result<PersonaMoveReport, PersonaMoveError> {
        let (from, to) = (absolute(from)?, absolute(to)?);
        require_two(&from, &to)?;
        let mut source = MovingCell::open(&from, clock).await?;
        let mut target = MovingCell::open(&to, clock).await?;
        let cells = (&mut source, &mut target);
        let (id, start) = begin(cells, (persona, names), clock).await?;
        let mut moving = Self {
            source,
            target,
            persona,
            id,
            clock,
        };
        let mut report = PersonaMoveReport {
            persona: persona.to_string(),
            from: moving.source.shown(),
            to: moving.target.shown(),
            tables: Vec::new(),
            rows: 0,
            texts: 0,
            folder: FolderSize::default(),
            is_resumed: start != MoveStart::New,
        };
        if start != MoveStart::EndedHere {
            moving.bring(&mut report).await?;
        }
        moving.end_there(&report).await?;
        Ok(report)
    }

    /// Steps 2 to 5.
    async fn bring(&mut self, report: &mut PersonaMoveReport) -> Result<(), PersonaMoveError> {
        crate::crash::crash_point!("PM1");
        self.source.execute(&BEGIN_SNAPSHOT).await?;
        (report.tables, report.texts) = self.bring_rows().await?;
        report.rows = report.tables.iter().map(|table| table.rows).sum();
        crate::crash::crash_point!("PM2");
        let places = (&*self.source.workspace, &*self.target.workspace);
        report.folder = folder::bring(places, (self.persona, &self.id))?;
        crate::crash::crash_point!("PM3");
        folder::leave(places.0, (self.persona, &self.id))?;
        crate::crash::crash_point!("PM4");
        remove(&mut self.source.conn, self.persona).await?;
        self.end_in(true, report).await?;
        self.source.execute("COMMIT").await?;
        crate::crash::crash_point!("PM5");
        Ok(())
    }

    async fn end_in(
        &mut self,
        is_source: bool,
        report: &PersonaMoveReport,
    ) -> Result<(), PersonaMoveError> {
        let counts = counts_json(&report.tables)?;
        let conn = match is_source {
            true => &mut self.source.conn,
            false => &mut self.target.conn,
        };
        let now = self.clock.now();
        record::end(conn, (&self.id, "ended"), (now, &counts)).await?;
        Ok(())
    }

    /// Step 6.
    async fn end_there(mut self, report: &PersonaMoveReport) -> Result<(), PersonaMoveError> {
        self.end_in(false, report).await?;
        self.target.conn.close().await?;
        self.source.conn.close().await?;
        Ok(())
    }

    /// Copies all rows in one transaction of the target, and compares them before it commits.
    async fn bring_rows(&mut self) -> Result<(Vec<TableDigest>, u64), PersonaMoveError> {
        let rooms = ObjectRooms::of(&self.source, &self.target, self.clock);
        let is_without_nul = [&self.source, &self.target]
            .iter()
            .any(|cell| matches!(cell.conn, Connection::Postgres(_)));
        let persona = self.persona;
        self.target.execute(&BEGIN_SNAPSHOT).await?;
        let (source, target) = (&mut self.source.conn, &mut self.target.conn);
        if record::is_known(target, &self.id).await? {
            remove(target, persona).await?;
            record::forget(target, &self.id).await?;
        }
        let was_pending =
            has_pending(source, Some(persona)).await? || has_pending(target, None).await?;
        let resting = rest(target).await?;
        let tables = moving_tables(source, target).await?;
        let with_numbers: Vec<(&'static PersonaTable, bool)> = tables
            .iter()
            .map(|moving| (moving.table, moving.has_numbers))
            .collect();
        let shifts = NumberShifts::of((source, target), &with_numbers, persona.as_str()).await?;
        let translation = RowTranslation {
            shifts,
            is_without_nul,
        };
        let mut digests = Vec::with_capacity(tables.len());
        for moving in &tables {
            let places = (&mut *source, &mut *target);
            let copied = translation.copy(moving, places, (persona, &rooms));
            digests.push(copied.await?);
        }
        let texts = texts::copy(source, target, persona).await?;
        money::add(target, persona).await?;
        for moving in tables.iter().filter(|moving| moving.has_numbers) {
            go_on_with(target, moving).await?;
        }
        resting.wake(target).await?;
        index_words::make_all(target).await?;
        if !was_pending {
            db::query(ALL_NOTIFIED).execute(&mut *target).await?;
        }
        compare(target, (&tables, &translation), (persona, &digests)).await?;
        let (place, counts) = (self.source.workspace.clone(), counts_json(&digests)?);
        let record = (MoveDirection::In, &*place);
        let said = (self.clock.now(), &*counts);
        record::begin(target, (&self.id, persona), record, said).await?;
        self.target.execute("COMMIT").await?;
        Ok((digests, texts))
    }

    /// Takes a move back that has begun and not ended: the persona is in the old cell alone again.
    ///
    /// Errors: [`PersonaMoveError::TooFar`] where the old cell has no folder of it any more.
    pub async fn cancel(
        from: &Path,
        persona: &PersonaId,
        clock: &dyn Clock,
    ) -> Result<String, PersonaMoveError> {
        let from = absolute(from)?;
        let mut source = MovingCell::open(&from, clock).await?;
        let open = open_moves(&mut source.conn).await?;
        let of_persona = |open: &OpenMove| open.is_out && open.persona == persona.as_str();
        let Some(open) = open.into_iter().find(of_persona) else {
            return Err(PersonaMoveError::NothingToCancel {
                persona: persona.to_string(),
            });
        };
        if !folder_of(&from, persona).is_dir() {
            return Err(PersonaMoveError::TooFar {
                persona: open.persona,
                place: open.place,
            });
        }
        let to = absolute(Path::new(&open.place))?;
        let mut target = MovingCell::open(&to, clock).await?;
        if record::is_known(&mut target.conn, &open.id).await? {
            folder::withdraw(&to, (persona, &open.id))?;
            target.execute(&BEGIN_SNAPSHOT).await?;
            remove(&mut target.conn, persona).await?;
            record::forget(&mut target.conn, &open.id).await?;
            target.execute("COMMIT").await?;
        }
        let now = clock.now();
        record::end(&mut source.conn, (&open.id, "cancelled"), (now, "[]")).await?;
        target.conn.close().await?;
        source.conn.close().await?;
        Ok(open.place)
    }
}

/// Step 1: finds an attempt that died, or checks that nothing refuses the move and begins it.
async fn begin(
    (source, target): (&mut MovingCell, &mut MovingCell),
    (persona, names): (&PersonaId, &NameCatalog),
    clock: &dyn Clock,
) -> Result<(String, MoveStart), PersonaMoveError> {
    let there = open_moves(&mut target.conn).await?;
    let here = open_moves(&mut source.conn).await?;
    let place = target.shown();
    if let Some(open) = here.first() {
        let is_this = open.is_out && open.persona == persona.as_str() && open.place == place;
        if !is_this || there.iter().any(|other| other.id != open.id) {
            return Err(other_move(open));
        }
        require_at_rest(&mut source.conn, persona).await?;
        if there.is_empty() {
            // Engines may have worked there since.
            require_room((source, target), (persona, names)).await?;
        }
        return Ok((open.id.clone(), MoveStart::Resumed));
    }
    if let Some(open) = there.first() {
        let last = record::last_out(&mut source.conn, persona).await?;
        return match last {
            Some(id) if id == open.id => Ok((id, MoveStart::EndedHere)),
            _ => Err(other_move(open)),
        };
    }
    require_folder(&source.workspace, persona)?;
    require_at_rest(&mut source.conn, persona).await?;
    require_room((source, target), (persona, names)).await?;
    let id = clock.new_id();
    let record = (MoveDirection::Out, &*target.workspace);
    record::begin(
        &mut source.conn,
        (&id, persona),
        record,
        (clock.now(), "[]"),
    )
    .await?;
    Ok((id, MoveStart::New))
}

/// Checks that the target can take the persona.
async fn require_room(
    (source, target): (&MovingCell, &mut MovingCell),
    (persona, names): (&PersonaId, &NameCatalog),
) -> Result<(), PersonaMoveError> {
    let (from, to) = (&*source.workspace, &*target.workspace);
    require_no_folder(to, persona)?;
    require_no_rows(&mut target.conn, persona).await?;
    require_config((from, to), persona, names)
}

fn other_move(open: &OpenMove) -> PersonaMoveError {
    PersonaMoveError::OtherMove {
        persona: open.persona.clone(),
        place: open.place.clone(),
    }
}

/// What triggers compute comes with the rows, but for the indexes of words; and no letter is news.
async fn rest(target: &mut Connection) -> Result<RestingTriggers, TransferError> {
    RestingTriggers::rest_those(target, |name| {
        name != NAMES_PARTS && !OF_INDEXES.contains(&name)
    })
    .await
}

async fn moving_tables(
    source: &mut Connection,
    target: &mut Connection,
) -> Result<Vec<MovingTable>, TransferError> {
    let mut tables = Vec::with_capacity(PERSONA_TABLES.len());
    for table in PERSONA_TABLES {
        tables.push(MovingTable::read(table, (&mut *source, &mut *target)).await?);
    }
    Ok(tables)
}

async fn go_on_with(target: &mut Connection, moving: &MovingTable) -> Result<(), db::Error> {
    // The number of a vector is that of its letter.
    match moving.table.name {
        "letter_vectors" => Ok(()),
        table => go_on(target, table).await,
    }
}

/// Errors: [`TransferError::Differs`].
async fn compare(
    target: &mut Connection,
    (tables, translation): (&[MovingTable], &RowTranslation),
    (persona, copied): (&PersonaId, &[TableDigest]),
) -> Result<(), TransferError> {
    let mut differing = Vec::new();
    for (moving, wanted) in tables.iter().zip(copied) {
        let found = translation.read_back(moving, target, persona).await?;
        if found != *wanted {
            differing.push(format!("`{}`", wanted.table));
        }
    }
    match differing.is_empty() {
        true => Ok(()),
        false => Err(TransferError::Differs { tables: differing }),
    }
}

async fn has_pending(
    conn: &mut Connection,
    persona: Option<&PersonaId>,
) -> Result<bool, db::Error> {
    let pending = db::query_scalar::<bool>(HAS_PENDING);
    let pending = pending.bind(persona.map(PersonaId::as_str));
    pending.fetch_one(conn).await
}

fn counts_json(tables: &[TableDigest]) -> Result<String, db::Error> {
    serde_json::to_string(tables).map_err(|error| db::Error::Encode(error.into()))
}
