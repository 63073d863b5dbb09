//! Writer of HTML in which foreign text can only be text.
//!
//! Absent on purpose: attributes with a value from outside, links, images. Characters that a
//! browser would not show as written (controls, direction overrides) are escaped visibly.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// Bytes of one value that are shown unless `full`: a request repeats its whole context each turn.
const VALUE_BYTES_MAX: usize = 512 * 1024;

/// The only style. Its hash stands in the policy, so that no other style applies.
const STYLE: &str = "
:root{color-scheme:light dark;--ink:#1a1a1a;--faint:#666;--paper:#fff;--edge:#d4d4d4;--bad:#a40000;--quote:#f6f6f4}
@media (prefers-color-scheme:dark){:root{--ink:#e4e4e4;--faint:#9a9a9a;--paper:#161616;--edge:#3a3a3a;--bad:#ff8a80;--quote:#202020}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:60rem;padding:1rem;background:var(--paper);color:var(--ink);font:16px/1.45 system-ui,sans-serif}
h1{font-size:1.2rem;overflow-wrap:anywhere;margin:1.5rem 0 .5rem}
h2{font-size:1rem;margin:0 0 .4rem;overflow-wrap:anywhere}
section{border-top:1px solid var(--edge);padding:.8rem 0}
.time{color:var(--faint);font-weight:400;margin-right:.6rem;font-variant-numeric:tabular-nums}
.rest{font-weight:400;margin-left:.6rem}
.bad{color:var(--bad);margin:.2rem 0;overflow-wrap:anywhere}
.faint{color:var(--faint)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem .8rem;margin:.3rem 0}
dt{color:var(--faint)}
dd{margin:0;overflow-wrap:anywhere;unicode-bidi:isolate}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--quote);border-left:3px solid var(--edge);margin:.4rem 0;padding:.5rem .7rem;font:13px/1.45 ui-monospace,monospace;unicode-bidi:isolate}
summary{cursor:pointer;color:var(--faint)}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.9rem}
th,td{text-align:left;vertical-align:top;padding:.15rem .8rem .15rem 0;unicode-bidi:isolate}
th{color:var(--faint);font-weight:400}
@media print{body{max-width:none;padding:0;font-size:11px}pre{font-size:9px}section{break-inside:auto}details::details-content{content-visibility:visible;block-size:auto}}
";

/// A page under construction.
pub(super) struct Html {
    out: String,
    full: bool,
}

impl Html {
    pub(super) fn new(title: &str, full: bool) -> Self {
        let mut page = Self {
            out: String::new(),
            full,
        };
        let hash = STANDARD.encode(Sha256::digest(STYLE));
        page.out
            .push_str("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
        // https://www.w3.org/TR/CSP3/: nothing may be fetched, sent or run, whatever the page
        // holds.
        page.out.push_str(&format!(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'\">\n"
        ));
        page.out
            .push_str("<meta name=\"referrer\" content=\"no-referrer\">\n");
        page.out
            .push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        page.block("title", "", title);
        page.out
            .push_str(&format!("<style>{STYLE}</style></head>\n<body>\n"));
        page
    }

    pub(super) fn finish(mut self) -> String {
        self.out.push_str("</body></html>\n");
        self.out
    }

    /// Writes an element with nothing but text in it.
    pub(super) fn block(&mut self, element: &'static str, class: &'static str, text: &str) {
        self.open(element, class);
        self.text(text);
        self.close(element);
    }

    /// Writes `label  value`, for values that are not empty.
    pub(super) fn fields(&mut self, fields: &[(&'static str, &str)]) {
        if fields.iter().all(|(_, value)| value.trim().is_empty()) {
            return;
        }
        self.open("dl", "");
        for (label, value) in fields.iter().filter(|(_, value)| !value.trim().is_empty()) {
            self.block("dt", "", label);
            self.block("dd", "", value);
        }
        self.close("dl");
    }

    /// Writes the heading of a stage; `wrong` is shown below it as its error.
    pub(super) fn section(&mut self, name: &str, time: &str, rest: &str, wrong: &str) {
        self.open("section", "");
        self.open("h2", "");
        self.block("span", "time", time);
        self.text(name);
        self.block("span", "rest", rest);
        self.close("h2");
        if !wrong.is_empty() {
            self.block("p", "bad", wrong);
        }
    }

    pub(super) fn end_section(&mut self) {
        self.close("section");
    }

    /// Writes text as it is, line by line.
    pub(super) fn quote(&mut self, text: &str) {
        let cut = if self.full {
            text.len()
        } else {
            text.floor_char_boundary(VALUE_BYTES_MAX)
        };
        let (shown, hidden) = text.split_at(cut);
        self.block("pre", "", shown);
        if !hidden.is_empty() {
            self.block(
                "p",
                "faint",
                &format!("… {} more bytes (--full shows all)", hidden.len()),
            );
        }
    }

    /// Writes text that is folded until it is opened.
    pub(super) fn folded(&mut self, summary: &'static str, text: &str) {
        self.out.push_str("<details>");
        self.fold(summary, text);
    }

    /// Writes text that can be folded.
    pub(super) fn folded_open(&mut self, summary: &'static str, text: &str) {
        self.out.push_str("<details open>");
        self.fold(summary, text);
    }

    fn fold(&mut self, summary: &'static str, text: &str) {
        self.block("summary", "", summary);
        self.quote(text);
        self.close("details");
    }

    pub(super) fn table(&mut self, headings: &[&'static str], rows: &[Vec<String>]) {
        self.open("div", "wide");
        self.out.push_str("<table><thead><tr>");
        headings
            .iter()
            .for_each(|heading| self.block("th", "", heading));
        self.out.push_str("</tr></thead><tbody>\n");
        for row in rows {
            self.open("tr", "");
            row.iter().for_each(|cell| self.block("td", "", cell));
            self.close("tr");
        }
        self.out.push_str("</tbody></table></div>\n");
    }

    fn open(&mut self, element: &'static str, class: &'static str) {
        match class {
            "" => self.out.push_str(&format!("<{element}>")),
            class => self.out.push_str(&format!("<{element} class=\"{class}\">")),
        }
        if element == "pre" {
            // A parser drops the first line end of a `pre` (WHATWG HTML, 13.1.2.5): it may have
            // ours.
            self.out.push('\n');
        }
    }

    fn close(&mut self, element: &'static str) {
        self.out.push_str(&format!("</{element}>\n"));
    }

    /// Escapes text; the only way in for text that is not ours.
    fn text(&mut self, text: &str) {
        for c in text.replace("\r\n", "\n").chars() {
            match c {
                '&' => self.out.push_str("&amp;"),
                '<' => self.out.push_str("&lt;"),
                '>' => self.out.push_str("&gt;"),
                '"' => self.out.push_str("&quot;"),
                '\'' => self.out.push_str("&#39;"),
                '\n' | '\t' => self.out.push(c),
                c if is_deceptive(c) => self.out.push_str(&format!("⟨U+{:04X}⟩", u32::from(c))),
                c => self.out.push(c),
            }
        }
    }
}

/// Reports whether a character is invisible, or displaces others (Unicode TR9, section 2, and
/// TR36). The joiners U+200C and U+200D are kept: emoji and Persian need them.
fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_can_only_be_text() {
        let mut page = Html::new("</title><script>", false);
        page.quote("\n<b onclick='x'>\u{202e}&amp;\u{1b}[2J");
        let page = page.finish();
        assert!(page.contains("<title>&lt;/title&gt;&lt;script&gt;</title>"));
        assert!(
            page.contains(
                "<pre>\n\n&lt;b onclick=&#39;x&#39;&gt;⟨U+202E⟩&amp;amp;⟨U+001B⟩[2J</pre>"
            )
        );
    }
}
