//! Two texts compared line by line.

use serde::Serialize;

/// Most pairs of lines that are compared; beyond that, what differs is shown whole.
const PAIRS_MAX: usize = 4_000_000;
/// Most lines that stand around a change.
const AROUND: usize = 3;

/// A line of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DiffLine<'a> {
    /// `same`, `added`, `removed`, or `skipped` for lines that are the same and not shown.
    pub kind: &'static str,
    pub text: &'a str,
}

impl DiffLine<'_> {
    /// Returns the line with its sign: `+`, `-`, `…`, or a blank.
    pub fn signed(&self) -> String {
        let sign = match self.kind {
            "added" => "+",
            "removed" => "-",
            "skipped" => "…",
            _ => " ",
        };
        format!("{sign} {}", self.text).trim_end().to_owned()
    }
}

/// Compares two texts and returns the lines that differ, with some around them.
pub fn line_diff<'a>(old: &'a str, new: &'a str) -> Vec<DiffLine<'a>> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let ends = old_rest.iter().rev().zip(new_rest.iter().rev());
    let tail = ends.take_while(|(a, b)| a == b).count();
    let (removed, added) = (
        &old_rest[..old_rest.len() - tail],
        &new_rest[..new_rest.len() - tail],
    );
    let line = |kind: &'static str| move |text: &&'a str| DiffLine { kind, text };
    let mut lines: Vec<DiffLine<'a>> = old[..head].iter().map(line("same")).collect();
    if removed.len().saturating_mul(added.len()) > PAIRS_MAX {
        lines.extend(removed.iter().map(line("removed")));
        lines.extend(added.iter().map(line("added")));
    } else {
        lines.extend(aligned(removed, added));
    }
    lines.extend(old[old.len() - tail..].iter().map(line("same")));
    shown(&lines)
}

/// Aligns two lists of lines by their longest common subsequence.
fn aligned<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<DiffLine<'a>> {
    let width = new.len() + 1;
    // Lengths of the common subsequences of what is left from each pair on.
    let mut lengths = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            lengths[i * width + j] = match old[i] == new[j] {
                true => lengths[(i + 1) * width + j + 1] + 1,
                false => lengths[(i + 1) * width + j].max(lengths[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        let is_same = i < old.len() && j < new.len() && old[i] == new[j];
        let takes_old = j == new.len()
            || (i < old.len() && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]);
        let (kind, text) = match (is_same, takes_old) {
            (true, _) => ("same", old[i]),
            (false, true) => ("removed", old[i]),
            (false, false) => ("added", new[j]),
        };
        i += usize::from(kind != "added");
        j += usize::from(kind != "removed");
        lines.push(DiffLine { kind, text });
    }
    lines
}

/// Leaves out lines that are far from every change.
fn shown<'a>(lines: &[DiffLine<'a>]) -> Vec<DiffLine<'a>> {
    let changes: Vec<usize> = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.kind != "same")
        .map(|(at, _)| at)
        .collect();
    let is_near = |at: usize| {
        let next = changes.partition_point(|change| *change + AROUND < at);
        changes
            .get(next)
            .is_some_and(|change| *change <= at + AROUND)
    };
    let mut found: Vec<DiffLine<'a>> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if is_near(at) {
            found.push(*line);
        } else if found.last().is_none_or(|last| last.kind != "skipped") {
            found.push(DiffLine {
                kind: "skipped",
                text: "",
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(old: &str, new: &str) -> String {
        let mark = |line: &DiffLine<'_>| match line.kind {
            "same" => format!(" {}", line.text),
            "added" => format!("+{}", line.text),
            "removed" => format!("-{}", line.text),
            _ => "…".to_owned(),
        };
        line_diff(old, new)
            .iter()
            .map(mark)
            .collect::<Vec<_>>()
            .join("|")
    }

    #[test]
    fn lines_are_kept_added_and_removed() {
        assert_eq!(marks("a\nb\nc", "a\nx\nc"), " a|-b|+x| c");
        assert_eq!(marks("", "a"), "+a");
        assert_eq!(marks("a", ""), "-a");
        assert_eq!(marks("a\nb\nc\nd", "b\nc\nx\nd"), "-a| b| c|+x| d");
        assert_eq!(marks("same", "same"), "…");
    }

    #[test]
    fn what_is_far_from_a_change_is_left_out() {
        let old: Vec<String> = (0..20).map(|n| n.to_string()).collect();
        let mut new = old.clone();
        new[10] = "ten".to_owned();
        let marks = marks(&old.join("\n"), &new.join("\n"));
        assert_eq!(marks, "…| 7| 8| 9|-10|+ten| 11| 12| 13|…");
    }

    #[test]
    fn applied_to_the_old_text_it_gives_the_new_one() {
        let old = "one\ntwo\nthree\ntwo\nfour\n".repeat(7);
        let new = old.replace("two\nfour", "five") + "six\ntwo\n";
        let lines = line_diff(&old, &new);
        let count = |kind: &str| lines.iter().filter(|line| line.kind == kind).count();
        let (before, after) = (old.lines().count(), new.lines().count());
        assert_eq!(before + count("added") - count("removed"), after);
    }

    #[test]
    fn texts_without_a_common_line_are_shown_whole_and_at_once() {
        let text = |word: &str| {
            (0..5_000)
                .map(|n| format!("{word}{n}\n"))
                .collect::<String>()
        };
        let (old, new) = (text("a"), text("b"));
        assert_eq!(line_diff(&old, &new).len(), 10_000);
    }
}
