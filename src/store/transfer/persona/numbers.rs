//! Numbers of rows. A database gives them, so those of the new rows are others: each is moved by the same amount, in the same
//! order, behind the highest of the target. What names the number of a message is moved with it.
//!
//! Letters of a persona's past have negative numbers, which go below the lowest: their sign says what they are.

use crate::store::db::{self, Cell, Connection, Sql};
use crate::store::persona_tables::PersonaTable;
use crate::store::transfer::TransferError;
use crate::store::transfer::numbers::go_on_behind;
use serde_json::Value;
use std::collections::BTreeMap;

/// How far numbers of a table are moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct NumberShift {
    /// Added to numbers above 0; never negative.
    above: i64,
    /// Subtracted from those below.
    below: i64,
}

/// Which way numbers are translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Translation {
    /// Numbers stay, and texts get the form in which they are compared.
    AsRead,
    ToTarget,
    FromTarget,
}

/// Numbers in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NumberedColumn {
    /// Number of a message.
    Message,
    /// `[[number of a message, digest], …]`.
    MessagePairs,
    /// The reads of an assembled context (`context/resolvers/record.rs`).
    Reads,
    /// Number of an engine's start, which says nothing elsewhere.
    Epoch,
}

/// Columns with numbers besides `seq`, which is the number of a table's own rows.
static NUMBERED: &[(&str, &str, NumberedColumn)] = &[
    (
        "thread_participants",
        "joined_after",
        NumberedColumn::Message,
    ),
    ("thread_resets", "after_seq", NumberedColumn::Message),
    ("thread_memory", "from_seq", NumberedColumn::Message),
    ("thread_memory", "upto_seq", NumberedColumn::Message),
    ("thread_memory", "inputs_json", NumberedColumn::MessagePairs),
    ("letter_vectors", "seq", NumberedColumn::Message),
    ("run_turns", "sources_json", NumberedColumn::Reads),
    ("runs", "epoch", NumberedColumn::Epoch),
    ("deliveries", "epoch", NumberedColumn::Epoch),
    ("embedding_calls", "epoch", NumberedColumn::Epoch),
];
static MESSAGES: &str = "messages";
static SEQ: &str = "seq";

/// The highest number that PostgreSQL has given in a table, also to a row that is gone; 0 for SQLite, which goes on behind the
/// highest row.
const GIVEN_IN_TABLE: Sql = Sql::pair(
    "SELECT 0 AS highest WHERE $1 IS NOT NULL",
    "
    SELECT coalesce((SELECT s.last_value FROM pg_sequences s
      WHERE pg_get_serial_sequence(quote_ident($1), 'seq') = quote_ident(s.schemaname) || '.' || quote_ident(s.sequencename)), 0)
      AS highest",
);

/// Shifts of all tables with numbers.
#[derive(Debug, Default)]
pub(super) struct NumberShifts(BTreeMap<&'static str, NumberShift>);

impl NumberShift {
    /// `lowest` and `highest`: numbers above and below 0 of the rows that come, if there are any; `given` and `taken`: the highest
    /// and the lowest number of the target.
    fn new((lowest, highest): (Option<i64>, Option<i64>), (given, taken): (i64, i64)) -> Self {
        Self {
            above: lowest.map_or(0, |lowest| (given.max(0) + 1 - lowest).max(0)),
            below: highest.map_or(0, |highest| (highest + 1 - taken.min(0)).max(0)),
        }
    }

    /// `None`: the number is too large. Bounds that stand for no number stay.
    fn apply(self, number: i64, translation: Translation) -> Option<i64> {
        let sign = match translation {
            Translation::AsRead => return Some(number),
            Translation::ToTarget => 1,
            Translation::FromTarget => -1,
        };
        match number {
            i64::MIN | i64::MAX | 0 => Some(number),
            1.. => number.checked_add(self.above * sign),
            _ => number.checked_sub(self.below * sign),
        }
    }
}

impl NumberShifts {
    /// Computes the shifts for the rows of a persona that are about to come.
    pub async fn of(
        (source, target): (&mut Connection, &mut Connection),
        tables: &[(&'static PersonaTable, bool)],
        persona: &str,
    ) -> Result<Self, db::Error> {
        let mut shifts = BTreeMap::new();
        for (table, has_numbers) in tables {
            if !*has_numbers || numbered(table.name, SEQ).is_some() {
                continue;
            }
            let (name, whose) = (table.name, table.whose);
            let own = format!(
                "SELECT min(CASE WHEN seq > 0 THEN seq END) AS lowest, max(CASE WHEN seq < 0 THEN seq END) AS highest
                 FROM {name} WHERE {whose}"
            );
            let own = db::query(Sql::built(own)).bind(persona);
            let own = own.fetch_one(&mut *source).await?;
            let there = format!(
                "SELECT coalesce(max(seq), 0) AS highest, coalesce(min(seq), 0) AS lowest FROM {name}"
            );
            let there = db::query(Sql::built(there)).fetch_one(&mut *target).await?;
            let given = db::query_scalar::<i64>(GIVEN_IN_TABLE).bind(name);
            let given: i64 = given.fetch_one(&mut *target).await?;
            let shift = NumberShift::new(
                (own.try_get("lowest")?, own.try_get("highest")?),
                (
                    given.max(there.try_get("highest")?),
                    there.try_get("lowest")?,
                ),
            );
            shifts.insert(name, shift);
        }
        Ok(Self(shifts))
    }

    fn of_table(&self, table: &str) -> NumberShift {
        self.0.get(table).copied().unwrap_or_default()
    }

    /// Translates a value of a table's column.
    ///
    /// Errors: [`TransferError::Value`].
    pub fn translate(
        &self,
        (table, column): (&str, &str),
        cell: &mut Cell,
        translation: Translation,
    ) -> Result<(), TransferError> {
        let of_messages = self.of_table(MESSAGES);
        let translated = match (numbered(table, column), &mut *cell) {
            (_, Cell::Null) => return Ok(()),
            (None, Cell::Integer(number)) if column == SEQ => {
                let shift = self.of_table(table);
                shift.apply(*number, translation).map(Cell::Integer)
            }
            (None, _) => return Ok(()),
            (Some(NumberedColumn::Message), Cell::Integer(number)) => {
                of_messages.apply(*number, translation).map(Cell::Integer)
            }
            (Some(NumberedColumn::Epoch), Cell::Integer(_)) => Some(Cell::Integer(0)),
            // What an erasure has emptied is no JSON.
            (Some(_), Cell::Text(text)) if text.is_empty() => return Ok(()),
            (Some(kind), Cell::Text(text)) => {
                let move_one = |number| of_messages.apply(number, translation);
                translated_json(kind, text, &move_one).map(Cell::Text)
            }
            (Some(_), _) => None,
        };
        *cell = translated.ok_or_else(|| TransferError::Value {
            row: format!("`{table}`"),
            column: column.to_owned(),
        })?;
        Ok(())
    }
}

fn numbered(table: &str, column: &str) -> Option<NumberedColumn> {
    let found = NUMBERED
        .iter()
        .find(|(of, name, _)| *of == table && *name == column);
    found.map(|(_, _, kind)| *kind)
}

type MoveOne<'a> = &'a dyn Fn(i64) -> Option<i64>;

fn translated_json(kind: NumberedColumn, text: &str, move_one: MoveOne<'_>) -> Option<String> {
    let mut value: Value = serde_json::from_str(text).ok()?;
    match kind {
        NumberedColumn::MessagePairs => {
            for pair in value.as_array_mut()? {
                moved(pair.get_mut(0), move_one)?;
            }
        }
        NumberedColumn::Reads => {
            let reads = value.get_mut("reads").and_then(Value::as_array_mut);
            for read in reads.into_iter().flatten() {
                move_read(read, move_one)?;
            }
        }
        NumberedColumn::Message | NumberedColumn::Epoch => return None,
    }
    Some(value.to_string())
}

/// Moves the numbers of one read.
fn move_read(read: &mut Value, move_one: MoveOne<'_>) -> Option<()> {
    match read.get("read").and_then(Value::as_str)? {
        "past_messages" | "letters_to_summarise" => {
            moved(read.get_mut("before_seq"), move_one)?;
            let between = read.get_mut("between").and_then(Value::as_array_mut);
            for bound in between.into_iter().flatten() {
                moved(Some(bound), move_one)?;
            }
            let messages = read.get_mut("messages").and_then(Value::as_array_mut);
            for message in messages.into_iter().flatten() {
                moved(message.get_mut("seq"), move_one)?;
            }
        }
        "summary" => {
            moved(read.get_mut("before_seq"), move_one)?;
            if let Some(summary) = read.pointer_mut("/found/0") {
                moved(summary.get_mut("from_seq"), move_one)?;
                moved(summary.get_mut("upto_seq"), move_one)?;
            }
        }
        _ => {}
    }
    Some(())
}

fn moved(number: Option<&mut Value>, move_one: MoveOne<'_>) -> Option<()> {
    if let Some(number) = number {
        *number = Value::from(move_one(number.as_i64()?)?);
    }
    Some(())
}

/// Has PostgreSQL number the next rows of a table behind the highest.
pub(super) async fn go_on(conn: &mut Connection, table: &str) -> Result<(), db::Error> {
    if conn.postgres().is_none() {
        return Ok(());
    }
    let given = db::query_scalar::<i64>(GIVEN_IN_TABLE).bind(table);
    let given: i64 = given.fetch_one(&mut *conn).await?;
    go_on_behind(conn, (table, SEQ), given).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_behind_those_that_are_there_and_come_back() {
        let shift = NumberShift::new((Some(5), Some(-3)), (100, -50));
        let there = |number| shift.apply(number, Translation::ToTarget);
        assert_eq!((there(5), there(7)), (Some(101), Some(103)));
        assert_eq!((there(-3), there(-4)), (Some(-51), Some(-52)));
        for stays in [0, i64::MIN, i64::MAX] {
            assert_eq!(there(stays), Some(stays));
        }
        for number in [-9, -3, 0, 1, 5, 900] {
            let back = there(number).and_then(|n| shift.apply(n, Translation::FromTarget));
            assert_eq!(back, Some(number));
        }
        assert_eq!(there(i64::MAX - 1), None);
        // Numbers that are free stay, so that moving back and forth does not let them grow.
        let free = NumberShift::new((Some(101), None), (40, 0));
        assert_eq!(free.apply(101, Translation::ToTarget), Some(101));
    }

    #[test]
    fn reads_name_messages_by_numbers_that_move_and_digests_that_stay() {
        let reads = r#"{"config":"c","reads":[{"read":"file","place":"persona","path":"1","sha256":null},
            {"read":"past_messages","thread":"t","before_seq":9,"limit":4,"chars_max":5,"messages":[{"seq":7,"disposition":"run"}]},
            {"read":"summary","thread":"t","before_seq":9,"found":[{"id":"s","from_seq":1,"upto_seq":6,"generation":2},"d"],"flagged":0},
            {"read":"letters_to_summarise","thread":"t","between":[-9223372036854775808,8,9],"bounds":[3,4],"messages":[{"seq":2}]}]}"#;
        let plus = |n: i64| {
            if n == i64::MIN {
                Some(n)
            } else {
                Some(n + 1000)
            }
        };
        let there = translated_json(NumberedColumn::Reads, reads, &plus).expect("reads");
        for said in [
            r#""before_seq":1009,"limit":4"#,
            r#""seq":1007"#,
            r#""from_seq":1001,"upto_seq":1006,"generation":2"#,
            r#""between":[-9223372036854775808,1008,1009],"bounds":[3,4],"messages":[{"seq":1002}]"#,
        ] {
            assert!(there.contains(said), "{said} in {there}");
        }
        let pairs = translated_json(NumberedColumn::MessagePairs, r#"[[3,"d"],[4,"e"]]"#, &plus);
        assert_eq!(pairs.as_deref(), Some(r#"[[1003,"d"],[1004,"e"]]"#));
    }
}
