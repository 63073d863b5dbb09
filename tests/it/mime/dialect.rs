//! The dialect of letters: what stays as it was typed, and both alternatives with the same words.

use attache::mime::{letter_to_html, letter_to_plain};

/// The text of the HTML alternative as a reader sees it, with the marks that stand for lists, quotations and links in a typed letter.
fn visible(html: &str) -> String {
    let (_, body) = html.split_once("\">\n").expect("a letter");
    let (body, _) = body.rsplit_once("</div>\n</body>").expect("an end");
    let mut out = String::new();
    let (mut targets, mut quotes, mut in_cell) = (Vec::new(), 0, false);
    let mut rest = body;
    while let Some(at) = rest.find('<') {
        push(&mut out, &rest[..at], quotes);
        let end = rest[at..].find('>').expect("a tag") + at;
        let (tag, name) = (&rest[at + 1..end], rest[at + 1..end].split(' ').next());
        rest = &rest[end + 1..];
        let value = |key: &str| {
            tag.split_once(key)
                .map(|(_, value)| value[..value.len() - 1].to_owned())
        };
        match name.expect("a name") {
            "br" if in_cell => out.push_str(" / "),
            "br" => line(&mut out, quotes),
            "p" | "h3" | "pre" | "tr" => line(&mut out, quotes),
            "hr" => {
                line(&mut out, quotes);
                out.push_str("---");
            }
            "li" => {
                line(&mut out, quotes);
                out.push_str(
                    &value("value=\"").map_or("- ".to_owned(), |number| format!("{number}. ")),
                );
                out.push(ITEM);
            }
            "blockquote" => quotes += 1,
            "/blockquote" => quotes -= 1,
            "s" | "/s" => out.push_str("~~"),
            "th" | "td" => in_cell = true,
            "/th" | "/td" => in_cell = false,
            "a" => targets.push((value("href=\"").expect("a target"), out.len())),
            "/a" => {
                let (target, start) = targets.pop().expect("an open link");
                let target = unescaped(&target);
                let target = target.strip_prefix("mailto:").unwrap_or(&target).to_owned();
                let bare = |text: &str| {
                    text.trim()
                        .trim_end_matches('/')
                        .to_lowercase()
                        .replace("https://", "")
                        .replace("http://", "")
                };
                // A place that is shown instead of the target comes first.
                if let Some((place, after)) = rest
                    .strip_prefix(" (")
                    .and_then(|rest| rest.split_once(')'))
                    && target.to_lowercase().contains(&unescaped(place))
                    && bare(&out[start..]) != bare(&target)
                    && !place.contains('<')
                    && !place.is_empty()
                {
                    if unescaped(place) != target {
                        out.push_str(&format!(" ({})", unescaped(place)));
                    }
                    rest = after;
                }
                if bare(&out[start..]) != bare(&target) {
                    out.push_str(&format!(" ({target})"));
                }
            }
            _ => {}
        }
    }
    push(&mut out, rest, quotes);
    out
}

/// Stands behind the mark of an item.
const ITEM: char = '\u{1}';

fn push(out: &mut String, text: &str, quotes: usize) {
    let text = unescaped(text);
    for (index, part) in text.split('\n').enumerate() {
        if index > 0 {
            line(out, quotes);
        }
        out.push_str(part);
    }
}

/// Begins a line, unless an item has just begun one.
fn line(out: &mut String, quotes: usize) {
    if out.ends_with(ITEM) {
        return;
    }
    out.push('\n');
    out.push_str(&"> ".repeat(quotes));
}

fn unescaped(text: &str) -> String {
    text.replace("&nbsp;", " ")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&amp;", "&")
}

/// Without blanks, and without the marks that each alternative draws in its own way.
fn squeezed(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_whitespace() && !matches!(*c, '>' | '-' | '`' | ITEM))
        .collect()
}

fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

#[track_caller]
fn check(text: &str) {
    let (plain, html) = (letter_to_plain(text), letter_to_html(text));
    assert_eq!(
        squeezed(&plain),
        squeezed(&visible(&html)),
        "of\n{text}\n--plain\n{plain}\n--html\n{html}"
    );
}

#[test]
fn what_a_letter_means_by_itself_stays() {
    for text in [
        "3. Dezember\n24. Dezember\n31. Dezember",
        "2. Close the valve\n5. Wait\n7. Open it",
        "Am 17. 05. 2026 kommen wir.",
        "Wir kommen am 28. November\n\n2026. Das ist sicher.",
        "The total is (~$12) and not (~$5).",
        "3*4*5 = 60",
        "Password: Haus*2024*Gast",
        "*2024* and *a1b2*",
        "C:\\*.log and C:\\Users\\_new\\[old]",
        "__init__ and snake_case_name and _id_2_",
        "> 100 €",
        "- 250 €\n- 30 €",
        "[1]: https://x.test/a",
        "&copy; &amp; &lt;b&gt; AT&T",
        "# 12 is your room",
        "<b>bold</b> & <script>x()</script>",
        "* one star line *",
        "2 * 3 * 4, 5 ** 2 ** 3",
        "It`s 5 o`clock",
        "    indented by four",
        "1) first\n2) second",
        "*.txt and *.log",
        "Price*)\n*) with VAT",
        "Best regards\n===",
        "a ~ b ~ c",
        "~~~ Menu ~~~",
        "~~~\nMenu\n~~~",
        "- a passport",
        "\\*not bold\\*",
    ] {
        let plain = letter_to_plain(text);
        assert_eq!(plain, format!("{text}\n"));
        check(text);
    }
}

/// Marks and words of which texts are made; none has a target, a tag or a name of a language, which one alternative leaves out.
const PARTS: &[&str] = &[
    "Anna",
    "12 €",
    "3. Dezember",
    "1. ",
    "2. ",
    "3. ",
    "- ",
    "* ",
    "+ ",
    "  ",
    "    ",
    "> ",
    ">",
    "# ",
    "## ",
    "---",
    "***",
    "===",
    "-- ",
    "--",
    "*",
    "**",
    "***",
    "_",
    "__",
    "~",
    "~~",
    "`",
    "``",
    "```\n",
    "|",
    "| --- | ---: |",
    "| a | b |",
    "\\",
    "\\|",
    "\\*",
    "[",
    "]",
    "(",
    ")",
    "![",
    "!",
    "&amp;",
    "&",
    "<b>",
    "<",
    "\"",
    "x@y.test",
    "https://x.test/a_b*c",
    "<https://x.test/>",
    "**bold**",
    "*em*",
    "_em_",
    "`code`",
    "~~was~~",
    "[1]: https://x.test",
    "重要",
    "**「重要」**です",
    "שלום",
    "a\u{301}",
    "👩‍👩‍👧",
    "3*4*5",
    "C:\\*.log",
    "__init__",
    "\t",
    "1)",
    "- [ ] ",
    "...",
    "end.",
];
/// Parts of which something is left out, or shown otherwise.
const LINKS: &[&str] = &[
    "[the menu](https://x.test/menu)",
    "[bank.example](https://evil.test/b)",
    "[x](javascript:alert)",
    "[x](menu.pdf)",
    "[a@b.test](mailto:a@b.test)",
    "![plan](http://x.test/p.png)",
    "[](https://x.test/)",
    "[**b**](https://x.test/ \"t\")",
    "[![i](https://a.test/i)](https://b.test/)",
    "<br>",
    "```",
    "```rust",
    "](https://x.test/)",
    "[write](mailto:a@b.test?subject=x)",
];

/// A letter of the parts, the same for the same number.
fn made(number: u64, parts: &[&[&str]]) -> String {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).expect("31 bits") % below
    };
    let mut text = String::new();
    for _ in 0..1 + next(24) {
        let kind = parts[next(parts.len())];
        text.push_str(kind[next(kind.len())]);
        text.push_str(["", " ", "\n", "\n", "\n\n", " "][next(6)]);
    }
    text
}

/// All: `ATTACHE_TEXTS=1000000 cargo test --release --test it mime::dialect`.
#[test]
#[ignore = "second tier"]
fn both_alternatives_of_made_texts_show_the_same_words_and_lose_none() {
    let count = std::env::var("ATTACHE_TEXTS")
        .ok()
        .and_then(|count| count.parse().ok());
    for number in 0..count.unwrap_or(20_000) {
        let text = made(number, &[PARTS]);
        check(&text);
        // The name of a language is no word of a letter; parts may make one of three backticks and what follows.
        let after = |at: usize| text[at..].trim_start_matches(['`', ' ']);
        let is_named = |(at, _): (usize, &str)| after(at).starts_with(char::is_alphanumeric);
        if !text.match_indices("```").any(is_named) {
            let plain = letter_to_plain(&text);
            assert_eq!(letters(&plain), letters(&text), "of\n{text}\n--\n{plain}");
        }
        check(&made(number, &[PARTS, LINKS]));
    }
}

#[test]
#[ignore = "second tier"]
fn hostile_texts_take_time_in_proportion() {
    for part in [
        "*",
        "**a ",
        "[",
        "[a](",
        "[a](https://x.test/",
        "`",
        "``a`",
        "> ",
        "- ",
        "1. a\n",
        "2. a\n",
        "| a ",
        "_a",
        "~~",
        "<br>",
        "@",
        "a@",
        "http://",
        "(((",
        "*a _b **c ",
        "- \n",
        "-- \n",
        "```\n",
        "> - ",
    ] {
        let text = part.repeat(200_000 / part.len());
        let began = std::time::Instant::now();
        let (plain, html) = (letter_to_plain(&text), letter_to_html(&text));
        assert!(plain.len() < 8 * text.len() && html.len() < 400 * text.len());
        assert!(
            began.elapsed().as_secs() < 20,
            "{part}: {:?}",
            began.elapsed()
        );
    }
    let wide = format!("{}\n{}\n", "| a ".repeat(10_000), "|---".repeat(10_000));
    assert!(!letter_to_html(&wide).contains("<table"));
}
