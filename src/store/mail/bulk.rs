//! One statement text for many rows. Every call to SQLite costs two thread switches (decision
//! D-19), so rows that wait together are stored by one call; the texts come in a few sizes, so that
//! each is prepared once.

use std::fmt::Write;

/// Most rows of one text.
pub(in crate::store) const ROWS_MAX: usize = 64;
/// Texts for 1, 2, 4 … [`ROWS_MAX`] rows.
const SIZES: usize = ROWS_MAX.ilog2() as usize + 1;

/// A text in its sizes.
pub(in crate::store) struct Bulk {
    texts: [String; SIZES],
}

impl Bulk {
    /// Builds the texts from `one_row`, in which lists `VALUES ($1, …)` stand for one row;
    /// parameters of the next rows are numbered on. A text may have more rows than are bound: the
    /// missing ones are NULL, and `one_row` must skip them.
    pub fn of(one_row: &str) -> Self {
        let width = numbers(one_row).max().unwrap_or(0);
        Self {
            texts: std::array::from_fn(|size| repeated(one_row, 1 << size, width)),
        }
    }

    /// Returns the smallest text for this number of rows, at most [`ROWS_MAX`].
    pub fn text(&self, rows: usize) -> &str {
        let size = rows.next_power_of_two().ilog2() as usize;
        &self.texts[size.min(SIZES - 1)]
    }
}

/// Joins two texts; the parameters of the second are numbered on.
pub(in crate::store) fn chained(first: &str, second: &str) -> String {
    let by = numbers(first).max().unwrap_or(0);
    let mut pieces = second.split('$');
    let mut text = format!("{first};{}", pieces.next().unwrap_or_default());
    for piece in pieces {
        let end = piece
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(piece.len());
        match piece[..end].parse::<usize>() {
            Ok(number) => {
                let _infallible = write!(text, "${}{}", number + by, &piece[end..]);
            }
            // A JSON path, such as `$.owner`.
            Err(_) => {
                let _infallible = write!(text, "${piece}");
            }
        }
    }
    text
}

fn repeated(one_row: &str, rows: usize, width: usize) -> String {
    let mut pieces = one_row.split("VALUES (");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (list, rest) = piece.split_once(')').unwrap_or((piece, ""));
        text.push_str("VALUES ");
        for row in 0..rows {
            text.push_str(if row == 0 { "(" } else { ",(" });
            for (place, number) in numbers(list).enumerate() {
                let comma = if place == 0 { "" } else { "," };
                // Writing to a `String` cannot fail.
                let _infallible = write!(text, "{comma}${}", number + row * width);
            }
            text.push(')');
        }
        text.push_str(rest);
    }
    text
}

/// Returns the parameter numbers in a text, in order.
fn numbers(text: &str) -> impl Iterator<Item = usize> {
    let digits = |piece: &str| {
        piece
            .split(|c: char| !c.is_ascii_digit())
            .next()?
            .parse()
            .ok()
    };
    text.split('$').skip(1).filter_map(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameters_of_a_second_text_are_numbered_on_and_paths_are_left_alone() {
        let first = "UPDATE a SET b = $2 WHERE c = $1";
        assert_eq!(
            chained(first, "SELECT $1, $10"),
            format!("{first};SELECT $3, $12")
        );
        assert_eq!(
            chained(first, "SELECT $1 ->> '$.owner'"),
            format!("{first};SELECT $3 ->> '$.owner'")
        );
    }

    #[test]
    fn the_rows_of_a_text_are_numbered_on_in_every_list() {
        let bulk = Bulk::of(
            "INSERT INTO a SELECT * FROM (VALUES ($1, $3)); DELETE FROM b WHERE c IN (VALUES ($2))",
        );
        assert_eq!(
            bulk.text(1),
            "INSERT INTO a SELECT * FROM (VALUES ($1,$3)); DELETE FROM b WHERE c IN (VALUES ($2))"
        );
        let two = "INSERT INTO a SELECT * FROM (VALUES ($1,$3),($4,$6)); DELETE FROM b WHERE c IN (VALUES ($2),($5))";
        assert_eq!(bulk.text(2), two);
        assert!(bulk.text(3).contains("($10,$12)") && !bulk.text(3).contains("$13"));
        assert_eq!(bulk.text(64), bulk.text(33));
    }
}
