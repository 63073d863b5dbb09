//! Comparison of two runs, as lines. Pure.

use super::page::{Line, Page, Tone, span};
use crate::replay::diff::{Comparison, RunDifference, StepPair};
use crate::text::one_line;
use crate::text::plural;

/// Renders a comparison, the first difference first, then the others. `full` shows every stage and
/// every difference.
pub fn comparison(a: &str, b: &str, comparison: &Comparison, full: bool) -> Vec<Line> {
    let mut page = Page::new(true);
    page.line(vec![
        span(Tone::Faint, "a  "),
        span(Tone::Title, format!("run {a}")),
    ]);
    page.line(vec![
        span(Tone::Faint, "b  "),
        span(Tone::Title, format!("run {b}")),
    ]);
    match &comparison.first {
        None => page.line(vec![span(Tone::Good, "they are the same")]),
        Some(first) => {
            page.line(vec![span(
                Tone::Bad,
                format!("they went apart first at: {}", place(first)),
            )]);
            write_sides(&mut page, first);
        }
    }
    page.blank();
    let is_shown = |pair: &&StepPair| full || !pair.differences.is_empty();
    for pair in comparison.pairs.iter().filter(is_shown) {
        let verdict = match pair.differences.len() {
            0 => span(Tone::Good, "same"),
            count => span(Tone::Bad, plural(count, "difference")),
        };
        page.line(vec![
            span(Tone::Plain, format!("{:<24}  ", one_line(&pair.name))),
            verdict,
        ]);
        let is_first = |difference: &RunDifference| comparison.first.as_ref() == Some(difference);
        let shown = if full { pair.differences.len() } else { 1 };
        for difference in pair
            .differences
            .iter()
            .take(shown)
            .filter(|of| full || !is_first(of))
        {
            if !difference.place.is_empty() {
                page.inside(vec![span(Tone::Plain, one_line(&difference.place))]);
            }
            write_sides(&mut page, difference);
        }
    }
    let same = comparison
        .pairs
        .iter()
        .filter(|pair| pair.differences.is_empty())
        .count();
    if !full && same > 0 {
        let said = format!(
            "the same in both: {} (--full lists them)",
            plural(same, "stage")
        );
        page.line(vec![span(Tone::Faint, said)]);
    }
    page.into_lines()
}

fn place(difference: &RunDifference) -> String {
    match difference.place.as_str() {
        "" => one_line(&difference.pair),
        place => format!("{}, {}", one_line(&difference.pair), one_line(place)),
    }
}

fn write_sides(page: &mut Page, difference: &RunDifference) {
    for (label, side) in [("a", &difference.a), ("b", &difference.b)] {
        let said = match side {
            Some(text) => span(Tone::Plain, one_line(text)),
            None => span(Tone::Faint, "(nothing)"),
        };
        page.inside(vec![span(Tone::Faint, format!("  {label} | ")), said]);
    }
}
