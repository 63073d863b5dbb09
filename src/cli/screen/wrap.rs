//! Wraps long lines of prose at the width of a terminal, with a hanging indent.

/// Minimum columns of a wrapped line.
const ROOM_MIN: usize = 20;

/// Positions at which a line is cut, as byte ranges of it; blanks at the cuts belong to no range.
/// The hanging indent takes `hang` columns of each line after the first.
pub fn breaks(line: &str, width: usize, hang: usize) -> Vec<std::ops::Range<usize>> {
    let mut ranges = Vec::new();
    let (mut start, mut room) = (0, width.max(ROOM_MIN));
    loop {
        let rest = &line[start..];
        let Some((limit, _)) = rest.char_indices().nth(room) else {
            ranges.push(start..line.len());
            return ranges;
        };
        // A blank directly behind the room is a place to cut too; the line's indentation is not.
        let behind = limit + rest[limit..].chars().next().map_or(0, char::len_utf8);
        let indent = rest.len() - rest.trim_start().len();
        let cut = rest[..behind]
            .rfind(' ')
            .filter(|cut| *cut > indent)
            .unwrap_or(limit);
        ranges.push(start..start + rest[..cut].trim_end().len());
        start += cut + (rest[cut..].len() - rest[cut..].trim_start_matches(' ').len());
        room = width.saturating_sub(hang).max(ROOM_MIN);
    }
}

/// Prefix of the lines after the first: the line's indentation and one step more, or its `| ` mark.
pub fn hanging(line: &str) -> String {
    const MARK: &str = "| ";
    const STEP: &str = "  ";
    let rest = line.trim_start_matches(' ');
    let indent = &line[..line.len() - rest.len()];
    format!(
        "{indent}{}",
        if rest.starts_with(MARK) { MARK } else { STEP }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(line: &str, width: usize, hang: usize) -> Vec<&str> {
        breaks(line, width, hang)
            .into_iter()
            .map(|range| &line[range])
            .collect()
    }

    #[test]
    fn lines_break_between_words_and_long_words_where_they_must() {
        let line = "You carry the bags of guests who müssen früh to the station.";
        assert_eq!(
            broken(line, 24, 2),
            [
                "You carry the bags of",
                "guests who müssen früh",
                "to the station."
            ]
        );
        assert_eq!(broken("short", 24, 2), ["short"]);
        assert_eq!(broken("", 24, 2), [""]);
        let long = "a".repeat(50);
        assert_eq!(
            broken(&long, 24, 0)
                .iter()
                .map(|piece| piece.len())
                .collect::<Vec<_>>(),
            [24, 24, 2]
        );
        assert_eq!(
            broken("    indented words that go on and on", 24, 6),
            ["    indented words that", "go on and on"]
        );
    }

    #[test]
    fn no_break_is_wider_than_the_terminal_and_nothing_is_lost() {
        let line = "  Łódź — ein   Brief mit_einem_sehr_langen_Wort_darin_das_nicht_passt und noch mehr Worte 日本語 日本語";
        for width in 20..90 {
            let pieces = broken(line, width, 0);
            assert!(
                pieces.iter().all(|piece| piece.chars().count() <= width),
                "{width}: {pieces:?}"
            );
            let letters = |text: &str| text.chars().filter(|c| *c != ' ').collect::<String>();
            assert_eq!(letters(&pieces.concat()), letters(line));
        }
    }
}
