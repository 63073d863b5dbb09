//! Separates the writer's own text from quoted text.
//!
//! Only history is cut: attributions (`On … wrote:`), the quotes below them, and the copies of
//! earlier mail that Outlook and its kin append. Quotes that are answered line by line stay,
//! shortened, because the answer means nothing without them; forwarded mail stays, because it is
//! the subject of the letter; signatures stay, because they are the writer's, except below the
//! history, where they cannot be told from it.
//!
//! A line above a quotation is the writer's unless it is an attribution for certain: an answer that
//! is lost is worse than an attribution that stays. What was cut is kept as [`Quotation`]s, and
//! [`with_unknown`] puts back what a thread does not hold.

use crate::domain::Quotation;
use crate::mime::body::joined;
use crate::mime::headers::threading::{folded, is_forward_subject};
use std::collections::HashSet;

/// An answered quote longer than this is shortened to its last lines.
const QUOTE_LINES_MAX: usize = 8;
const QUOTE_LINES_KEPT: usize = 4;
/// Most lines of an attribution that a mail program wrapped.
const ATTRIBUTION_LINES_MAX: usize = 4;
const ATTRIBUTION_CHARS_MAX: usize = 400;
/// Quoted lines of a letter that are looked up in a thread; those behind them count as unknown.
const LOOKED_UP_MAX: usize = 4_000;
/// Bytes that are searched for quoted lines which are no lines of the thread; then a block is judged by its lines before.
const SOUGHT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Shorter lines, such as `yes`, stand in letters again and again.
const TELLING_BYTES_MIN: usize = 20;
/// Lines below an attribution alone by which it is judged.
const BELOW_MAX: usize = 32;
/// Stands for lines that were cut between others.
const GAP: &str = "> […]";

/// Returns `text` without quoted history; `text` itself when nothing is quoted, or when it holds
/// only quotes.
///
/// Empty only when there is no text at any depth of quoting. A subject that says the mail was
/// forwarded keeps everything.
pub fn fresh_text(text: &str, subject: &str) -> String {
    split(text, subject).0
}

/// Returns what [`fresh_text`] does, and what was cut.
pub fn split(text: &str, subject: &str) -> (String, Vec<Quotation>) {
    if is_forward_subject(subject) {
        return (text.to_owned(), Vec::new());
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut cutter = Cutter::new(&lines);
    cutter.run();
    if cutter.cut.is_empty() {
        return (text.to_owned(), Vec::new());
    }
    let blank = cutter.kept.iter().take_while(|line| line.trim().is_empty());
    let blank = blank.count();
    let fresh = joined([cutter.kept.join("\n")]);
    if fresh.is_empty() && holds_words(&lines) {
        return (text.to_owned(), Vec::new());
    }
    let mut cut = cutter.cut;
    cut.iter_mut()
        .for_each(|quotation| quotation.at = quotation.at.saturating_sub(blank));
    (fresh, cut)
}

/// Returns a text in which each character of a line that its writer quotes or forwards is U+FFFD, so
/// that places in it are those in the text.
pub fn own_words(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut cutter = Cutter::new(&lines);
    cutter.run();
    let own = cutter.own;
    let mut is_own = own.into_iter();
    let blanked = |line: &str| {
        line.chars()
            .map(|c| if c == '\n' { c } else { '\u{fffd}' })
            .collect()
    };
    text.split_inclusive('\n')
        .map(|line| match is_own.next() {
            Some(false) => blanked(line),
            _ => line.to_owned(),
        })
        .collect()
}

/// Puts back, into a fresh text, the quoted lines that none of `thread` holds, each behind a `>`: the
/// letter that they quote never came here. `None`: nothing of what was quoted is held, so the whole
/// text is to be read.
pub fn with_unknown(
    fresh: &str,
    text: &str,
    quotations: &[Quotation],
    thread: &[String],
) -> Option<String> {
    let mut known = ThreadLines::from_texts(thread);
    let mut lines = text.lines();
    let (mut read, mut shown) = (0, 0);
    let mut own = fresh.lines();
    let (mut whole, mut any_held) = (String::new(), false);
    for quotation in quotations {
        let place = &quotation.lines;
        let above = own.by_ref().take(quotation.at.saturating_sub(shown));
        above.for_each(|line| push_line(&mut whole, line));
        shown = quotation.at.max(shown);
        let quoted: Vec<&str> = lines
            .by_ref()
            .skip(place.start.saturating_sub(read))
            .take(place.len())
            .collect();
        read = place.end;
        let below = own.clone().take(BELOW_MAX);
        let below = below.skip_while(|line| line.trim().is_empty());
        let below = below.take_while(|line| is_quoted(line));
        let (back, is_held) = known.unknown_lines(&quoted, below);
        any_held |= is_held;
        let above = whole.lines().next_back();
        if !back.is_empty() && above.is_some_and(|line| !line.trim().is_empty()) {
            push_line(&mut whole, "");
        }
        whole.push_str(&back);
    }
    own.for_each(|line| push_line(&mut whole, line));
    whole.pop();
    any_held.then_some(whole)
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// What the letters of a thread say, to be searched for quoted lines, and how much may still be searched.
struct ThreadLines {
    /// Their lines, [`squeezed`].
    lines: HashSet<String>,
    /// The same in order, each long one once, for lines that a program wrapped anew.
    text: String,
    lines_left: usize,
    bytes_left: usize,
}

impl ThreadLines {
    fn from_texts(thread: &[String]) -> Self {
        let mut known = Self {
            lines: HashSet::new(),
            text: String::new(),
            lines_left: LOOKED_UP_MAX,
            bytes_left: SOUGHT_BYTES_MAX,
        };
        for text in thread {
            for line in text.lines().map(squeezed) {
                if line.len() < TELLING_BYTES_MIN || !known.lines.contains(&line) {
                    known.text.push_str(&line);
                } else if !known.text.ends_with('\n') {
                    // A letter quotes those before it: their lines are here already.
                    known.text.push('\n');
                }
                known.lines.insert(line);
            }
            known.text.push('\n');
        }
        known
    }

    /// Reports whether the thread holds a line of a block of which `size` bytes are judged, `unknown` of them unknown.
    fn holds(&mut self, line: &str, size: usize, unknown: usize) -> bool {
        if self.lines_left == 0 {
            return line.is_empty();
        }
        self.lines_left -= 1;
        let line = squeezed(line);
        if line.is_empty() || self.lines.contains(&line) {
            return true;
        }
        match self.bytes_left.checked_sub(self.text.len()) {
            Some(left) => {
                self.bytes_left = left;
                self.text.contains(&line)
            }
            None => size > 0 && unknown * 2 <= size,
        }
    }

    /// Returns the lines of a quotation that are to be put back, with the attributions above them, and whether any stay out. A
    /// block of which most is not held is put back whole, also lines so short that any text has them; an attribution alone,
    /// above quotes that stay, where those are not held.
    fn unknown_lines<'q>(
        &mut self,
        lines: &[&str],
        mut below: impl Iterator<Item = &'q str>,
    ) -> (String, bool) {
        let put_back = |back: &mut String, line: &str| {
            if !is_quoted(line) {
                back.push_str(if line.trim().is_empty() { ">" } else { "> " });
            }
            push_line(back, line.trim_end());
        };
        let inner: Vec<&str> = lines.iter().map(|line| unmarked(line)).collect();
        let (mut back, mut any_held) = (String::new(), false);
        let (mut at, mut head) = (0, 0..0);
        while at < inner.len() {
            let header = self.head_lines(&inner[at..]);
            if header > 0 {
                at += header;
                head.end = at;
                continue;
            }
            let first = at;
            let (mut size, mut unknown, mut verdicts) = (0, 0, Vec::new());
            while at < inner.len() && (at == first || self.head_lines(&inner[at..]) == 0) {
                let held = self.holds(inner[at], size, unknown);
                size += inner[at].len();
                unknown += if held { 0 } else { inner[at].len() };
                verdicts.push(held);
                at += 1;
            }
            any_held |= unknown * 2 <= size && size > 0;
            if unknown > 0 {
                lines[head]
                    .iter()
                    .for_each(|line| put_back(&mut back, line));
                let whole = unknown * 2 > size;
                for (line, held) in lines[first..at].iter().zip(verdicts) {
                    if whole || !held {
                        put_back(&mut back, line);
                    } else if !back.is_empty()
                        && back.lines().next_back() != Some(GAP)
                        && !unmarked(line).is_empty()
                    {
                        push_line(&mut back, GAP);
                    }
                }
            }
            head = at..at;
        }
        let is_unknown = |line: &str| line != GAP && !self.holds(unmarked(line), 0, 0);
        if head.len() == inner.len() && !below.any(is_unknown) {
            any_held = true;
        } else if head.len() == inner.len() {
            lines[head]
                .iter()
                .for_each(|line| put_back(&mut back, line));
        }
        (back, any_held)
    }

    /// [`head_lines`], of lines that are looked up.
    fn head_lines(&self, lines: &[&str]) -> usize {
        match self.lines_left {
            0 => 0,
            _ => head_lines(lines),
        }
    }
}

/// Returns the number of lines of the attribution or of the header block that begins here.
fn head_lines(lines: &[&str]) -> usize {
    if lines[0].trim().is_empty() {
        return 0;
    }
    if is_original_marker(lines[0]) || is_ruler(lines[0]) {
        return 1;
    }
    if is_header_block(lines) {
        return lines
            .iter()
            .take_while(|line| header_label(line).is_some_and(is_known_label))
            .count();
    }
    attribution_lines(lines).unwrap_or(0)
}

/// Letters and digits in lower case, without what programs change: blanks, line ends, marks.
fn squeezed(text: &str) -> String {
    text.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

/// Reports whether there is text at any depth of quoting; attributions do not count.
fn holds_words(lines: &[&str]) -> bool {
    let mut inner = lines.iter().map(|line| unmarked(line));
    inner.any(|line| !line.is_empty() && !is_attribution(line, true))
}

/// Returns a line without the marks of quoting before it.
fn unmarked(line: &str) -> &str {
    line.trim_start_matches(|c: char| c == '>' || c.is_whitespace())
}

struct Cutter<'t> {
    lines: &'t [&'t str],
    kept: Vec<&'t str>,
    cut: Vec<Quotation>,
    /// For each line, whether its writer wrote it.
    own: Vec<bool>,
    /// Whether a line that is kept has words.
    has_own: bool,
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
    fn new(lines: &'t [&'t str]) -> Self {
        Self {
            lines,
            kept: Vec::new(),
            cut: Vec::new(),
            own: vec![false; lines.len()],
            has_own: false,
        }
    }

    fn run(&mut self) {
        let mut at = 0;
        while at < self.lines.len() {
            at = match self.look(at) {
                LineKind::Own => {
                    self.keep(at, at + 1);
                    self.own[at] = true;
                    at + 1
                }
                LineKind::Forward => self.keep_rest(at),
                LineKind::Copy if self.has_own => self.cut_rest(at, at),
                LineKind::Copy => self.keep_rest(at),
                LineKind::Attribution(end) => self.attribution(at, end),
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

    fn keep(&mut self, from: usize, to: usize) {
        let kept = &self.lines[from..to];
        self.has_own = self.has_own || kept.iter().any(|line| !line.trim().is_empty());
        self.kept.extend_from_slice(kept);
    }

    fn keep_rest(&mut self, at: usize) -> usize {
        self.keep(at, self.lines.len());
        self.lines.len()
    }

    /// Notes lines that are left out.
    fn cut(&mut self, from: usize, to: usize, attribution: usize) {
        self.cut.push(Quotation {
            at: self.kept.len(),
            lines: from..to,
            attribution,
        });
    }

    /// Drops everything from a line on, and the ruler that announced it; up to `quoted` stands an
    /// attribution.
    fn cut_rest(&mut self, from: usize, quoted: usize) -> usize {
        while self.kept.last().is_some_and(|line| is_ruler(line)) {
            self.kept.pop();
        }
        self.cut(from, self.lines.len(), quoted - from);
        self.lines.len()
    }

    /// Handles an attribution: a quote with marks follows, or, below own words, an unmarked copy to
    /// the end.
    fn attribution(&mut self, at: usize, end: usize) -> usize {
        if self.has_own && !is_marked(&self.lines[end..]) {
            return self.cut_rest(at, end);
        }
        let next = (end..self.lines.len()).find(|next| !self.lines[*next].trim().is_empty());
        let Some(next) = next.filter(|_| self.has_own) else {
            self.cut(at, end, end - at);
            return end;
        };
        // A quote at the end goes with its attribution.
        let LineKind::Quote(last) = self.look(next) else {
            self.cut(at, end, end - at);
            return end;
        };
        match self.is_answered(last) {
            true => {
                self.cut(at, end, end - at);
                end
            }
            false => self.cut_rest(at, end),
        }
    }

    fn is_answered(&self, end: usize) -> bool {
        let below = self.lines.get(end);
        below.is_some_and(|line| !is_signature_mark(line))
    }

    /// Handles a quote: at the end it is history, above own words it is the text that they answer.
    fn quote(&mut self, at: usize, end: usize) -> usize {
        let is_answered = self.is_answered(end);
        if !is_answered && self.has_own {
            return self.cut_rest(at, at);
        }
        let quote = &self.lines[at..end];
        let words = quote.iter().filter(|line| !line.trim().is_empty()).count();
        if words <= QUOTE_LINES_MAX || !is_answered && holds_words(quote) {
            self.keep(at, end);
        } else if is_answered {
            let last = quote
                .iter()
                .rposition(|line| !line.trim().is_empty())
                .unwrap_or(0);
            let shown = at + (last + 1).saturating_sub(QUOTE_LINES_KEPT);
            self.cut(at, shown, 0);
            self.kept.push(GAP);
            self.keep(shown, end);
        } else {
            self.cut(at, end, 0);
        }
        end
    }
}

/// Reports whether the first words below are marked as a quote.
fn is_marked(below: &[&str]) -> bool {
    let next = below.iter().find(|line| !line.trim().is_empty());
    next.is_some_and(|line| is_quoted(line))
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

/// What Gmail, Apple Mail, Thunderbird and their kin write above a forwarded letter, in lower case.
const FORWARD_MARKERS: &str = "forwarded message|begin forwarded message|forwarded email|weitergeleitete nachricht|\
    anfang der weitergeleiteten nachricht|weitergeleitete e-mail|message transféré|\
    début du message transféré|début du message réexpédié|message réexpédié|courriel transféré|\
    messaggio inoltrato|inizio messaggio inoltrato|mensaje reenviado|inicio del mensaje reenviado|\
    comienzo del mensaje reenviado|mensagem encaminhada|mensagem reencaminhada|\
    início da mensagem encaminhada|início da mensagem reencaminhada|doorgestuurd bericht|\
    begin doorgestuurd bericht|vidarebefordrat meddelande|vidarebefordrat brev|\
    start på vidarebefordrat brev|videresendt meddelelse|videresendt besked|start på videresendt besked|\
    videresendt melding|begynnelse på videresendt melding|start på videresendt melding|välitetty viesti|\
    välitetty viesti alkaa|edelleenlähetetty viesti|przekazana wiadomość|treść przekazanej wiadomości|\
    początek przekazywanej wiadomości|początek przekazanej wiadomości|wiadomość przekazana dalej|\
    přeposlaná zpráva|začátek přeposílané zprávy|začátek přeposlané zprávy|preposlaná správa|\
    začiatok preposlanej správy|továbbított üzenet|továbbított levél kezdete|mesaj redirecționat|\
    mesaj transmis mai departe|mesaj trimis mai departe|începutul mesajului redirecționat|\
    proslijeđena poruka|započni proslijeđenu poruku|προωθημένο μήνυμα|έναρξη προωθημένου μηνύματος|\
    пересылаемое сообщение|перенаправленное сообщение|начало переадресованного сообщения|\
    начало пересылаемого сообщения|переслане повідомлення|початок листа, що пересилається|iletilen ileti|\
    iletilmiş mesaj|yönlendirilmiş ileti|ileti başlangıcı|転送メッセージ|転送されたメッセージ|転送メール|转发的消息|转发邮件|轉寄郵件|轉寄的郵件|\
    전달된 메시지|전달된 메일|הודעה שהועברה|رسالة معاد توجيهها";

fn is_forward_marker(line: &str) -> bool {
    let bare = line
        .trim()
        .trim_matches(|c: char| c.is_whitespace() || "-_*=:：".contains(c));
    bare.chars().count() < line.trim().chars().count() && lists(FORWARD_MARKERS, &folded(bare))
}

/// What Outlook and its kin write above a copy of the letter that is answered.
const ORIGINAL_MARKERS: &str = "original message|original appointment|ursprüngliche nachricht|originalnachricht|original-nachricht|\
    message d'origine|message d’origine|mensaje original|mensagem original|messaggio originale|\
    oorspronkelijk bericht|ursprungligt meddelande|oprindelig meddelelse|wiadomość oryginalna|\
    исходное сообщение|原始邮件|originál zprávy|původní zpráva|pôvodná správa|alkuperäinen viesti|\
    opprinnelig melding|eredeti üzenet|mesaj original|izvorna poruka|αρχικό μήνυμα|özgün ileti|\
    оригінальне повідомлення|元のメッセージ|원본 메시지|הודעה מקורית";

/// Reports whether a list, whose members stand between strokes, holds a word.
fn lists(list: &str, word: &str) -> bool {
    list.split('|').any(|member| member == word)
}

fn is_original_marker(line: &str) -> bool {
    undecorated(line).is_some_and(|inner| lists(ORIGINAL_MARKERS, &inner))
}

/// Labels of the sender in the header block of a copy, in the languages of mail programs.
const SENDER_LABELS: &str = "from|von|de|da|van|från|fra|od|lähettäjä|kimden|gönderen|feladó|de la|expéditeur|mittente|afzender|\
    šalje|pošiljatelj|από|від|от|发件人|寄件者|差出人|보낸 사람|보낸사람|מאת|من";

/// Labels of the date.
const DATE_LABELS: &str = "sent|date|gesendet|datum|envoyé|enviado|enviado el|enviada em|enviado em|fecha|data|inviato|verzonden|\
    skickat|sendt|dato|wysłano|lähetetty|päivämäärä|päiväys|gönderildi|gönderme tarihi|tarih|elküldve|dátum|\
    trimis|odesláno|odoslané|poslano|στάλθηκε|ημερομηνία|надіслано|дата|отправлено|发送时间|日期|寄件日期|送信日時|日付|\
    보낸 날짜|날짜|보낸날짜|נשלח|תאריך|تاريخ الإرسال|التاريخ";

/// Labels of the subject.
const SUBJECT_LABELS: &str = "subject|betreff|objet|asunto|assunto|oggetto|onderwerp|ämne|emne|temat|aihe|konu|tárgy|subiect|předmět|\
    predmet|θέμα|тема|主题|主旨|件名|제목|נושא|الموضوع";

/// Labels of the other lines of such a block.
const OTHER_LABELS: &str = "to|cc|reply-to|importance|an|à|a|para|risposta|aan|till|kopia|til|kopi|do|dw|vastaanottaja|kopio|kime|\
    bilgi|címzett|másolatot kap|către|komu|kopie|kopija|prima|προς|кому|копия|копія|收件人|收件者|抄送|副本|宛先|받는 사람|\
    받는사람|참조|אל|עותק|إلى";

fn header_label(line: &str) -> Option<String> {
    let bare = line.trim_start_matches(|c: char| c.is_whitespace() || c == '*');
    let (label, _) = bare.split_once([':', '：'])?;
    Some(label.trim_end_matches(['*', ' ', '\u{a0}']).to_lowercase())
}

fn is_known_label(label: String) -> bool {
    let all = [SENDER_LABELS, DATE_LABELS, SUBJECT_LABELS, OTHER_LABELS];
    all.iter().any(|list| lists(list, &label))
}

/// Reports whether the lines begin with `From: …`, a date and a subject, as Outlook writes them. A
/// sender with an address needs two other lines of the kind; `From: Berlin`, `To: Munich` and a date
/// are a journey.
fn is_header_block(lines: &[&str]) -> bool {
    let is = |list, line| header_label(line).is_some_and(|label| lists(list, &label));
    if !is(SENDER_LABELS, lines[0]) {
        return false;
    }
    let below = || {
        let words = lines.iter().skip(1).filter(|line| !line.trim().is_empty());
        words.take(6)
    };
    let is_dated = below().any(|line| is(DATE_LABELS, line) && line.chars().any(char::is_numeric));
    let has_subject = below().any(|line| is(SUBJECT_LABELS, line));
    let labelled = below().filter(|line| header_label(line).is_some_and(is_known_label));
    is_dated && has_subject || lines[0].contains('@') && labelled.count() >= 2
}

/// Returns the number of lines, from the first one on, that form an attribution.
///
/// The fewest last lines that are one by themselves are it: what stands above them is the writer's.
fn attribution_lines(lines: &[&str]) -> Option<usize> {
    let end = lines
        .iter()
        .take(ATTRIBUTION_LINES_MAX)
        .take_while(|line| !line.trim().is_empty() && !is_quoted(line));
    let end = end.count();
    for count in 1..=end {
        // A cheap look first: a letter may have a hundred thousand lines.
        if !may_end_attribution(lines[count - 1]) {
            continue;
        }
        let whole = one_line(&lines[..count]);
        if whole.chars().count() > ATTRIBUTION_CHARS_MAX {
            return None;
        }
        let marked = is_marked(&lines[count..]);
        if !is_attribution(&whole, marked) {
            continue;
        }
        let begins_below = (1..count).any(|first| {
            let tail = one_line(&lines[first..count]);
            (is_dated(&tail) || has_year(&tail)) && is_attribution(&tail, marked)
        });
        let is_it = count == 1 || !begins_below && begins_attribution(lines[0]);
        return is_it.then_some(count);
    }
    None
}

/// Reports whether a line may be the last of an attribution: it ends with a colon, with an address or with strokes, or has the
/// zone by which [`is_dated_sender`] knows it.
fn may_end_attribution(line: &str) -> bool {
    let bare = line.trim_end_matches(is_noise);
    bare.ends_with([':', '：', '>']) || bare.len() < line.trim_end().len() || line.contains(" GMT")
}

/// Reports whether a character stands around an attribution and says nothing: blanks, strokes, marks of direction.
fn is_noise(c: char) -> bool {
    c.is_whitespace()
        || "-_*".contains(c)
        || ('\u{200e}'..='\u{200f}').contains(&c)
        || ('\u{202a}'..='\u{202e}').contains(&c)
        || ('\u{2066}'..='\u{2069}').contains(&c)
}

fn one_line(lines: &[&str]) -> String {
    let trimmed: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
    trimmed.join(" ")
}

/// Reports whether a line may be the first of an attribution that a program wrapped: it begins with a
/// date, or with a name, an address and a verb; no sentence ends there.
fn begins_attribution(line: &str) -> bool {
    let line = line.trim();
    let last = line.split_whitespace().last().unwrap_or_default();
    let is_short = last.chars().count() <= 5 || last.chars().any(|c| c.is_ascii_digit());
    let ends_sentence = line.ends_with(['!', '?', ';', ':']) || line.ends_with('.') && !is_short;
    let names_writer = line.contains('@') && has_verb(&line.to_lowercase());
    !ends_sentence && (is_dated(line) || names_writer)
}

/// Words of writing in attributions.
const VERBS: &str = "wrote|writes|schrieb|schreef|geschreven|geschrieben|écrit|ecrit|escribió|escribio|ha escrito|escreveu|\
    scritto|scrisse|skrev|napisał|napisala|napsal|napísal|napisao|написал|пишет|написав|пише|kirjoitti|\
    yazdı|şunları yazdı|írta|ezt írta|a scris|έγραψε|写道|寫道|書きました|작성|đã viết|menulis|כתב|كتب|เขียนว่า|\
    kirjutas|rakstīja|rašė|je napisal|pisze|napisana przez";

fn has_verb(lower: &str) -> bool {
    VERBS.split('|').any(|verb| lower.contains(verb))
}

/// Reports whether a text is an attribution, in one line; `is_marked`: a marked quote follows.
///
/// It ends with a colon, or stands between strokes and ends with a verb. It has a date at its
/// beginning or beside an address; without a date it needs an address, a verb and a marked quote.
fn is_attribution(text: &str, is_marked: bool) -> bool {
    let inner = text.trim_matches(is_noise);
    let is_decorated = inner.len() + 4 <= text.len();
    let lower = inner.to_lowercase();
    let ends = lower.ends_with([':', '：'])
        || (is_decorated && VERBS.split('|').any(|verb| lower.ends_with(verb)));
    let (verb, address) = (has_verb(&lower), lower.contains('@'));
    let says_who_and_when = is_dated(inner)
        && (verb || address && (is_marked || lower.contains('<')))
        || address && verb && (is_marked || has_year(inner) && lower.contains('<'));
    ends && says_who_and_when || is_dated_sender(inner)
}

/// Reports whether a text begins with a date: a year, or a time, and a day among its first words.
fn is_dated(text: &str) -> bool {
    let text = text.trim_start_matches(|c: char| !c.is_alphanumeric());
    let words: Vec<&str> = text.split_whitespace().take(16).collect();
    let numbers = |word: &str| -> Vec<String> {
        let groups = word.split(|c: char| !c.is_ascii_digit());
        groups
            .filter(|group| !group.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let is_day = |number: &String| {
        number
            .parse::<u32>()
            .is_ok_and(|day| (1..=31).contains(&day))
    };
    let is_time = |word: &&str| {
        let digits = word.trim_matches(|c: char| !c.is_ascii_digit());
        let parts: Vec<&str> = digits.split([':', '.', 'h']).collect();
        parts.len() >= 2 && parts.iter().all(|part| (1..=2).contains(&part.len()))
    };
    // Numeric dates, also `2026年11月27日`, hold a day and a year in one word.
    let begins = words
        .iter()
        .take(5)
        .any(|word| !is_clock(word) && numbers(word).iter().any(is_day));
    let year = words
        .iter()
        .any(|word| numbers(word).iter().any(|n| is_year(n)));
    let short_date = words
        .iter()
        .take(5)
        .any(|word| numbers(word).len() == 3 && !word.contains(':'));
    begins && (year || short_date || words.iter().any(is_time))
}

/// Reports whether a word is a time of day with a colon.
fn is_clock(word: &str) -> bool {
    let digits = word.trim_matches(|c: char| !c.is_ascii_digit());
    digits
        .split_once(':')
        .is_some_and(|(hour, _)| hour.len() <= 2)
}

fn is_year(number: &str) -> bool {
    number.len() == 4 && (number.starts_with("19") || number.starts_with("20"))
}

fn has_year(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_digit()).any(is_year)
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
