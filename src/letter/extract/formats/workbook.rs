//! Spreadsheets: rows as lines, cells between tabs, formulas beside values. Cells of xlsx are read one by one, since its
//! declared size may be a billion of them.

use super::zip_file::ZipFile;
use crate::extract::document::{DecodeError, DocumentKind, Extracted};
use crate::extract::limits::ExtractLimits;
use crate::text::shortened;
use calamine::{Data, DataRef, ExcelDateTime, Ods, Reader, SheetVisible, Xls, Xlsx};
use std::collections::BTreeMap;
use std::io::Cursor;

/// Most columns of a row.
const COLUMNS_MAX: usize = 500;
/// Most characters of a cell.
const CELL_CHARS_MAX: usize = 2_000;
/// Most formulas of a sheet that are shown.
const FORMULAS_MAX: usize = 2_000;

/// Reads a workbook.
pub fn read(
    kind: DocumentKind,
    bytes: &[u8],
    limits: &ExtractLimits,
) -> Result<Extracted, DecodeError> {
    let mut read = Extracted::empty(kind);
    let mut worksheets = WorkbookText {
        text: String::new(),
        limits,
    };
    match kind {
        DocumentKind::Xlsx => {
            // Bounds what the reader unpacks by itself.
            check_unpacked(bytes, limits)?;
            let mut book: Xlsx<_> = Xlsx::new(Cursor::new(bytes)).map_err(broken)?;
            for (name, is_hidden) in listed(&book, &mut read, limits) {
                worksheets.begin(&name, is_hidden);
                worksheets.add_xlsx(&mut book, &name, &mut read)?;
            }
        }
        DocumentKind::Ods => {
            check_unpacked(bytes, limits)?;
            let mut book: Ods<_> = Ods::new(Cursor::new(bytes)).map_err(broken)?;
            add_ranges(&mut book, &mut worksheets, &mut read, broken)?;
        }
        _ => {
            // An encrypted docx or xlsx is in such a container, too ([MS-OFFCRYPTO], section 2.3.4).
            let name: Vec<u8> = "EncryptedPackage"
                .encode_utf16()
                .flat_map(u16::to_le_bytes)
                .collect();
            if bytes.windows(name.len()).any(|piece| piece == name) {
                return Err(DecodeError::Encrypted);
            }
            let name: Vec<u8> = "Workbook"
                .encode_utf16()
                .flat_map(u16::to_le_bytes)
                .collect();
            let is_book = |name: &[u8]| bytes.windows(name.len()).any(|piece| piece == name);
            if !is_book(&name) {
                let mut read = Extracted::empty(DocumentKind::Unknown);
                read.note("it is a file of an old Office program; ask for a docx, a pptx or a pdf");
                return Ok(read);
            }
            let mut book: Xls<_> = Xls::new(Cursor::new(bytes)).map_err(broken)?;
            add_ranges(&mut book, &mut worksheets, &mut read, broken)?;
        }
    }
    read.text = Some(worksheets.text);
    Ok(read)
}

fn broken(error: impl std::fmt::Display) -> DecodeError {
    let reason = error.to_string();
    match reason.to_ascii_lowercase().contains("password") {
        true => DecodeError::Encrypted,
        false => DecodeError::Broken(shortened(&reason, 160)),
    }
}

/// Unpacks every file once within the bounds. Errors: it is a bomb.
fn check_unpacked(bytes: &[u8], limits: &ExtractLimits) -> Result<(), DecodeError> {
    let mut archive = ZipFile::open(bytes, limits)?;
    for name in archive.names() {
        archive.file(&name)?;
    }
    Ok(())
}

/// Returns the sheets that are read, and notes the hidden ones.
fn listed<'a, B: Reader<Cursor<&'a [u8]>>>(
    book: &B,
    read: &mut Extracted,
    limits: &ExtractLimits,
) -> Vec<(String, bool)> {
    let worksheets = book.sheets_metadata();
    read.pages = u32::try_from(worksheets.len()).ok();
    let named = worksheets.iter().take(limits.pages_max).map(|worksheet| {
        let is_hidden = worksheet.visible != SheetVisible::Visible;
        (worksheet.name.clone(), is_hidden)
    });
    named.collect()
}

fn add_ranges<'a, B: Reader<Cursor<&'a [u8]>>>(
    book: &mut B,
    worksheets: &mut WorkbookText<'_>,
    read: &mut Extracted,
    broken: impl Fn(B::Error) -> DecodeError,
) -> Result<(), DecodeError> {
    for (name, is_hidden) in listed(book, read, worksheets.limits) {
        worksheets.begin(&name, is_hidden);
        let range = book.worksheet_range(&name).map_err(&broken)?;
        let rows = range.rows().take(worksheets.limits.rows_max).map(|row| {
            let cells = row.iter().take(COLUMNS_MAX).map(written);
            cells
                .map(|cell| one_line(&cell))
                .collect::<Vec<_>>()
                .join("\t")
        });
        let rows: Vec<String> = rows.collect();
        worksheets.text.push_str(rows.join("\n").trim_end());
        worksheets.text.push('\n');
        if range.height() > worksheets.limits.rows_max {
            read.note(format!(
                "of sheet `{name}` the first {} rows",
                worksheets.limits.rows_max
            ));
            read.cut = true;
        }
    }
    Ok(())
}

struct WorkbookText<'l> {
    text: String,
    limits: &'l ExtractLimits,
}

impl WorkbookText<'_> {
    fn begin(&mut self, name: &str, is_hidden: bool) {
        let hidden = if is_hidden { " (hidden)" } else { "" };
        self.text
            .push_str(&format!("[sheet {}{hidden}]\n", one_line(name)));
    }

    fn add_xlsx(
        &mut self,
        book: &mut Xlsx<Cursor<&[u8]>>,
        name: &str,
        read: &mut Extracted,
    ) -> Result<(), DecodeError> {
        let formulas = formulas(book, name);
        let Ok(mut cells) = book.worksheet_cells_reader(name) else {
            // A chart has no cells.
            return Ok(());
        };
        let (mut row, mut column) = (None, 0_u32);
        let mut rows = 0_usize;
        while let Some(cell) = cells.next_cell().map_err(broken)? {
            let position = cell.get_position();
            let formula = formulas.get(&position);
            // A program that only writes formulas leaves no values.
            let value = match (shown(cell.get_value()), formula) {
                (None, None) => continue,
                (value, _) => value.unwrap_or_default(),
            };
            if row != Some(position.0) {
                if row.is_some() {
                    self.text.push('\n');
                }
                (row, column) = (Some(position.0), 0);
                rows += 1;
            }
            if rows > self.limits.rows_max || self.text.len() > self.limits.text_bytes_max {
                read.note(format!(
                    "of sheet `{name}` the first {} rows",
                    rows.saturating_sub(1)
                ));
                read.cut = true;
                break;
            }
            let gap = position.1.saturating_sub(column).min(COLUMNS_MAX as u32);
            self.text.extend(std::iter::repeat_n('\t', gap as usize));
            column = position.1;
            self.text.push_str(&value);
            if let Some(formula) = formula {
                let gap = if value.is_empty() { "" } else { " " };
                self.text.push_str(&format!("{gap}(={formula})"));
            }
        }
        self.text.push('\n');
        Ok(())
    }
}

/// Returns the formulas of a sheet by their cells; without them its values are still read.
fn formulas(book: &mut Xlsx<Cursor<&[u8]>>, name: &str) -> BTreeMap<(u32, u32), String> {
    let mut found = BTreeMap::new();
    let Ok(mut cells) = book.worksheet_cells_reader(name) else {
        return found;
    };
    while let Ok(Some(cell)) = cells.next_formula() {
        if found.len() == FORMULAS_MAX {
            break;
        }
        if !cell.get_value().is_empty() {
            found.insert(cell.get_position(), one_line(cell.get_value()));
        }
    }
    found
}

fn shown(value: &DataRef<'_>) -> Option<String> {
    let value = match value {
        DataRef::Empty => return None,
        value => written(&Data::from(value.clone())),
    };
    Some(one_line(&value))
}

/// A value as its reader sees it: dates by their day and time, and not by the number of days since 1900.
fn written(value: &Data) -> String {
    match value {
        Data::DateTime(time) => dated(time),
        value => value.to_string(),
    }
}

fn dated(time: &ExcelDateTime) -> String {
    const DAY_SECONDS: f64 = 86_400.0;
    let clock = |seconds: u64| {
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        match seconds {
            0 => format!("{hours:02}:{minutes:02}"),
            seconds => format!("{hours:02}:{minutes:02}:{seconds:02}"),
        }
    };
    let days = time.as_f64();
    if !(0.0..=3_000_000.0).contains(&days) {
        return days.to_string();
    }
    if time.is_duration() {
        return clock((days * DAY_SECONDS).round() as u64);
    }
    if days < 1.0 {
        return clock((days * DAY_SECONDS).round() as u64);
    }
    let (year, month, day, hours, minutes, seconds, millis) = time.to_ymd_hms_milli();
    let date = format!("{year:04}-{month:02}-{day:02}");
    let seconds = u64::from(hours) * 3600 + u64::from(minutes) * 60 + u64::from(seconds);
    let seconds = seconds + u64::from(millis >= 500);
    match seconds {
        0 => date,
        // Almost midnight by a fraction that no clock shows.
        seconds => format!("{date} {}", clock(seconds.min(86_399))),
    }
}

fn one_line(cell: &str) -> String {
    let line: String = cell
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    shortened(&line, CELL_CHARS_MAX)
}
