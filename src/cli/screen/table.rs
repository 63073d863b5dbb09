//! Tables on a terminal: no lines, a bold heading, times in the local zone, narrowed to the width
//! of the terminal.
//!
//! Absent on purpose: wrapping inside cells. A pipe or `--json` has the full text.

use super::text::one_line;
use super::times;
use anstyle::{AnsiColor, Style};
use comfy_table::{ContentArrangement, Table, presets};

pub const BOLD: Style = Style::new().bold();
/// Spaces between columns.
const GAP: usize = 2;
/// Minimum width to which a column is cut.
const CELL_MIN: usize = 10;
/// Minimum width of a column with addresses, as long as another column can be cut.
const ADDRESS_MIN: usize = 20;
/// Minimum width of the main column, as long as another column can be cut.
const MAIN_MIN: usize = 28;
/// Number of characters of an id that lists show: its random end; its beginning is the time.
pub const ID_TAIL: usize = 8;

/// Columns whose words are coloured, and the words: what failed, and what waits.
const STATES: [&str; 4] = ["STATE", "OUTCOME", "STATUS", "RESULT"];
const BAD: [&str; 6] = [
    "failed",
    "undelivered",
    "rejected",
    "refused",
    "broken",
    "faulty",
];
const WAITING: [&str; 6] = ["wait", "held", "open", "paused", "proposed", "draft"];

/// The headings of a table, and the priority of its columns.
#[derive(Debug, Clone)]
pub struct Columns<'a> {
    headings: Vec<&'a str>,
    main: Option<&'a str>,
    optional: Vec<&'a str>,
}

impl<'a> Columns<'a> {
    /// The last column is the main one unless [`Columns::main`] names another.
    pub fn of(headings: &[&'a str]) -> Self {
        Self {
            headings: headings.to_vec(),
            main: headings.last().copied(),
            optional: Vec::new(),
        }
    }
    /// Sets the main column, which keeps the most width.
    #[must_use]
    pub fn main(mut self, heading: &'a str) -> Self {
        self.main = Some(heading);
        self
    }
    /// Sets the columns that a narrow terminal omits, the first to be omitted first.
    #[must_use]
    pub fn optional(mut self, headings: &[&'a str]) -> Self {
        self.optional = headings.to_vec();
        self
    }
    pub fn headings(&self) -> &[&'a str] {
        &self.headings
    }
}

impl<'a, const N: usize> From<&[&'a str; N]> for Columns<'a> {
    fn from(headings: &[&'a str; N]) -> Self {
        Self::of(headings)
    }
}

impl<'a> From<&[&'a str]> for Columns<'a> {
    fn from(headings: &[&'a str]) -> Self {
        Self::of(headings)
    }
}

/// One column with its cells.
#[derive(Debug, Clone)]
struct Column<'a> {
    heading: &'a str,
    is_main: bool,
    cells: Vec<String>,
}

impl Column<'_> {
    fn width(&self) -> usize {
        self.cells_width().max(self.heading.chars().count())
    }
    fn cells_width(&self) -> usize {
        self.cells
            .iter()
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    }
    /// `true` when its cells are useless if cut.
    fn is_fixed(&self) -> bool {
        self.cells
            .iter()
            .any(|cell| is_id(cell) || is_tail(cell) || times::is_local(cell))
    }
    fn has_addresses(&self) -> bool {
        self.cells.iter().any(|cell| cell.contains('@'))
    }
    /// `true` when all cells are empty, `0` or `-`.
    fn is_blank(&self) -> bool {
        self.cells
            .iter()
            .all(|cell| matches!(cell.as_str(), "" | "0" | "-"))
    }
}

/// Formats rows under their headings, with ids by their ends and times to the minute. A table wider than `width` first loses
/// text that can be inferred (the year, columns without content), then optional columns, then the ends of its widest cells, the
/// main column's last.
pub fn quiet(columns: &Columns<'_>, rows: &[Vec<String>], width: Option<usize>) -> String {
    let cell = |row: &Vec<String>, at: usize| {
        row.get(at)
            .map(|cell| times::localised_words(&one_line(cell)))
    };
    let headings = columns.headings.iter().enumerate();
    let mut table: Vec<Column<'_>> = headings
        .map(|(at, heading)| Column {
            heading,
            is_main: columns.main == Some(heading),
            cells: rows
                .iter()
                .map(|row| cell(row, at).unwrap_or_default())
                .collect(),
        })
        .collect();
    for column in &mut table {
        shorten_ids(&mut column.cells);
        times::drop_seconds(&mut column.cells);
    }
    if let Some(width) = width {
        fit(&mut table, &columns.optional, width);
    }
    drawn(&table, rows.len(), width.unwrap_or(usize::MAX))
}

fn drawn(columns: &[Column<'_>], rows: usize, width: usize) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.iter().map(|column| column.heading));
    for row in 0..rows {
        table.add_row(columns.iter().map(|column| column.cells[row].as_str()));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP as u16));
    }
    let mut lines = table.lines().map(|line| {
        let mut line = line.trim_end().to_owned();
        cut(&mut line, width);
        line
    });
    let heading = lines.next().unwrap_or_default();
    let rest = lines
        .enumerate()
        .map(|(row, line)| painted(columns, row, &line) + "\n");
    format!("{BOLD}{heading}{BOLD:#}\n{}", rest.collect::<String>())
}

/// Colours the states of a row.
fn painted(columns: &[Column<'_>], row: usize, line: &str) -> String {
    let (mut shown, mut rest) = (String::new(), line);
    for column in columns {
        let cell = column.cells.get(row).map_or("", String::as_str);
        let style = match STATES.contains(&column.heading) {
            true => style_of(cell),
            false => None,
        };
        // Where a line was cut, or a character is wider than one, nothing is coloured that is not the state itself.
        if let Some(style) = style
            && let Some(after) = rest.strip_prefix(cell)
        {
            shown.push_str(&format!("{style}{cell}{style:#}"));
            rest = after;
        }
        let width = column.width() + GAP;
        let done = line.chars().count() - rest.chars().count();
        let end = columns_before(columns, column) + width;
        let missing = end.saturating_sub(done);
        let at = rest.char_indices().nth(missing);
        let (gap, behind) = rest.split_at(at.map_or(rest.len(), |(at, _)| at));
        shown.push_str(gap);
        rest = behind;
    }
    shown + rest
}

/// Characters of a line before a column.
fn columns_before(columns: &[Column<'_>], column: &Column<'_>) -> usize {
    let before = columns.iter().take_while(|one| !std::ptr::eq(*one, column));
    before.map(|one| one.width() + GAP).sum()
}

fn style_of(state: &str) -> Option<Style> {
    let is_one_of = |words: &[&str]| words.iter().any(|word| state.starts_with(word));
    let colour = match () {
        () if is_one_of(&BAD) => AnsiColor::Red,
        () if is_one_of(&WAITING) => AnsiColor::Yellow,
        () => return None,
    };
    Some(colour.on_default())
}

fn fit(table: &mut Vec<Column<'_>>, optional: &[&str], width: usize) {
    if overflow(table, width) > 0 {
        table
            .iter_mut()
            .for_each(|column| times::drop_year(&mut column.cells));
        table.retain(|column| column.is_main || !column.is_blank());
    }
    // A readable main column has priority over optional columns.
    for heading in optional {
        let mut tried = table.clone();
        narrow(&mut tried, width, MAIN_MIN, ADDRESS_MIN);
        if overflow(&tried, width) == 0 {
            break;
        }
        table.retain(|column| column.heading != *heading);
    }
    for (main_min, address_min) in [
        (MAIN_MIN, ADDRESS_MIN),
        (ADDRESS_MIN, ADDRESS_MIN),
        (CELL_MIN, CELL_MIN),
    ] {
        narrow(table, width, main_min, address_min);
    }
}

/// Cuts the widest cells, step by step, so that two long columns share the loss.
fn narrow(table: &mut [Column<'_>], width: usize, main_min: usize, address_min: usize) {
    loop {
        let overflow = overflow(table, width);
        let least = |column: &Column<'_>| match column.is_main {
            true => main_min,
            false if column.has_addresses() => address_min,
            false => CELL_MIN,
        };
        let cuttable = table
            .iter_mut()
            .filter(|column| !column.is_fixed() && column.cells_width() > least(column));
        // Among columns of equal width the main one is cut last.
        let widest = cuttable.max_by_key(|column| (!column.is_main, column.cells_width()));
        let Some(column) = widest.filter(|_| overflow > 0) else {
            return;
        };
        let (cells, least) = (column.cells_width(), least(column));
        let to = cells.saturating_sub(overflow.min(CELL_MIN)).max(least);
        column.cells.iter_mut().for_each(|cell| cut(cell, to));
    }
}

/// Number of characters by which the widest line exceeds the width.
fn overflow(table: &[Column<'_>], width: usize) -> usize {
    let wide: usize = table.iter().map(|column| column.width() + GAP).sum();
    wide.saturating_sub(GAP).saturating_sub(width)
}

/// Cuts ids to their tails, as long as these are distinct.
fn shorten_ids(cells: &mut [String]) {
    let ids: Vec<&str> = cells
        .iter()
        .filter(|cell| is_id(cell))
        .map(String::as_str)
        .collect();
    let distinct = |list: &mut Vec<&str>| {
        list.sort_unstable();
        list.dedup();
        list.len()
    };
    let mut tails: Vec<&str> = ids.iter().map(|id| &id[id.len() - ID_TAIL..]).collect();
    if distinct(&mut tails) == distinct(&mut ids.clone()) {
        cells
            .iter_mut()
            .filter(|cell| is_id(cell))
            .for_each(|cell| *cell = cell.split_off(cell.len() - ID_TAIL));
    }
}

/// Shows every id of a line by its end.
pub(super) fn short_ids(line: &str) -> String {
    let is_end = |c: char| c.is_whitespace() || ",;()".contains(c);
    let words = line.split_inclusive(is_end).map(|word| {
        let bare = word.trim_end_matches(is_end);
        match is_id(bare) {
            true => &word[bare.len() - ID_TAIL..],
            false => word,
        }
    });
    words.collect()
}

/// Reports whether a cell has the format of a UUID.
fn is_id(cell: &str) -> bool {
    let shaped = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    cell.len() == 36 && cell.bytes().enumerate().all(shaped)
}

fn is_tail(cell: &str) -> bool {
    cell.len() == ID_TAIL
        && cell
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

pub(super) fn cut(cell: &mut String, chars_max: usize) {
    if let Some((end, _)) = cell.char_indices().nth(chars_max) {
        let end = cell[..end]
            .char_indices()
            .next_back()
            .map_or(0, |(last, _)| last);
        cell.truncate(end);
        cell.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<String>> {
        let row = |id: &str, held: &str, subject: &str| {
            let cells = [
                id,
                "2026-11-21T00:55:03+01:00",
                "concierge",
                "0",
                held,
                "bob@guests.example",
                subject,
            ];
            cells.map(ToOwned::to_owned).to_vec()
        };
        vec![
            row(
                "01a1fb99-8145-7284-91a1-a7c9decaa857",
                "",
                "A very long subject about müsli and other breakfasts",
            ),
            row("01a1fb99-8145-74da-b840-402ecc08a2b9", "", "Short"),
        ]
    }

    fn columns() -> Columns<'static> {
        Columns::of(&["ID", "ACTIVE", "PERSONA", "RUNS", "HELD", "WITH", "SUBJECT"])
    }

    #[test]
    fn a_table_fits_its_terminal_and_its_ids_still_name_their_rows() {
        let shown = quiet(&columns(), &rows(), Some(80));
        let lines = shown.lines().skip(1).collect::<Vec<_>>();
        assert_eq!(
            lines[0],
            "decaa857  11-21 00:55+01:00  concierge  bob@guests.example  A very long subject…"
        );
        assert_eq!(
            lines[1],
            "cc08a2b9  11-21 00:55+01:00  concierge  bob@guests.example  Short"
        );
        for width in 1..160 {
            let shown = quiet(&columns(), &rows(), Some(width));
            assert!(
                shown
                    .lines()
                    .skip(1)
                    .all(|line| line.chars().count() <= width),
                "{width}:\n{shown}"
            );
        }
    }

    #[test]
    fn the_column_that_matters_gets_room_before_those_to_be_spared() {
        let mut rows = rows();
        rows[0][4] = "filed:unauthenticated".to_owned();
        rows[0][3] = "7".to_owned();
        let all = quiet(&columns(), &rows, Some(96));
        assert!(all.contains("RUNS"), "{all}");
        let shown = quiet(&columns().optional(&["RUNS", "HELD"]), &rows, Some(80));
        assert!(
            !shown.contains("RUNS") && shown.contains("A very long subject"),
            "{shown}"
        );
        let with = quiet(
            &columns().main("WITH").optional(&["RUNS", "HELD"]),
            &rows,
            Some(80),
        );
        assert!(with.contains("bob@guests.example"), "{with}");
    }

    #[test]
    fn a_table_that_fits_or_has_no_width_keeps_all_columns_and_the_year() {
        for width in [None, Some(250)] {
            let shown = quiet(&columns(), &rows(), width);
            assert!(!shown.contains("01a1fb99"), "{shown}");
            for kept in ["decaa857", "2026-11-21 00:55+01:00", "HELD", "breakfasts"] {
                assert!(shown.contains(kept), "{kept} is gone in {shown}");
            }
        }
    }

    #[test]
    fn what_failed_is_red_and_what_waits_is_yellow_and_nothing_else_changes() {
        let states = [
            "failed",
            "waiting_approval",
            "succeeded",
            "failed to say so",
        ];
        let rows = states.map(|state| ["müsli", state, "failed"].map(str::to_owned).to_vec());
        let columns = Columns::of(&["SUBJECT", "STATE", "WHY"]);
        for width in 5..40 {
            let shown = quiet(&columns, &rows, Some(width));
            let bare = shown.replace("\u{1b}[31m", "").replace("\u{1b}[33m", "");
            let bare = bare.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
            let wide = bare.lines().map(|line| line.chars().count()).max();
            assert!(wide <= Some(width), "{width}: {shown:?}");
        }
        let shown = quiet(&columns, &rows, Some(80));
        let lines: Vec<&str> = shown.lines().skip(1).collect();
        assert!(
            lines[0].starts_with("müsli    \u{1b}[31mfailed\u{1b}[0m "),
            "{lines:?}"
        );
        assert!(lines[0].ends_with("  failed"), "{lines:?}");
        assert!(lines[1].contains("\u{1b}[33mwaiting_approval\u{1b}[0m"));
        assert_eq!(lines[2], "müsli    succeeded         failed");
    }

    #[test]
    fn ids_in_lines_are_shown_by_their_ends() {
        let line = "run 01a1fb99-8145-7284-91a1-a7c9decaa857, no-id (01a1fb99-8145-7284-91a1-a7c9decaa858)";
        assert_eq!(short_ids(line), "run decaa857, no-id (decaa858)");
    }

    #[test]
    fn ids_whose_ends_are_the_same_stay_whole() {
        let mut rows = rows();
        rows[1][0] = "01a1fb99-8146-7284-91a1-a7c9decaa857".to_owned();
        let shown = quiet(&columns(), &rows, Some(120));
        assert!(
            shown.contains("01a1fb99-8145-") && shown.contains("01a1fb99-8146-"),
            "{shown}"
        );
    }
}
