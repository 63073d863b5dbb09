//! Whether the plain text of a letter is a stub: it says that there is HTML, shows a link to it, or names its pictures, and the
//! letter itself is in the HTML alone.
//!
//! Read from the HTML in doubt only where nothing is lost by it: what the plain text says besides stands there, too, or is
//! a fifth of it at most and about something else.

use std::collections::HashSet;

/// Words above which a plain text is a letter.
const WORDS_MAX: usize = 80;
/// Words of a sentence that only speaks of HTML.
const SENTENCE_WORDS_MAX: usize = 40;
/// Words that HTML must have to be a letter.
const HTML_WORDS_MIN: usize = 3;
/// Numbers that are dates of an appointment, rather than an answer such as `15:30`.
const DATE_WORDS_MIN: usize = 4;
/// HTML is another text when it has so many times the words.
const TIMES: usize = 5;
/// Text of the HTML that is compared: many times a plain text that may be a stub.
const HTML_BYTES_MAX: usize = 64 * 1024;

/// Phrases of which sentences of stubs have one, lower case.
const PHRASES: &[&str] = &[
    "in your browser",
    "in a browser",
    "in browser",
    "in your web browser",
    "view online",
    "view it online",
    "read it online",
    "online version",
    "web version",
    "webversion",
    "view as a web page",
    "trouble viewing",
    "trouble reading this",
    "problems viewing",
    "unable to view",
    "unable to read this",
    "cannot read this",
    "can't read this",
    "cannot see this",
    "can't see this",
    "cannot view this",
    "can't view this",
    "not display correctly",
    "not displaying correctly",
    "not displayed correctly",
    "enable images",
    "display images",
    "mime format",
    "multi-part message",
    "client does not support",
    "client doesn't support",
    "client cannot display",
    "im browser",
    "onlineversion",
    "online-version",
    "nicht richtig dargestellt",
    "nicht korrekt dargestellt",
    "nicht richtig angezeigt",
    "nicht korrekt angezeigt",
    "bilder anzeigen",
    "dans votre navigateur",
    "dans un navigateur",
    "version en ligne",
    "ne s'affiche pas",
    "ne s’affiche pas",
    "en su navegador",
    "en tu navegador",
    "en el navegador",
    "versión en línea",
    "no puede ver este",
    "no puedes ver este",
    "nel browser",
    "nel tuo browser",
    "versione online",
    "non visualizzi",
    "non riesci a visualizzare",
    "no navegador",
    "no seu navegador",
    "versão online",
    "não consegue visualizar",
    "não conseguir visualizar",
    "in uw browser",
    "in je browser",
    "online versie",
    "bekijk online",
    "i webbläsaren",
    "i din webbläsare",
    "i browseren",
    "i din browser",
    "i nettleseren",
    "w przeglądarce",
    "wersja online",
    "v prohlížeči",
    "в браузере",
    "веб-версия",
    "веб-версию",
    "ブラウザで",
    "在浏览器",
    "在瀏覽器",
    "브라우저에서",
    "tarayıcıda",
    "tarayıcınızda",
];

/// Words beside "HTML" that make a sentence one about the program that is to show it.
const ABOUT_HTML: &[&str] = &[
    "view",
    "read",
    "display",
    "support",
    "capable",
    "compatible",
    "enable",
    "client",
    "program",
    "viewer",
    "format",
    "version",
    "message",
    "mail",
    "anzeig",
    "darstell",
    "unterstütz",
    "lesen",
    "ansicht",
    "nachricht",
    "affich",
    "lire",
    "visualis",
    "lecteur",
    "ver ",
    "leer",
    "mensaje",
    "visualizz",
    "messaggio",
    "mensagem",
    "weergeven",
    "bericht",
    "visa",
    "vise",
    "wyświetl",
    "wiadomo",
    "zobraz",
    "просмотр",
    "письмо",
    "形式",
    "表示",
    "格式",
    "邮件",
];

/// Reports whether a plain text is short enough to be one, so that the HTML has to be looked at.
pub(super) fn may_be(plain: &str) -> bool {
    // A word is a character at least: a long text is none without being counted.
    plain.len() < 64 * WORDS_MAX && words(&without_links(plain)).len() <= WORDS_MAX
}

/// Reports whether a plain text is a stub beside the text of the HTML.
pub(super) fn is(plain: &str, html: &str) -> bool {
    let begins = html.get(..html.floor_char_boundary(HTML_BYTES_MAX));
    let rich = words(&without_links(begins.unwrap_or(html)));
    if rich.len() < HTML_WORDS_MIN {
        return false;
    }
    let own: Vec<String> = sentences(&without_links(plain))
        .iter()
        .filter(|sentence| !speaks_of_html(sentence))
        .flat_map(|sentence| words(sentence))
        .collect();
    if own.is_empty() {
        return true;
    }
    let known: HashSet<&String> = rich.iter().collect();
    let shared = own.iter().filter(|word| known.contains(word)).count();
    let is_shared = shared * 2 >= own.len();
    let has_digit = |word: &String| word.chars().any(|c| c.is_ascii_digit());
    let is_dates = own.len() >= DATE_WORDS_MIN && own.iter().all(has_digit);
    // A short answer under a long signature of HTML stands in both; dates alone lose nothing by their sentence.
    own.len() * TIMES < rich.len() && (!is_shared || is_dates)
}

/// Returns a text without addresses of pages and mail, and without names of pictures in brackets.
fn without_links(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    let mut has_close = true;
    while let Some(open) = rest.find('[') {
        let (before, inside) = rest.split_at(open);
        kept.push_str(before);
        let lower = inside
            .get(..inside.floor_char_boundary(8))
            .unwrap_or_default()
            .to_lowercase();
        let is_picture = ["[image", "[cid:", "[bild", "[inline"]
            .iter()
            .any(|mark| lower.starts_with(mark));
        // What no bracket closes is looked for once.
        let close = match is_picture && has_close {
            true => inside.find(']'),
            false => None,
        };
        rest = match close {
            Some(close) => &inside[close + 1..],
            None => {
                has_close &= !is_picture;
                kept.push('[');
                &inside[1..]
            }
        };
    }
    kept.push_str(rest);
    let is_link = |word: &&str| {
        let lower = word.to_lowercase();
        lower.contains("://") || lower.contains("www.") || word.contains('@')
    };
    let lines = kept.lines().map(|line| {
        let words: Vec<&str> = line
            .split_whitespace()
            .filter(|word| !is_link(word))
            .collect();
        words.join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Splits a text at ends of sentences and at empty lines; a line that goes on is one sentence with the next.
fn sentences(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut chars = text.chars().peekable();
    let mut is_line_empty = true;
    while let Some(c) = chars.next() {
        let is_end = matches!(c, '!' | '?' | '。' | '！' | '？' | '|')
            || (c == '.' && chars.peek().is_none_or(|next| next.is_whitespace()))
            || (c == '\n' && is_line_empty);
        is_line_empty = c == '\n' || (is_line_empty && c.is_whitespace());
        match (is_end, found.last_mut()) {
            (true, _) => found.push(String::new()),
            (false, Some(last)) => last.push(if c.is_whitespace() { ' ' } else { c }),
            (false, None) => {}
        }
    }
    found
}

fn speaks_of_html(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    if words(&lower).len() > SENTENCE_WORDS_MAX {
        return false;
    }
    let is_about_html =
        lower.contains("html") && ABOUT_HTML.iter().any(|word| lower.contains(word));
    is_about_html || PHRASES.iter().any(|phrase| lower.contains(phrase))
}

/// Words in lower case; of scripts without blanks each character is one.
fn words(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut is_open = false;
    for c in text.chars() {
        let is_word_of_its_own =
            c >= '\u{2e80}' && c.is_alphabetic() && !('\u{ac00}'..='\u{d7a3}').contains(&c);
        if is_word_of_its_own {
            found.push(c.to_string());
            is_open = false;
        } else if c.is_alphanumeric() {
            match found.last_mut().filter(|_| is_open) {
                Some(word) => word.extend(c.to_lowercase()),
                None => found.push(c.to_lowercase().collect()),
            }
            is_open = true;
        } else {
            is_open = false;
        }
    }
    found
}
