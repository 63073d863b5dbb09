//! Separates the writer's own text from quoted text.
//!
//! Only history is cut: attributions (`On … wrote:`), the quotes below them, and the copies of
//! earlier mail that Outlook and its kin append. Quotes that are answered line by line stay,
//! shortened, because the answer means nothing without them; forwarded mail stays, because it is
//! the subject of the letter; signatures stay, because they are the writer's, except below the
//! history, where they cannot be told from it.

use crate::mime::body::joined;
use crate::mime::headers::threading::is_forward_subject;

/// An answered quote longer than this is shortened to its last lines.
const QUOTE_LINES_MAX: usize = 8;
const QUOTE_LINES_KEPT: usize = 4;
/// Most lines of an attribution that a mail program wrapped.
const ATTRIBUTION_LINES_MAX: usize = 6;
const ATTRIBUTION_CHARS_MAX: usize = 400;

/// Returns `text` without quoted history; `text` itself when nothing is quoted, or when it holds
/// only quotes.
///
/// Empty only when there is no text at any depth of quoting. A subject that says the mail was
/// forwarded keeps everything.
pub fn fresh_text(text: &str, subject: &str) -> String {
    if is_forward_subject(subject) {
        return text.to_owned();
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut cutter = Cutter {
        lines: &lines,
        kept: Vec::new(),
        has_cut: false,
    };
    cutter.run();
    if !cutter.has_cut {
        return text.to_owned();
    }
    let fresh = joined([cutter.kept.join("\n")]);
    if fresh.is_empty() && holds_words(&lines) {
        text.to_owned()
    } else {
        fresh
    }
}

/// Reports whether there is text at any depth of quoting; attributions do not count.
fn holds_words(lines: &[&str]) -> bool {
    let inner = |line: &&str| {
        line.trim_start_matches(|c: char| c == '>' || c.is_whitespace())
            .to_owned()
    };
    lines
        .iter()
        .map(inner)
        .any(|line| !line.is_empty() && !is_attribution(&line))
}

struct Cutter<'t> {
    lines: &'t [&'t str],
    kept: Vec<&'t str>,
    has_cut: bool,
}

/// Kind of the block that begins at a line.
enum LineKind {
    Own,
    /// An attribution up to this line; the quote follows.
    Attribution(usize),
    /// A copy of an earlier mail follows, to the end.
    Copy,
    /// Forwarded mail follows, to the end.
    Forward,
    /// Quoted lines up to this one.
    Quote(usize),
}

impl<'t> Cutter<'t> {
    fn run(&mut self) {
        let mut at = 0;
        while at < self.lines.len() {
            at = match self.look(at) {
                LineKind::Own => {
                    self.kept.push(self.lines[at]);
                    at + 1
                }
                LineKind::Forward => self.keep_rest(at),
                LineKind::Copy if self.has_own() => self.cut_rest(),
                LineKind::Copy => self.keep_rest(at),
                LineKind::Attribution(end) => self.attribution(end),
                LineKind::Quote(end) => self.quote(at, end),
            };
        }
    }

    fn look(&self, at: usize) -> LineKind {
        let lines = &self.lines[at..];
        if lines[0].trim().is_empty() {
            return LineKind::Own;
        }
        if is_quoted(lines[0]) {
            let run = lines
                .iter()
                .take_while(|l| is_quoted(l) || l.trim().is_empty())
                .count();
            let is_forward = lines[..run]
                .iter()
                .any(|l| is_forward_marker(l.trim_start_matches(['>', ' '])));
            return if is_forward {
                LineKind::Forward
            } else {
                LineKind::Quote(at + run)
            };
        }
        if is_forward_marker(lines[0]) {
            return LineKind::Forward;
        }
        if is_original_marker(lines[0]) || is_header_block(lines) {
            return LineKind::Copy;
        }
        match attribution_lines(lines) {
            Some(count) => LineKind::Attribution(at + count),
            None => LineKind::Own,
        }
    }

    fn has_own(&self) -> bool {
        self.kept.iter().any(|line| !line.trim().is_empty())
    }

    fn keep_rest(&mut self, at: usize) -> usize {
        self.kept.extend_from_slice(&self.lines[at..]);
        self.lines.len()
    }

    /// Drops everything that follows and the ruler that announced it.
    fn cut_rest(&mut self) -> usize {
        self.has_cut = true;
        while self.kept.last().is_some_and(|line| is_ruler(line)) {
            self.kept.pop();
        }
        self.lines.len()
    }

    /// Handles an attribution: a quote with marks follows, or, below own words, an unmarked copy to
    /// the end.
    fn attribution(&mut self, end: usize) -> usize {
        self.has_cut = true;
        let next = self.lines[end..]
            .iter()
            .find(|line| !line.trim().is_empty());
        if self.has_own() && !next.is_some_and(|line| is_quoted(line)) {
            self.cut_rest()
        } else {
            end
        }
    }

    /// Handles a quote: at the end it is history, above own words it is the text that they answer.
    fn quote(&mut self, at: usize, end: usize) -> usize {
        let is_answered = self
            .lines
            .get(end)
            .is_some_and(|line| !is_signature_mark(line));
        if !is_answered && self.has_own() {
            return self.cut_rest();
        }
        let quote = &self.lines[at..end];
        let words = quote.iter().filter(|line| !line.trim().is_empty()).count();
        if words <= QUOTE_LINES_MAX {
            self.kept.extend_from_slice(quote);
        } else if is_answered {
            self.has_cut = true;
            let from = quote
                .iter()
                .rposition(|line| !line.trim().is_empty())
                .unwrap_or(0);
            self.kept.push("> […]");
            self.kept
                .extend_from_slice(&quote[(from + 1).saturating_sub(QUOTE_LINES_KEPT)..]);
        } else if holds_words(quote) {
            self.kept.extend_from_slice(quote);
        } else {
            self.has_cut = true;
        }
        end
    }
}

fn is_quoted(line: &str) -> bool {
    line.trim_start().starts_with('>')
}

/// Reports whether a line is the mark of RFC 3676 section 4.3, or the dash that web mailers use.
fn is_signature_mark(line: &str) -> bool {
    matches!(line.trim(), "--" | "—" | "__")
}

/// Reports whether a line is blank, or drawn with one of the characters that mail programs draw
/// rulers with.
fn is_ruler(line: &str) -> bool {
    line.chars()
        .all(|c| c.is_whitespace() || "-_=*".contains(c))
}

/// Returns the line without the decoration around it, lower case; `None` when it has none.
fn undecorated(line: &str) -> Option<String> {
    let trimmed = line.trim();
    let inner = trimmed.trim_matches(|c: char| c.is_whitespace() || "-_*=".contains(c));
    (inner.len() < trimmed.len()).then(|| inner.to_lowercase())
}

fn is_forward_marker(line: &str) -> bool {
    const MARKERS: [&str; 12] = [
        "forwarded message",
        "begin forwarded message",
        "weitergeleitete nachricht",
        "anfang der weitergeleiteten nachricht",
        "message transféré",
        "début du message transféré",
        "messaggio inoltrato",
        "mensaje reenviado",
        "mensagem encaminhada",
        "doorgestuurd bericht",
        "vidarebefordrat meddelande",
        "пересылаемое сообщение",
    ];
    let bare = line
        .trim()
        .trim_matches(|c: char| c.is_whitespace() || "-_*=:".contains(c));
    bare.chars().count() < line.trim().chars().count()
        && MARKERS.contains(&bare.to_lowercase().as_str())
}

fn is_original_marker(line: &str) -> bool {
    const MARKERS: [&str; 16] = [
        "original message",
        "original appointment",
        "ursprüngliche nachricht",
        "originalnachricht",
        "original-nachricht",
        "message d'origine",
        "message d’origine",
        "mensaje original",
        "mensagem original",
        "messaggio originale",
        "oorspronkelijk bericht",
        "ursprungligt meddelande",
        "oprindelig meddelelse",
        "wiadomość oryginalna",
        "исходное сообщение",
        "原始邮件",
    ];
    undecorated(line).is_some_and(|inner| MARKERS.contains(&inner.as_str()))
}

/// Labels of the sender in the header block of a copy, in the languages of mail programs.
const SENDER_LABELS: [&str; 14] = [
    "from",
    "von",
    "de",
    "da",
    "van",
    "från",
    "fra",
    "od",
    "lähettäjä",
    "kimden",
    "от",
    "发件人",
    "差出人",
    "보낸 사람",
];

/// Labels of the other lines of such a block.
const OTHER_LABELS: [&str; 48] = [
    "sent",
    "date",
    "to",
    "cc",
    "subject",
    "reply-to",
    "gesendet",
    "datum",
    "an",
    "betreff",
    "envoyé",
    "à",
    "objet",
    "enviado",
    "enviado el",
    "fecha",
    "para",
    "asunto",
    "data",
    "assunto",
    "inviato",
    "a",
    "oggetto",
    "risposta",
    "verzonden",
    "aan",
    "onderwerp",
    "skickat",
    "till",
    "ämne",
    "sendt",
    "til",
    "emne",
    "wysłano",
    "do",
    "temat",
    "lähetetty",
    "aihe",
    "gönderildi",
    "kime",
    "konu",
    "отправлено",
    "кому",
    "тема",
    "发送时间",
    "收件人",
    "主题",
    "送信日時",
];

/// Reports whether the lines begin with `From: …` and at least two more header lines, as Outlook
/// writes them.
fn is_header_block(lines: &[&str]) -> bool {
    let label = |line: &str| {
        let bare = line.trim_start_matches(|c: char| c.is_whitespace() || c == '*');
        let (label, _) = bare.split_once([':', '：'])?;
        Some(label.trim_end_matches(['*', ' ', '\u{a0}']).to_lowercase())
    };
    let is_sender = label(lines[0]).is_some_and(|l| SENDER_LABELS.contains(&l.as_str()));
    let below = || {
        lines
            .iter()
            .skip(1)
            .filter(|l| !l.trim().is_empty())
            .take(6)
    };
    is_sender
        && below()
            .filter(|l| label(l).is_some_and(|l| OTHER_LABELS.contains(&l.as_str())))
            .count()
            >= 2
}

/// Returns the number of lines, from the first one on, that form an attribution.
fn attribution_lines(lines: &[&str]) -> Option<usize> {
    let mut text = String::new();
    for (index, line) in lines.iter().take(ATTRIBUTION_LINES_MAX).enumerate() {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(line.trim());
        if text.chars().count() > ATTRIBUTION_CHARS_MAX {
            return None;
        }
        // Own words above an attribution must not be taken for its beginning.
        if index > 0 && !begins_like_attribution(&text) {
            return None;
        }
        if is_attribution(text.trim()) {
            return Some(index + 1);
        }
    }
    None
}

/// Reports whether a text begins with a date, or with the word that a date follows in some
/// language.
fn begins_like_attribution(text: &str) -> bool {
    const LEADS: [&str; 19] = [
        "on", "am", "le", "el", "il", "op", "den", "em", "dnia", "w", "dne", "på", "tir", "pada",
        "vào", "em", "la", "le", "στις",
    ];
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || "-*".contains(c));
    let first = text
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .trim_end_matches(',')
        .to_lowercase();
    let has_early_digit = text.chars().take(40).any(|c| c.is_ascii_digit());
    text.starts_with(|c: char| c.is_ascii_digit())
        || (LEADS.contains(&first.as_str()) && has_early_digit)
}

fn is_attribution(text: &str) -> bool {
    const VERBS: [&str; 30] = [
        "wrote",
        "writes",
        "schrieb",
        "schreef",
        "geschreven",
        "écrit",
        "ecrit",
        "escribió",
        "escribio",
        "ha escrito",
        "escreveu",
        "scritto",
        "scrisse",
        "skrev",
        "napisał",
        "napisala",
        "napsal",
        "napísal",
        "написал",
        "пишет",
        "написав",
        "kirjoitti",
        "yazdı",
        "írta",
        "a scris",
        "έγραψε",
        "写道",
        "寫道",
        "書きました",
        "đã viết",
    ];
    let inner = text.trim_matches(|c: char| c.is_whitespace() || "-_*".contains(c));
    let is_decorated = inner.len() + 4 <= text.len();
    let lower = inner.to_lowercase();
    let says_who = lower.contains('@') || digit_groups(&lower) >= 2;
    let ends =
        lower.ends_with([':', '：']) || (is_decorated && VERBS.iter().any(|v| lower.ends_with(v)));
    // The verb stands near the end, or right after the date where the language puts it there.
    let has_verb = VERBS.iter().any(|verb| lower.contains(verb));
    let is_lead = begins_like_attribution(inner) || lower.contains('@');
    (ends && has_verb && says_who && is_lead) || is_dated_sender(inner)
}

/// Recognises `2016-03-03 17:21 GMT+01:00 Some One <one@a.test>:`, as Gmail wrote it in languages
/// without a verb.
fn is_dated_sender(text: &str) -> bool {
    let date = text.split_whitespace().next().unwrap_or_default();
    let is_iso = date.len() >= 8
        && date.chars().take(4).all(|c| c.is_ascii_digit())
        && digit_groups(date) == 3
        && date
            .chars()
            .all(|c| c.is_ascii_digit() || c == '-' || c == '/');
    let ends =
        text.trim_end_matches(':').ends_with('>') || (text.contains(" GMT") && !text.contains('<'));
    is_iso && ends && text.chars().count() <= 200 && (text.contains('@') || text.contains(" GMT"))
}

fn digit_groups(text: &str) -> usize {
    let groups = text.split(|c: char| !c.is_ascii_digit());
    groups.filter(|group| !group.is_empty()).count()
}
