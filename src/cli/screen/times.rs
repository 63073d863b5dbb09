//! Instants for display on a terminal: in its time zone, and shortened where columns are scarce.
//!
//! Rows and `--json` hold UTC. A time that already has an offset, such as a responsibility's, keeps
//! it. Both read `2026-11-21 01:55`, with seconds only outside of tables.

use chrono::{DateTime, Local};

/// Formats in which the store writes instants.
const STORED: [&str; 2] = ["0000-00-00T00:00:00.000Z", "0000-00-00T00:00:00Z"];
/// Formats in the terminal's zone: full, without seconds, and without the year.
const OWN: [&str; 3] = ["0000-00-00 00:00:00", "0000-00-00 00:00", "00-00 00:00"];
/// Formats with an offset: full, without seconds, and without the year.
const OTHER: [&str; 6] = [
    "0000-00-00T00:00:00+00:00",
    "0000-00-00T00:00:00-00:00",
    "0000-00-00 00:00+00:00",
    "0000-00-00 00:00-00:00",
    "00-00 00:00+00:00",
    "00-00 00:00-00:00",
];

/// Converts a stored instant to the terminal's zone, without an offset, and formats one with an offset alike. Any other text is
/// returned unchanged.
pub fn localised(text: &str) -> String {
    let stored = DateTime::parse_from_rfc3339(text)
        .ok()
        .filter(|_| has_shape(text, &STORED));
    match stored {
        Some(at) => at
            .with_timezone(&Local)
            .format("%Y-%m-%d %H:%M:%S")
            .to_string(),
        None if has_shape(text, &OTHER[..2]) => {
            let (date, time, offset) = (&text[..10], &text[11..16], &text[19..]);
            format!("{date} {time}{offset}")
        }
        None => text.to_owned(),
    }
}

/// Converts every instant that is a separate word of a line.
pub fn localised_words(line: &str) -> String {
    let is_end = |c: char| c.is_whitespace() || ",;()".contains(c);
    let words = line.split_inclusive(is_end).map(|word| {
        let bare = word.trim_end_matches(is_end);
        localised(bare) + &word[bare.len()..]
    });
    words.collect()
}

/// Reports whether a cell is a localised instant, in any of its lengths.
pub fn is_local(cell: &str) -> bool {
    has_shape(cell, &OWN) || has_shape(cell, &OTHER)
}

/// Shortens `2026-11-21 01:55:03` to `2026-11-21 01:55`.
pub fn drop_seconds(cells: &mut [String]) {
    for cell in cells.iter_mut().filter(|cell| has_shape(cell, &OWN[..1])) {
        cell.truncate(16);
    }
}

/// Shortens `2026-11-21 01:55` to `11-21 01:55`.
pub fn drop_year(cells: &mut [String]) {
    for cell in cells
        .iter_mut()
        .filter(|cell| has_shape(cell, &OWN[1..2]) || has_shape(cell, &OTHER[2..4]))
    {
        *cell = cell.split_off(5);
    }
}

/// Reports whether a text matches one of these formats, in which `0` stands for any digit.
fn has_shape(text: &str, shapes: &[&str]) -> bool {
    let fits = |(is, wanted): (u8, u8)| {
        if wanted == b'0' {
            is.is_ascii_digit()
        } else {
            is == wanted
        }
    };
    shapes
        .iter()
        .any(|shape| text.len() == shape.len() && text.bytes().zip(shape.bytes()).all(fits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeZone;

    #[test]
    fn stored_instants_are_shown_in_the_zone_of_the_terminal() {
        let shown = localised("2026-11-21T00:55:03.759Z");
        let back =
            chrono::NaiveDateTime::parse_from_str(&shown, "%Y-%m-%d %H:%M:%S").expect("a time");
        let back = Local
            .from_local_datetime(&back)
            .earliest()
            .expect("an instant");
        assert_eq!(back.to_utc().to_rfc3339(), "2026-11-21T00:55:03+00:00");
        assert_eq!(
            localised("2026-11-23T09:00:00+01:00"),
            "2026-11-23 09:00+01:00"
        );
        for kept in ["2026-11-23", "concierge", ""] {
            assert_eq!(localised(kept), kept);
        }
        let line = "queued 2026-11-21T00:55:03.759Z (next 2026-11-21T00:55:03.759Z), x=2026-11-21T00:55:03.759Z";
        assert_eq!(
            localised_words(line),
            format!("queued {shown} (next {shown}), x=2026-11-21T00:55:03.759Z")
        );
    }

    #[test]
    fn times_get_shorter_and_those_of_others_keep_their_zone() {
        let mut cells =
            ["2026-11-21 01:55:03", "2026-11-23 09:00+01:00", "never"].map(str::to_owned);
        drop_seconds(&mut cells);
        assert_eq!(
            cells,
            ["2026-11-21 01:55", "2026-11-23 09:00+01:00", "never"]
        );
        drop_year(&mut cells);
        assert_eq!(cells, ["11-21 01:55", "11-23 09:00+01:00", "never"]);
        assert!(is_local(&cells[0]) && is_local(&cells[1]) && !is_local(&cells[2]));
    }
}
