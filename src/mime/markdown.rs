//! The Markdown of an answer as the HTML alternative of a mail.
//!
//! Raw HTML is shown as it was typed, images become links, and links lead only to `http`, `https` and `mailto`: what a
//! model writes can neither run nor fetch anything in the reader's mail program.

use pulldown_cmark::{CowStr, Event, LinkType, Options, Parser, Tag, TagEnd, html};

/// Renders Markdown as a whole HTML document.
pub(super) fn to_html(markdown: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut kept_links = Vec::new();
    let events = Parser::new_ext(markdown, options).filter_map(|event| harmless(event, &mut kept_links));
    let mut body = String::new();
    html::push_html(&mut body, events);
    format!(
        "<!DOCTYPE html>\n<html>\n<head><meta charset=\"utf-8\"></head>\n<body>\n{body}</body>\n</html>\n"
    )
}

/// Replaces what may not be sent. `kept` remembers for every open link whether its start was written.
fn harmless<'e>(event: Event<'e>, kept: &mut Vec<bool>) -> Option<Event<'e>> {
    match event {
        Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
        // People press Enter where they want a new line; Markdown would join "Best," and the name.
        Event::SoftBreak => Some(Event::HardBreak),
        Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
            // `<m@x.test>`: the renderer writes the `mailto:` itself.
            let is_kept = link_type == LinkType::Email || is_allowed(&dest_url);
            kept.push(is_kept);
            is_kept.then_some(Event::Start(Tag::Link { link_type, dest_url, title, id }))
        }
        Event::Start(Tag::Image { dest_url, title, id, .. }) => {
            kept.push(is_allowed(&dest_url));
            let link_type = LinkType::Inline;
            is_allowed(&dest_url).then_some(Event::Start(Tag::Link { link_type, dest_url, title, id }))
        }
        Event::End(TagEnd::Link | TagEnd::Image) => {
            kept.pop().unwrap_or(false).then_some(Event::End(TagEnd::Link))
        }
        other => Some(other),
    }
}

fn is_allowed(target: &CowStr<'_>) -> bool {
    let lower = target.trim().to_ascii_lowercase();
    ["http://", "https://", "mailto:"].iter().any(|scheme| lower.starts_with(scheme))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatting_arrives_and_markup_does_not() {
        let html = to_html("**Hi** <script>x()</script>\nthere\n\n<div onclick=x>\n\n| a |\n|---|\n| 1 |\n");
        assert!(html.contains("<strong>Hi</strong> &lt;script&gt;x()&lt;/script&gt;<br />\nthere"));
        assert!(html.contains("&lt;div onclick=x&gt;") && html.contains("<td>1</td>"));
    }

    #[test]
    fn links_lead_only_to_the_web_and_images_are_links() {
        let html = to_html(
            "[a](https://a.test/) [b](javascript:x) ![c](http://c.test/p.png) ![d](file:///d) <m@x.test>",
        );
        assert!(html.contains("<a href=\"https://a.test/\">a</a> b <a href=\"http://c.test/p.png\">c</a> d"));
        assert!(html.contains("<a href=\"mailto:m@x.test\">"));
        assert!(!html.contains("<img") && !html.contains("javascript"));
    }
}
