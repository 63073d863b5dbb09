//! A one-pass rewriter of HTML: from arbitrary markup to shallow, well-formed HTML of a few
//! elements.
//!
//! The output holds paragraphs, lists, quotes and preformatted text. Tables become rows of cells,
//! links become `text <address>`, images their alternative text. Text that is invisible to a person
//! (`hidden`, `display:none`, zero-size text) is left out, because a model would obey it although
//! its owner never read it. Hidden text by colour is not detected.

use super::entities::{decoded, disguised};

/// Error: the elements are nested deeper than the limit.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::mime) struct TooDeep;

/// Greatest nesting depth of the output.
const EMITTED_DEPTH_MAX: usize = 64;
/// Longest link target that is shown, in characters.
const LINK_CHARS_MAX: usize = 2000;

enum Token<'a> {
    Text(&'a str),
    Open { name: String, attributes: &'a str },
    Close { name: String },
}

/// Cuts HTML into text and tags; comments, declarations and the content of scripts and styles are
/// left out.
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            if self.rest.is_empty() {
                return None;
            }
            let text = self.take_text();
            if !text.is_empty() {
                return Some(Token::Text(text));
            }
            // A tag begins here: `take_text` takes everything else.
            if self.skip_comment() {
                continue;
            }
            if let Some(tag) = self.take_tag() {
                return Some(tag);
            }
        }
    }
}

impl<'a> Tokens<'a> {
    fn advance(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    /// Takes everything up to the next `<` that begins a tag, a comment or a declaration.
    fn take_text(&mut self) -> &'a str {
        let bytes = self.rest.as_bytes();
        let begins = |at: usize| match (bytes.get(at), bytes.get(at + 1), bytes.get(at + 2)) {
            (Some(b'<'), Some(b'!' | b'?'), _) => true,
            (Some(b'<'), Some(b'/'), Some(c)) | (Some(b'<'), Some(c), _) => c.is_ascii_alphabetic(),
            _ => false,
        };
        let end = (0..bytes.len())
            .find(|at| begins(*at))
            .unwrap_or(bytes.len());
        self.advance(end)
    }

    fn skip_comment(&mut self) -> bool {
        let end_of = |from: usize, needle: &str| {
            self.rest[from..]
                .find(needle)
                .map_or(self.rest.len(), |at| from + at + needle.len())
        };
        let end = if self.rest.starts_with("<!-->") || self.rest.starts_with("<!--->") {
            end_of(4, ">")
        } else if self.rest.starts_with("<!--") {
            end_of(4, "-->")
        } else if self.rest.starts_with("<!") || self.rest.starts_with("<?") {
            end_of(2, ">")
        } else {
            return false;
        };
        self.advance(end);
        true
    }

    fn take_tag(&mut self) -> Option<Token<'a>> {
        let end = tag_end(self.rest);
        let tag = self.advance(end);
        let inner = tag.trim_start_matches('<').trim_end_matches('>');
        let is_close = inner.starts_with('/');
        let inner = inner.trim_start_matches('/');
        let name_end = inner
            .find(|c: char| c.is_ascii_whitespace() || c == '/')
            .unwrap_or(inner.len());
        let (name, attributes) = inner.split_at(name_end);
        let name = name.to_ascii_lowercase();
        if is_close {
            return Some(Token::Close { name });
        }
        const RAW: [&str; 9] = [
            "script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes",
            "template",
        ];
        if RAW.contains(&name.as_str()) {
            self.skip_raw(&name);
            return None;
        }
        Some(Token::Open { name, attributes })
    }

    /// Skips the content of an element that holds no markup, up to its close tag.
    fn skip_raw(&mut self, name: &str) {
        let bytes = self.rest.as_bytes();
        let closes = |at: usize| {
            bytes[at..].starts_with(b"</")
                && bytes
                    .get(at + 2..at + 2 + name.len())
                    .is_some_and(|n| n.eq_ignore_ascii_case(name.as_bytes()))
        };
        let end = (0..bytes.len())
            .find(|at| closes(*at))
            .unwrap_or(bytes.len());
        self.advance(end);
    }
}

/// Returns the offset after the `>` of the tag at the start of `rest`; quotes count only as
/// attribute values.
fn tag_end(rest: &str) -> usize {
    let mut quote: Option<u8> = None;
    let mut last = b' ';
    for (at, byte) in rest.bytes().enumerate() {
        match (quote, byte) {
            (Some(open), b) if b == open => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') if last == b'=' => quote = Some(byte),
            (None, b'>') => return at + 1,
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            last = byte;
        }
    }
    rest.len()
}

/// Returns the raw value of an attribute, entities not decoded.
fn attribute<'a>(attributes: &'a str, wanted: &str) -> Option<&'a str> {
    let mut rest = attributes;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        if rest.is_empty() {
            return None;
        }
        // The first character belongs to the name even if it is `=` (HTML standard, attribute name
        // state).
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let ends = |c: char| c.is_ascii_whitespace() || matches!(c, '=' | '/');
        let name_end = rest[first..].find(ends).map_or(rest.len(), |at| first + at);
        let (name, after) = rest.split_at(name_end);
        let after = after.trim_start();
        let (value, after) = match after.strip_prefix('=') {
            Some(value) => attribute_value(value.trim_start()),
            None => ("", after),
        };
        if name.eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = after;
    }
}

fn attribute_value(text: &str) -> (&str, &str) {
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote) {
            return inner.split_once(quote).unwrap_or((inner, ""));
        }
    }
    text.split_at(
        text.find(|c: char| c.is_ascii_whitespace())
            .unwrap_or(text.len()),
    )
}

/// Handling of an element in the output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ElementRole {
    /// The element is emitted under this name.
    Block(&'static str),
    Row,
    Cell,
    Link,
    /// The element is dropped and its content kept.
    Inline,
}

fn role(name: &str) -> Option<ElementRole> {
    Some(match name {
        "p" => ElementRole::Block("p"),
        "ul" | "menu" | "dir" => ElementRole::Block("ul"),
        "ol" => ElementRole::Block("ol"),
        "li" => ElementRole::Block("li"),
        "blockquote" => ElementRole::Block("blockquote"),
        "pre" | "listing" => ElementRole::Block("pre"),
        "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => ElementRole::Block("p"),
        "div" | "center" | "section" | "article" | "header" | "footer" | "main" | "nav"
        | "aside" | "address" | "form" | "fieldset" | "figure" | "figcaption" | "details"
        | "summary" | "dl" | "dt" | "dd" | "table" | "caption" => ElementRole::Block("div"),
        "tr" => ElementRole::Row,
        "td" | "th" => ElementRole::Cell,
        "a" => ElementRole::Link,
        "span" | "font" | "b" | "strong" | "i" | "em" | "u" | "s" | "strike" | "del" | "ins"
        | "big" | "small" | "sub" | "sup" | "code" | "tt" | "kbd" | "samp" | "var" | "cite"
        | "q" | "mark" | "label" | "abbr" | "time" | "button" | "svg" => ElementRole::Inline,
        _ => return None,
    })
}

struct Open {
    name: String,
    role: ElementRole,
    /// Name of the emitted element; `None` when nothing was emitted.
    emitted: Option<&'static str>,
    /// Target of a link, entities not decoded.
    href: Option<String>,
    /// Offset in the output at the start of the element.
    start: usize,
    hides: bool,
    strikes: bool,
}

/// An open table row.
#[derive(Default)]
struct RowState {
    has_text: bool,
    separator_due: bool,
}

#[derive(Default)]
struct Writer {
    out: String,
    open: Vec<Open>,
    rows: Vec<RowState>,
    emitted_depth: usize,
    hidden: usize,
}

/// Rewrites HTML in one pass.
pub(in crate::mime) fn rewrite(html: &str, depth_max: usize) -> Result<String, TooDeep> {
    let mut writer = Writer::default();
    for token in (Tokens { rest: html }) {
        match token {
            Token::Text(text) => writer.text(text),
            Token::Open { name, attributes } => writer.open(&name, attributes),
            Token::Close { name } => writer.close(&name),
        }
        if writer.open.len() > depth_max {
            return Err(TooDeep);
        }
    }
    while !writer.open.is_empty() {
        writer.pop();
    }
    Ok(writer.out)
}

/// Returns the text of HTML without its tags, for HTML that is too large or too deep to be parsed.
pub(in crate::mime) fn strip(html: &str) -> String {
    let mut out = String::new();
    for token in (Tokens { rest: html }) {
        match token {
            Token::Text(text) => out.push_str(&decoded(text)),
            Token::Open { name, .. } | Token::Close { name } => {
                let breaks = name == "br"
                    || matches!(role(&name), Some(ElementRole::Block(_) | ElementRole::Row));
                out.push_str(if breaks { "\n" } else { "" });
            }
        }
    }
    out
}

impl Writer {
    fn text(&mut self, text: &str) {
        if self.hidden > 0 {
            return;
        }
        let text = disguised(&decoded(text));
        if let Some(row) = self.rows.last_mut().filter(|_| !text.trim().is_empty()) {
            if row.separator_due && row.has_text {
                self.out.push_str(" | ");
            }
            *row = RowState {
                has_text: true,
                separator_due: false,
            };
        }
        self.out.push_str(&text);
    }

    fn open(&mut self, name: &str, attributes: &str) {
        match name {
            "br" => return self.write("<br>"),
            "hr" => return self.write("<p>---</p>"),
            "img" => return self.image(attributes),
            _ => {}
        }
        let Some(role) = role(name) else { return };
        self.close_implied(name, role);
        let emitted = match role {
            ElementRole::Block(tag) => Some(tag),
            ElementRole::Row => Some("div"),
            ElementRole::Cell | ElementRole::Link | ElementRole::Inline => None,
        };
        let emitted =
            emitted.filter(|_| self.hidden == 0 && self.emitted_depth < EMITTED_DEPTH_MAX);
        if let Some(tag) = emitted {
            self.write(&format!("<{tag}>"));
            self.emitted_depth += 1;
        }
        match role {
            ElementRole::Row => self.rows.push(RowState::default()),
            ElementRole::Cell => {
                if let Some(row) = self.rows.last_mut() {
                    row.separator_due = true;
                }
            }
            _ => {}
        }
        let hides = is_hidden(attributes);
        self.hidden += usize::from(hides);
        let href = (role == ElementRole::Link)
            .then(|| attribute(attributes, "href").unwrap_or_default().to_owned());
        let strikes = is_struck(name, attributes);
        if strikes {
            self.write("~~");
        }
        self.open.push(Open {
            name: name.to_owned(),
            role,
            emitted,
            href,
            start: self.out.len(),
            hides,
            strikes,
        });
    }

    /// Closes what the HTML standard closes before this element: items by items, cells by cells,
    /// paragraphs by blocks.
    fn close_implied(&mut self, name: &str, role: ElementRole) {
        let (closes, stops): (&[&str], &[&str]) = match name {
            "li" => (&["li"], &["ul", "ol", "menu", "dir", "table"]),
            "dt" | "dd" => (&["dt", "dd"], &["dl", "table"]),
            "tr" => (&["tr"], &["table"]),
            "td" | "th" => (&["td", "th"], &["tr", "table"]),
            "a" => (&["a"], &["table"]),
            _ if matches!(role, ElementRole::Block(_)) => (
                &["p"],
                &["td", "th", "div", "li", "blockquote", "table", "button"],
            ),
            _ => return,
        };
        for at in (0..self.open.len()).rev() {
            let found = self.open[at].name.as_str();
            if stops.contains(&found) {
                return;
            }
            if closes.contains(&found) {
                self.pop_to(at);
                return;
            }
        }
    }

    fn close(&mut self, name: &str) {
        if name == "p" && !self.open.iter().any(|o| o.name == "p") {
            return self.write("<br>");
        }
        // A cell's content cannot close what is outside its table.
        let crosses = |open: &Open| {
            open.name == "table" && name != "table" && name != "body" && name != "html"
        };
        for at in (0..self.open.len()).rev() {
            if self.open[at].name == name {
                return self.pop_to(at);
            }
            if crosses(&self.open[at]) {
                return;
            }
        }
    }

    fn pop_to(&mut self, index: usize) {
        while self.open.len() > index {
            self.pop();
        }
    }

    fn pop(&mut self) {
        let Some(element) = self.open.pop() else {
            return;
        };
        if let Some(href) = &element.href {
            self.link_target(href, element.start);
        }
        if element.strikes {
            self.write("~~");
        }
        self.hidden -= usize::from(element.hides);
        if element.role == ElementRole::Row {
            self.rows.pop();
        }
        if let Some(tag) = element.emitted {
            self.out.push_str("</");
            self.out.push_str(tag);
            self.out.push('>');
            self.emitted_depth -= 1;
        }
    }

    /// Writes ` <target>` after a link's text, unless the text says the same.
    fn link_target(&mut self, href: &str, start: usize) {
        let href = decoded(href);
        let href = href.trim();
        let lower = href.to_ascii_lowercase();
        let is_shown = ["http://", "https://", "mailto:"]
            .iter()
            .any(|scheme| lower.starts_with(scheme));
        if !is_shown || href.chars().count() > LINK_CHARS_MAX {
            return;
        }
        let shown = disguised(href);
        let bare = shown.trim_start_matches("mailto:").trim_end_matches('/');
        let text = self.out.get(start..).unwrap_or_default();
        if text.contains(bare) || text.trim().is_empty() {
            return;
        }
        self.write(&disguised(&format!(" <{href}>")));
    }

    fn image(&mut self, attributes: &str) {
        let alt = attribute(attributes, "alt").unwrap_or_default().trim();
        if !alt.is_empty() && !is_hidden(attributes) {
            self.text(&format!("[{alt}]"));
        }
    }

    fn write(&mut self, html: &str) {
        if self.hidden == 0 {
            self.out.push_str(html);
        }
    }
}

/// Reports whether a browser would show nothing of the element.
fn is_hidden(attributes: &str) -> bool {
    let style = attribute(attributes, "style")
        .unwrap_or_default()
        .to_ascii_lowercase();
    let hides = |declaration: &str| {
        let (property, value) = declaration.split_once(':').unwrap_or_default();
        let value = value.trim().trim_end_matches("!important").trim();
        let is_zero = !value.is_empty()
            && value.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%') == "0";
        match property.trim() {
            "display" => value == "none",
            "visibility" => value == "hidden" || value == "collapse",
            "opacity" | "font-size" | "max-height" | "max-width" => is_zero,
            _ => false,
        }
    };
    style.split(';').any(hides)
        || (attributes.contains("hidden") && attribute(attributes, "hidden").is_some())
}

/// Reports whether the text of an element is crossed out: it is written as `~~text~~`, because without the line it would
/// say the contrary.
fn is_struck(name: &str, attributes: &str) -> bool {
    let style = || attribute(attributes, "style").unwrap_or_default();
    matches!(name, "s" | "strike" | "del") || style().to_ascii_lowercase().contains("line-through")
}
