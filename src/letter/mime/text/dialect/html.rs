//! The HTML alternative. Webmail throws `<style>` away, so what little style there is stands in attributes, and no colour is set that a
//! dark background would swallow.

use super::inline::{Inline, Style};
use super::{Alignment, LetterFooter, LetterPart, read_footed};
use std::fmt::Write as _;

const PAGE: &str = "<!DOCTYPE html>\n<html>\n<head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
    <meta name=\"color-scheme\" content=\"light dark\"></head>\n<body>\n";
/// Outlook's renderer knows no `system-ui` and takes Times for it.
const LETTER: &str = "font-family:'Segoe UI',Arial,sans-serif;font-size:15px;line-height:1.45;overflow-wrap:break-word";
const PARAGRAPH: &str = "margin:0 0 1em";
const HEADING: &str = "margin:1.2em 0 .4em;font-size:1.1em;line-height:1.3";
const LIST: &str = "margin:0 0 1em;padding-left:1.6em";
const QUOTE: &str = "margin:0 0 1em;padding:0 0 0 .8em;border-left:3px solid #999";
const CODE: &str = "margin:0 0 1em;padding:.6em;border:1px solid #999;font-family:Consolas,monospace;font-size:.95em;white-space:pre-wrap";
const FRAME: &str = "margin:0 0 1em;padding:.6em .8em;border:1px solid #999;border-radius:4px;font-family:inherit;white-space:pre-wrap";
const TABLE: &str = "margin:0 0 1em;border-collapse:collapse";
// Word, by which Outlook renders, gives cells no font of what is round them.
const CELL: &str = "padding:3px 8px;border:1px solid #999;vertical-align:top;font-family:'Segoe UI',Arial,sans-serif;font-size:15px";
const RULE: &str = "margin:1em 0;border:0;border-top:1px solid #999";
const SIGNATURE: &str = "margin:0;color:#777";

/// Renders a letter as a whole HTML document. Its direction is that of its first letter: an Arabic answer begins at the right.
pub fn letter_to_html(text: &str) -> String {
    footed_html(text, &LetterFooter::default())
}

/// Renders a letter as [`letter_to_html`] does, with what is added below it.
pub fn footed_html(text: &str, footer: &LetterFooter) -> String {
    let mut html = format!("{PAGE}<div dir=\"auto\" style=\"{LETTER}\">\n");
    blocks(&mut html, &read_footed(text, footer));
    html.push_str("</div>\n</body>\n</html>\n");
    html
}

fn blocks(html: &mut String, found: &[LetterPart]) {
    for block in found {
        match block {
            LetterPart::Paragraph(words) => element(html, "p", PARAGRAPH, &inline(words)),
            LetterPart::Heading(words) => element(html, "h3", HEADING, &inline(words)),
            LetterPart::Code { text, is_words } => {
                let style = if *is_words { FRAME } else { CODE };
                element(html, "pre", style, &escaped(text));
            }
            LetterPart::Signature(text) => {
                let text = escaped_lines(&format!("-- \n{text}"));
                element(html, "p", SIGNATURE, &text);
            }
            LetterPart::Closing(inner) => {
                put(html, format_args!("<div style=\"{SIGNATURE}\">-- <br>\n"));
                blocks(html, inner);
                html.push_str("</div>\n");
            }
            LetterPart::Original(original) => {
                let head = escaped_lines(&original.attribution);
                let text = escaped_lines(&original.text);
                put(
                    html,
                    format_args!(
                        "<div class=\"gmail_quote\"><div>{head}</div>\n\
                         <blockquote type=\"cite\" style=\"{QUOTE}\">{text}</blockquote></div>\n"
                    ),
                );
            }
            LetterPart::Rule => put(html, format_args!("<hr style=\"{RULE}\">\n")),
            LetterPart::Quote(inner) => {
                put(html, format_args!("<blockquote style=\"{QUOTE}\">\n"));
                blocks(html, inner);
                html.push_str("</blockquote>\n");
            }
            LetterPart::List(items) => {
                let name = match items.first().and_then(|item| item.number) {
                    Some(_) => "ol",
                    None => "ul",
                };
                put(html, format_args!("<{name} style=\"{LIST}\">\n"));
                for item in items {
                    match item.number {
                        Some(number) => put(html, format_args!("<li value=\"{number}\">")),
                        None => html.push_str("<li>"),
                    }
                    match item.blocks.split_first() {
                        // The first line of an item begins beside its mark in every program.
                        Some((LetterPart::Paragraph(words), rest)) => {
                            html.push_str(&inline(words));
                            blocks(html, rest);
                        }
                        _ => blocks(html, &item.blocks),
                    }
                    html.push_str("</li>\n");
                }
                put(html, format_args!("</{name}>\n"));
            }
            LetterPart::Table { columns, rows } => {
                put(html, format_args!("<table style=\"{TABLE}\">\n"));
                for (index, row) in rows.iter().enumerate() {
                    let name = if index == 0 { "th" } else { "td" };
                    html.push_str("<tr>");
                    for (cell, alignment) in row.iter().zip(columns) {
                        let cell = inline(cell);
                        let side = match alignment {
                            Alignment::Left => "left",
                            Alignment::Center => "center",
                            // A price stays on its line on a phone.
                            Alignment::Right if cell.len() <= 16 => "right;white-space:nowrap",
                            Alignment::Right => "right",
                        };
                        put(
                            html,
                            format_args!(
                                "<{name} style=\"{CELL};text-align:{side}\">{cell}</{name}>"
                            ),
                        );
                    }
                    html.push_str("</tr>\n");
                }
                html.push_str("</table>\n");
            }
        }
    }
}

fn element(html: &mut String, name: &str, style: &str, content: &str) {
    put(
        html,
        format_args!("<{name} style=\"{style}\">{content}</{name}>\n"),
    );
}

fn put(html: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _written = html.write_fmt(text);
}

fn inline(words: &[Inline]) -> String {
    let mut html = String::new();
    for part in words {
        match part {
            Inline::Text(text) => html.push_str(&escaped_lines(text)),
            Inline::Code(text) => put(
                &mut html,
                format_args!("<code>{}</code>", escaped_lines(text)),
            ),
            Inline::Open(style) => put(&mut html, format_args!("<{}>", element_of(*style))),
            Inline::Close(style) => put(&mut html, format_args!("</{}>", element_of(*style))),
            Inline::Link(link) => put(
                &mut html,
                format_args!("<a href=\"{}\">", escaped(&link.target)),
            ),
            Inline::LinkEnd(link) => {
                html.push_str("</a>");
                if let Some(place) = &link.hidden {
                    put(&mut html, format_args!(" ({})", escaped(place)));
                }
            }
        }
    }
    html
}

fn element_of(style: Style) -> &'static str {
    match style {
        Style::Strong => "strong",
        Style::Emphasis => "em",
        Style::Struck => "s",
    }
}

fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            c => html.push(c),
        }
    }
    html
}

/// Text whose lines and blanks stay as they were typed.
fn escaped_lines(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            html.push_str("<br>\n");
        }
        let line = escaped(line);
        // A paragraph's first blank follows words in another style.
        let mut was_blank = index > 0;
        for c in line.chars() {
            match c {
                ' ' | '\t' if was_blank => html.push_str("&nbsp;"),
                c => html.push(c),
            }
            was_blank = matches!(c, ' ' | '\t');
        }
    }
    html
}
