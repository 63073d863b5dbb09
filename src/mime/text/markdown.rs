//! The Markdown of an answer as the HTML alternative of a mail.
//!
//! Raw HTML is shown as it was typed, images become links, and links lead only to `http`, `https`
//! and `mailto`: the text of a model can neither run nor fetch anything in the reader's mail
//! program. Nor can a link pretend to lead elsewhere.

use super::links;
use pulldown_cmark::{CowStr, Event, LinkType, Options, Parser, Tag, TagEnd, html};

/// Renders Markdown as a whole HTML document. Its direction is that of its first letter: an Arabic
/// answer begins at the right.
pub(in crate::mime) fn to_html(markdown: &str) -> String {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut harmless = Harmless::default();
    for event in Parser::new_ext(markdown, options) {
        harmless.take(event);
    }
    let mut body = String::new();
    html::push_html(&mut body, harmless.events.into_iter());
    format!(
        "<!DOCTYPE html>\n<html>\n<head><meta charset=\"utf-8\"></head>\n<body dir=\"auto\">\n{body}</body>\n</html>\n"
    )
}

/// Events so far, without those that may not be sent.
#[derive(Default)]
struct Harmless<'e> {
    events: Vec<Event<'e>>,
    open: Vec<Link<'e>>,
}

/// An open link or image.
struct Link<'e> {
    /// Index of its start event; `None` when it is not allowed, or is inside another link.
    start: Option<usize>,
    target: CowStr<'e>,
    text: String,
}

impl<'e> Harmless<'e> {
    fn take(&mut self, event: Event<'e>) {
        match event {
            Event::Html(text) | Event::InlineHtml(text) => self.write(Event::Text(text)),
            // Writers press Enter for a new line; Markdown would join "Best," and the name.
            Event::SoftBreak => self.write(Event::HardBreak),
            Event::Start(Tag::Link {
                link_type,
                dest_url,
                title,
                id,
            }) => {
                self.begin(link_type, dest_url, title, id);
            }
            Event::Start(Tag::Image {
                dest_url,
                title,
                id,
                ..
            }) => {
                self.begin(LinkType::Inline, dest_url, title, id);
            }
            Event::End(TagEnd::Link | TagEnd::Image) => self.end(),
            other => self.write(other),
        }
    }

    fn write(&mut self, event: Event<'e>) {
        if let Event::Text(text) | Event::Code(text) = &event {
            self.open
                .iter_mut()
                .for_each(|link| link.text.push_str(text));
        }
        self.events.push(event);
    }

    fn begin(
        &mut self,
        link_type: LinkType,
        dest_url: CowStr<'e>,
        title: CowStr<'e>,
        id: CowStr<'e>,
    ) {
        let target = dest_url.clone();
        // `<m@x.test>`: the renderer writes the `mailto:` itself.
        let is_kept = link_type == LinkType::Email || is_allowed(&dest_url);
        let is_inside = self.open.iter().any(|link| link.start.is_some());
        let start = (is_kept && !is_inside).then_some(self.events.len());
        if start.is_some() {
            self.events.push(Event::Start(Tag::Link {
                link_type,
                dest_url,
                title,
                id,
            }));
        }
        self.open.push(Link {
            start,
            target,
            text: String::new(),
        });
    }

    fn end(&mut self) {
        let Some(Link {
            start: Some(start),
            target,
            text,
        }) = self.open.pop()
        else {
            return;
        };
        if text.trim().is_empty() {
            // A link without visible text hides its target, while programs that scan links follow
            // it all the same.
            self.events[start] = Event::Text(CowStr::Borrowed(""));
            return;
        }
        self.events.push(Event::End(TagEnd::Link));
        if let Some(place) = links::hidden_place(&text, &target) {
            self.events.push(Event::Text(format!(" ({place})").into()));
        }
    }
}

fn is_allowed(target: &CowStr<'_>) -> bool {
    let lower = target.trim().to_ascii_lowercase();
    ["http://", "https://", "mailto:"]
        .iter()
        .any(|scheme| lower.starts_with(scheme))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatting_arrives_and_markup_does_not() {
        let html = to_html(
            "**Hi** <script>x()</script>\nthere\n\n<div onclick=x>\n\n| a |\n|---|\n| 1 |\n",
        );
        assert!(html.contains("<strong>Hi</strong> &lt;script&gt;x()&lt;/script&gt;<br />\nthere"));
        assert!(html.contains("&lt;div onclick=x&gt;") && html.contains("<td>1</td>"));
    }

    #[test]
    fn links_lead_only_to_the_web_and_images_are_links() {
        let html = to_html(
            "[a](https://a.test/) [b](javascript:x) ![c](http://c.test/p.png) ![d](file:///d) <m@x.test>",
        );
        assert!(html.contains(
            "<a href=\"https://a.test/\">a</a> b <a href=\"http://c.test/p.png\">c</a> d"
        ));
        assert!(html.contains("<a href=\"mailto:m@x.test\">"));
        assert!(!html.contains("<img") && !html.contains("javascript"));
    }

    #[test]
    fn a_link_shows_where_it_leads_when_its_text_names_another() {
        let html =
            to_html("[**bank.example**](https://evil.test/phish) [the bank](https://evil.test/)");
        assert!(
            html.contains("<strong>bank.example</strong></a> (evil.test) <a"),
            "{html}"
        );
        assert!(html.contains(">the bank</a></p>"), "{html}");
        let html = to_html("[![bank.example](https://c.test/p.png)](https://evil.test/)");
        assert!(
            html.contains("<a href=\"https://evil.test/\">bank.example</a> (evil.test)"),
            "{html}"
        );
    }

    #[test]
    fn a_link_without_text_is_none_and_text_gives_a_page_direction() {
        let html = to_html(
            "![][r]a [](https://evil.test/?d=1) [ ](https://evil.test/)\n\n[r]: https://evil.test/x",
        );
        assert!(!html.contains("evil") && !html.contains("<a"), "{html}");
        assert!(html.contains("<body dir=\"auto\">"), "{html}");
    }
}
