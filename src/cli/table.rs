//! Tables on a terminal: no lines, a bold heading, and made narrower where the terminal is.
//!
//! Absent on purpose: wrapping inside cells. Whoever wants all of it has a pipe, or `--json`.

use super::output::{BOLD, one_line};
use comfy_table::{ContentArrangement, Table, presets};

/// Spaces between columns.
const GAP: usize = 2;
/// No column is cut to fewer characters.
const CELL_MIN: usize = 10;
/// The part of an id that its clock made: nearly always enough to name it.
const ID_HEAD: usize = 13;

/// Rows under their headings. A table wider than `width` first loses what can be typed or guessed without it (the tail
/// of ids, seconds, the year), then the ends of its widest cells, at last its right edge.
pub fn quiet(headings: &[&str], rows: &[Vec<String>], width: Option<usize>) -> String {
    let mut cells: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
    if let Some(width) = width {
        fit(headings, &mut cells, width);
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(headings);
    for row in cells {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP as u16));
    }
    let mut lines = table.lines().map(|line| {
        let mut line = line.trim_end().to_owned();
        cut(&mut line, width.unwrap_or(usize::MAX));
        line
    });
    let heading = lines.next().unwrap_or_default();
    let rest = lines.map(|line| format!("{line}\n")).collect::<String>();
    format!("{BOLD}{heading}{BOLD:#}\n{rest}")
}

fn fit(headings: &[&str], rows: &mut [Vec<String>], width: usize) {
    for shorter in [shorten_ids, drop_seconds, drop_year] {
        if overflow(headings, rows, width) > 0 {
            (0..headings.len()).for_each(|column| shorter(rows, column));
        }
    }
    loop {
        let overflow = overflow(headings, rows, width);
        let widths = (0..headings.len()).map(|column| cells_width(rows, column));
        let widest = widths.zip(0..).filter(|(_, column)| !is_fixed(rows, *column)).max();
        let (cells, column) = match widest {
            Some(widest) if overflow > 0 && widest.0 > CELL_MIN => widest,
            _ => return,
        };
        // One step for each column and round, so that two long ones share the loss.
        let to = cells.saturating_sub(overflow.min(CELL_MIN)).max(CELL_MIN);
        rows.iter_mut().filter_map(|row| row.get_mut(column)).for_each(|cell| cut(cell, to));
    }
}

/// Characters that the widest line has too many.
fn overflow(headings: &[&str], rows: &[Vec<String>], width: usize) -> usize {
    let columns = headings.iter().zip(0..);
    let wide = columns.map(|(heading, column)| cells_width(rows, column).max(heading.len()) + GAP);
    wide.sum::<usize>().saturating_sub(GAP).saturating_sub(width)
}

fn cells_width(rows: &[Vec<String>], column: usize) -> usize {
    rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
}

/// Ids down to their heads, while these differ.
fn shorten_ids(rows: &mut [Vec<String>], column: usize) {
    let ids: Vec<&str> = rows
        .iter()
        .filter_map(|row| row.get(column))
        .filter(|cell| is_id(cell))
        .map(String::as_str)
        .collect();
    let mut heads: Vec<&str> = ids.iter().map(|id| &id[..ID_HEAD]).collect();
    let mut whole = ids.clone();
    for list in [&mut heads, &mut whole] {
        list.sort_unstable();
        list.dedup();
    }
    let differ = heads.len() == whole.len();
    let cells = rows.iter_mut().filter_map(|row| row.get_mut(column));
    cells.filter(|cell| differ && is_id(cell)).for_each(|cell| cell.truncate(ID_HEAD));
}

/// `2026-11-21T00:55:03.759Z` to `2026-11-21 00:55Z`, and so with `+01:00`.
fn drop_seconds(rows: &mut [Vec<String>], column: usize) {
    let cells = rows.iter_mut().filter_map(|row| row.get_mut(column));
    for cell in cells.filter(|cell| has_shape(cell, &WHOLE)) {
        let zone = if cell.ends_with('Z') { "Z" } else { &cell[19..] };
        *cell = format!("{} {}{zone}", &cell[..10], &cell[11..16]);
    }
}

/// `2026-11-21 00:55Z` to `11-21 00:55Z`.
fn drop_year(rows: &mut [Vec<String>], column: usize) {
    let cells = rows.iter_mut().filter_map(|row| row.get_mut(column));
    cells.filter(|cell| has_shape(cell, &SHORT)).for_each(|cell| *cell = cell.split_off(5));
}

/// Whether a column says nothing any more when its cells are cut.
fn is_fixed(rows: &[Vec<String>], column: usize) -> bool {
    let is_head = |cell: &String| cell.len() == ID_HEAD && cell.as_bytes()[8] == b'-';
    let mut cells = rows.iter().filter_map(|row| row.get(column));
    cells.any(|cell| is_id(cell) || is_head(cell) || is_instant(cell))
}

/// The shape of a UUID.
fn is_id(cell: &str) -> bool {
    let shaped = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    cell.len() == 36 && cell.bytes().enumerate().all(shaped)
}

/// The shapes of instants, `0` for any digit: as they are, without seconds, and without the year.
const WHOLE: [&str; 3] =
    ["0000-00-00T00:00:00.000Z", "0000-00-00T00:00:00+00:00", "0000-00-00T00:00:00-00:00"];
const SHORT: [&str; 3] = ["0000-00-00 00:00Z", "0000-00-00 00:00+00:00", "0000-00-00 00:00-00:00"];
const SHORTEST: [&str; 3] = ["00-00 00:00Z", "00-00 00:00+00:00", "00-00 00:00-00:00"];

fn is_instant(cell: &str) -> bool {
    [WHOLE, SHORT, SHORTEST].iter().any(|shapes| has_shape(cell, shapes))
}

fn has_shape(cell: &str, shapes: &[&str]) -> bool {
    let fits = |(is, wanted): (u8, u8)| if wanted == b'0' { is.is_ascii_digit() } else { is == wanted };
    shapes.iter().any(|shape| cell.len() == shape.len() && cell.bytes().zip(shape.bytes()).all(fits))
}

fn cut(cell: &mut String, chars_max: usize) {
    if let Some((end, _)) = cell.char_indices().nth(chars_max) {
        let end = cell[..end].char_indices().next_back().map_or(0, |(last, _)| last);
        cell.truncate(end);
        cell.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<String>> {
        let row = |id: &str, subject: &str| {
            [id, "2026-11-21T00:55:03.759Z", "concierge", subject].map(ToOwned::to_owned).to_vec()
        };
        vec![
            row(
                "01a1fb99-8145-7284-91a1-a7c9decaa857",
                "A very long subject about müsli and other breakfasts",
            ),
            row("01a1fb99-0a93-74da-b840-402ecc08a2b9", "Short"),
        ]
    }

    const HEADINGS: [&str; 4] = ["ID", "QUEUED", "PERSONA", "SUBJECT"];

    #[test]
    fn a_table_fits_its_terminal_and_its_ids_still_name_their_rows() {
        let shown = quiet(&HEADINGS, &rows(), Some(80));
        let lines = shown.lines().skip(1).collect::<Vec<_>>();
        assert_eq!(
            lines[0],
            "01a1fb99-8145  11-21 00:55Z  concierge  A very long subject about müsli and oth…"
        );
        assert_eq!(lines[1], "01a1fb99-0a93  11-21 00:55Z  concierge  Short");
        for width in 1..120 {
            let shown = quiet(&HEADINGS, &rows(), Some(width));
            assert!(shown.lines().skip(1).all(|line| line.chars().count() <= width), "{width}:\n{shown}");
        }
    }

    #[test]
    fn a_table_that_fits_keeps_everything_and_so_does_one_without_a_width() {
        for width in [None, Some(200)] {
            let shown = quiet(&HEADINGS, &rows(), width);
            assert!(
                shown.contains("91a1-a7c9decaa857")
                    && shown.contains("T00:55:03.759Z")
                    && shown.contains("breakfasts")
            );
        }
    }

    #[test]
    fn local_times_keep_their_zone_when_they_are_shortened() {
        let rows = [vec!["2026-11-23T09:00:00+01:00".to_owned(), "Weekday digest".to_owned()]];
        let shown =
            |width| quiet(&["NEXT", "NAME"], &rows, Some(width)).lines().nth(1).map(ToOwned::to_owned);
        assert_eq!(shown(39).as_deref(), Some("2026-11-23 09:00+01:00  Weekday digest"));
        assert_eq!(shown(30).as_deref(), Some("11-23 09:00+01:00  Weekday di…"));
    }

    #[test]
    fn ids_of_one_instant_stay_whole() {
        let mut rows = rows();
        rows[1][0] = "01a1fb99-8145-7284-91a1-a7c9decaa858".to_owned();
        let shown = quiet(&HEADINGS, &rows, Some(80));
        assert!(shown.contains("a7c9decaa857") && shown.contains("a7c9decaa858"), "{shown}");
    }
}
