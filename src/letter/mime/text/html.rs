//! HTML mail as text that reads well, in bounded time and memory.
//!
//! html5ever is quadratic in nesting depth and can be made to rebuild formatting elements without
//! end, so it never sees the original markup: `tags` rewrites it first, in one pass, as shallow
//! well-formed HTML of a dozen elements. ammonia sanitises the result a second time.

use super::entities::revealed;
use super::tags::{self, TooDeep};
use crate::mime::limits::ParseLimits;
use crate::mime::transfer::plain_lines;

/// Fidelity of the rendering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mime) enum Fidelity {
    Rendered,
    /// The HTML is too large or too deep: its tags were removed, without parsing.
    Stripped,
}

/// Columns of a line: no wrapping, because the reader's width is unknown.
const WIDTH: usize = 1_000_000;

/// Renders HTML as readable text, within the default limits.
pub fn html_to_text(html: &str) -> String {
    to_text(html, &ParseLimits::default()).0
}

pub(in crate::mime) fn to_text(html: &str, limits: &ParseLimits) -> (String, Fidelity) {
    if html.len() <= limits.html_bytes_max
        && let Some(text) = rendered(html, limits.html_depth_max)
    {
        return (text, Fidelity::Rendered);
    }
    (tidy_lines(&tags::strip(html)), Fidelity::Stripped)
}

fn rendered(html: &str, depth_max: usize) -> Option<String> {
    let shallow = match tags::rewrite(html, depth_max) {
        Ok(shallow) => shallow,
        Err(TooDeep) => return None,
    };
    let clean = ammonia::clean(&shallow);
    let config = html2text::config::plain_no_decorate().allow_width_overflow();
    let text = config.string_from_read(clean.as_bytes(), WIDTH).ok()?;
    Some(tidy_lines(&revealed(&text)))
}

/// Removes blanks at line ends and edges; keeps at most one blank line in a row.
fn tidy_lines(text: &str) -> String {
    let text = plain_lines(text);
    let mut out = String::with_capacity(text.len());
    let mut blank = true;
    for line in text.lines() {
        let line = line.replace('\u{a0}', " ");
        let line = line.trim_end();
        if line.is_empty() && blank {
            continue;
        }
        blank = line.is_empty();
        out.push_str(line);
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}
