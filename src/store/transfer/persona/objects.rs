//! Bytes of rows in object stores: those of the old cell are read and put into the new one's, where it has one. Bytes that are in
//! their row stay there.

use super::cell::MovingCell;
use super::error::PersonaMoveError;
use crate::clock::Clock;
use crate::domain::{LoopKey, sha256_hex};
use crate::objects::ObjectName;
use crate::store::db::Cell;
use crate::store::objects::room::{ObjectRoom, owner_of};

/// Columns of a row whose bytes may be an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct ObjectColumns {
    pub table: &'static str,
    bytes: &'static str,
    pub object: &'static str,
    /// `None`: another column has the size, whether there is an object or not.
    size: Option<&'static str>,
    /// The column of bytes may not be NULL.
    is_needed: bool,
}

pub(super) static OBJECT_COLUMNS: &[ObjectColumns] = &[
    ObjectColumns {
        table: "raw_letters",
        bytes: "bytes",
        object: "object",
        size: Some("object_bytes"),
        is_needed: true,
    },
    ObjectColumns {
        table: "attachments",
        bytes: "bytes",
        object: "object",
        size: None,
        is_needed: true,
    },
    ObjectColumns {
        table: "run_turns",
        bytes: "packed",
        object: "packed_object",
        size: Some("object_bytes"),
        is_needed: false,
    },
];

/// Places of these columns in a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct ObjectPlaces {
    bytes: usize,
    object: usize,
    size: Option<usize>,
    is_needed: bool,
}

impl ObjectPlaces {
    /// `None`: the table has no objects.
    pub fn of(table: &str, columns: &[String]) -> Option<Self> {
        let of = OBJECT_COLUMNS.iter().find(|of| of.table == table)?;
        let place = |name: &str| columns.iter().position(|column| column == name);
        Some(Self {
            bytes: place(of.bytes)?,
            object: place(of.object)?,
            size: of.size.and_then(place),
            is_needed: of.is_needed,
        })
    }

    /// Has the digest stand for the bytes, wherever they are.
    pub fn digest(self, cells: &mut [Cell]) {
        let digest = match (&cells[self.object], &cells[self.bytes]) {
            (Cell::Text(name), _) => {
                let name = ObjectName::of_row(name.as_str());
                name.sha256().map(str::to_owned)
            }
            (_, Cell::Bytes(bytes)) => Some(sha256_hex(&[bytes])),
            _ => None,
        };
        cells[self.bytes] = digest.map_or(Cell::Null, Cell::Text);
        cells[self.object] = Cell::Null;
        if let Some(size) = self.size {
            cells[size] = Cell::Null;
        }
    }
}

/// The object stores of both cells.
pub(super) struct ObjectRooms<'a> {
    from: ObjectRoom,
    to: ObjectRoom,
    key: LoopKey,
    clock: &'a dyn Clock,
}

impl<'a> ObjectRooms<'a> {
    pub fn of(from: &MovingCell, to: &MovingCell, clock: &'a dyn Clock) -> Self {
        Self {
            from: from.objects.clone(),
            to: to.objects.clone(),
            key: to.loop_key.clone(),
            clock,
        }
    }

    /// Gives a row the bytes of its object, or an object of the new cell.
    ///
    /// Errors: an object that cannot be read or put. What was put is swept from the object store when no row names it.
    pub async fn bring(
        &self,
        places: ObjectPlaces,
        cells: &mut [Cell],
    ) -> Result<(), PersonaMoveError> {
        let Cell::Text(name) = &cells[places.object] else {
            return Ok(());
        };
        let bytes = self.from.read(name).await?;
        let (length, size_column) = (bytes.len(), places.size);
        let client = self.to.client()?.filter(|client| client.takes(length));
        let Some(client) = client else {
            cells[places.bytes] = Cell::Bytes(bytes);
            cells[places.object] = Cell::Null;
            if let Some(size) = size_column {
                cells[size] = Cell::Null;
            }
            return Ok(());
        };
        let (owner, sha256) = (owner_of(&self.key), sha256_hex(&[&bytes]));
        let name = ObjectName::new(&owner, &sha256, &self.clock.new_id());
        client.within(client.put(&name, bytes)).await?;
        cells[places.object] = Cell::Text(name.as_str().to_owned());
        cells[places.bytes] = match places.is_needed {
            true => Cell::Bytes(Vec::new()),
            false => Cell::Null,
        };
        if let Some(size) = size_column {
            cells[size] = Cell::Integer(i64::try_from(length).unwrap_or(i64::MAX));
        }
        Ok(())
    }
}
