//! What stands round a letter in the text of a model: marks of a chat template, frames of ours, a fence, header fields, a
//! sentence about the draft. Pure.

/// Returns a text without what is round it.
pub fn unframed(text: &str) -> String {
    let mut letter = without_turns(text);
    letter = without_frames(&letter);
    letter = without_label(&unwrapped(&letter));
    // A draft may stand in a fence below a sentence about it, with a subject inside.
    for _ in 0..3 {
        letter = unfenced(&letter).to_owned();
        letter = without_headers(without_preamble(&letter)).to_owned();
    }
    letter.trim_matches(is_blank).to_owned()
}

/// Begins of a turn in chat templates, in lower case.
const TURN_BEGINS: &[&str] = &[
    "<|im_start|>assistant",
    "<|im_start|>user",
    "<|im_start|>system",
    "<|im_start|>",
    "<|start_header_id|>assistant<|end_header_id|>",
    "<|start_header_id|>user<|end_header_id|>",
    "<|begin_of_text|>",
    "<|start|>assistant",
    "<|channel|>final",
    "<|message|>",
    "<|assistant|>",
    "<|user|>",
    "<|system|>",
    "<start_of_turn>model",
    "<start_of_turn>user",
    "<|turn>model",
    "<|turn>user",
    "<｜assistant｜>",
    "<｜user｜>",
    "<｜begin▁of▁sentence｜>",
    "<|start_of_turn_token|>",
    "<|chatbot_token|>",
    "[inst]",
    "<bos>",
];
/// Ends of a turn: what follows is the model playing somebody else.
const TURN_ENDS: &[&str] = &[
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|return|>",
    "<|end_of_turn_token|>",
    "<end_of_turn>",
    "<turn|>",
    "<｜end▁of▁sentence｜>",
    "<eos>",
    "[/inst]",
];

/// Begins of a turn of the person who asks, each with the begin of the turn that answers it, in lower case.
const ASKING_TURNS: &[(&str, &str)] = &[
    ("<|im_start|>user", "<|im_start|>assistant"),
    ("<|im_start|>system", "<|im_start|>assistant"),
    (
        "<|start_header_id|>user<|end_header_id|>",
        "<|start_header_id|>assistant<|end_header_id|>",
    ),
    ("<|user|>", "<|assistant|>"),
    ("<|system|>", "<|assistant|>"),
    ("<start_of_turn>user", "<start_of_turn>model"),
    ("<|turn>user", "<|turn>model"),
    ("<｜user｜>", "<｜assistant｜>"),
    ("[inst]", "[/inst]"),
    ("### instruction", "### response:"),
    ("user:", "\nassistant:"),
    ("human:", "\nassistant:"),
];

/// Returns the first turn of a text that has marks of a chat template; where a model repeats the question first, the answer.
fn without_turns(text: &str) -> String {
    let low = text.to_ascii_lowercase();
    let begin = low.trim_start_matches(is_blank).trim_start_matches("<s>");
    let begin = begin.trim_start_matches(is_blank);
    let mut asking = ASKING_TURNS.iter();
    let answer = asking.find_map(|(asks, answers)| {
        let at = low.rfind(answers).filter(|_| begin.starts_with(asks))?;
        text.get(at + answers.len()..)
    });
    if let Some(answer) = answer.filter(|answer| !answer.trim_matches(is_blank).is_empty()) {
        return without_turns(answer);
    }
    let mut at = 0;
    loop {
        at += low[at..].len() - low[at..].trim_start_matches(is_blank).len();
        let rest = &low[at..];
        let begins = TURN_BEGINS
            .iter()
            .chain(TURN_ENDS)
            .chain(&["<s>", "assistant:"]);
        // `<s>12</s>` is struck out.
        let begins = begins.filter(|mark| {
            **mark != "<s>" || !low.trim_end().trim_end_matches("</s>").contains("</s>")
        });
        match begins
            .filter(|mark| rest.starts_with(**mark))
            .map(|mark| mark.len())
            .max()
        {
            Some(length) => at += length,
            None => break,
        }
    }
    let rest = &low[at..];
    // Most letters have neither of the characters with which every mark begins.
    let may_have_marks = rest.contains(['<', '[']);
    let marks = TURN_ENDS.iter().chain(TURN_BEGINS);
    let marks = marks.filter(|_| may_have_marks);
    let end = marks.filter_map(|mark| {
        rest.match_indices(mark)
            .map(|(found, _)| found)
            .take(64)
            .find(|found| !is_code(rest, *found))
    });
    let end = end.min().unwrap_or(rest.len());
    let turn = text[at..at + end].trim_end_matches(is_blank);
    match turn.strip_suffix("</s>") {
        Some(before) if !before.contains("<s>") => before.to_owned(),
        _ => turn.to_owned(),
    }
}

/// Reports whether a place is in a fence or between backticks of its line.
fn is_code(text: &str, at: usize) -> bool {
    let before = &text[..at];
    let line = before.rfind('\n').map_or(0, |newline| newline + 1);
    let is_fenced = before
        .lines()
        .filter(|line| line.trim_start().starts_with("```"))
        .count()
        % 2
        == 1;
    // A mark right behind a closing fence is outside of it.
    let line = before[line..].trim_start();
    is_fenced || !line.starts_with("```") && line.matches('`').count() % 2 == 1
}

/// Frames of the engine whose content is nobody's answer.
const FRAMES: &[&str] = &["invocation", "knowledge", "notes", "thread-summary", "task"];

/// Returns a text without frames and notes of the engine that a model repeats. A letter in our frame, and nothing else, is
/// taken out of it.
fn without_frames(text: &str) -> String {
    let mut kept = text.to_owned();
    for frame in FRAMES {
        kept = without_element(&kept, frame);
    }
    let outside = without_element(&kept, "letter");
    let kept = match outside.trim_matches(is_blank).is_empty() {
        false => outside,
        true => kept
            .lines()
            .filter(|line| {
                !matches!(line.trim(), "<letter>" | "</letter>")
                    && !line.trim().starts_with("<letter ")
            })
            .collect::<Vec<_>>()
            .join("\n"),
    };
    let lines = kept.lines().filter(|line| !is_of_engine(line));
    let mut kept = lines.collect::<Vec<_>>().join("\n");
    for sentence in ENGINE_SENTENCES {
        while let Some(at) = kept.find(sentence) {
            kept.replace_range(at..at + sentence.len(), "");
        }
    }
    kept
}

/// Sentences that only the engine says, and that a model repeats without their mark.
const ENGINE_SENTENCES: &[&str] = &[
    "Your answer was cut off at its length limit.",
    "Go on exactly where it stopped, without repeating anything, and come to an end soon.",
    "You ended without a word, and nothing has been sent.",
];

/// Reports whether a line is a note of the engine, or a line of the frame round a letter.
fn is_of_engine(line: &str) -> bool {
    let line = line.trim().trim_matches('*').to_lowercase();
    line.starts_with("[engine]")
        || line.contains("anybody can write that name")
        || line == "sender: contact (proven)"
        || line == "sender: owner (proven)"
        || line == "trigger: email"
        || line == "trigger: schedule"
}

/// Reports whether a mark of a frame of ours stands in what is left of a text, outside of code.
pub fn has_frame(text: &str) -> bool {
    FRAMES.iter().chain(&["letter"]).any(|frame| {
        [
            format!("<{frame}>"),
            format!("<{frame} "),
            format!("</{frame}>"),
        ]
        .iter()
        .any(|mark| {
            let mut found = text.match_indices(mark.as_str()).take(64);
            found.any(|(at, _)| !is_code(text, at))
        })
    })
}

/// Returns a text without an element that begins a line; one that never ends goes to the end of the text.
fn without_element(text: &str, name: &str) -> String {
    let (mut kept, mut is_inside) = (String::with_capacity(text.len()), false);
    let mut is_fenced = false;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        is_fenced ^= trimmed.starts_with("```") && !is_inside;
        let opens = trimmed
            .strip_prefix('<')
            .and_then(|rest| rest.strip_prefix(name));
        is_inside |= !is_fenced && opens.is_some_and(|rest| rest.starts_with(['>', ' ']));
        match (is_inside, trimmed.split_once(&format!("</{name}>"))) {
            (false, _) => kept.push_str(line),
            (true, Some((_, after))) => {
                is_inside = false;
                kept.push_str(after);
                kept.push('\n');
            }
            (true, None) => {}
        }
    }
    kept
}

/// Returns what follows the first backticks of a text between fences, and its content.
pub fn fenced(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix("```")?.strip_suffix("```")?;
    inner.split_once('\n')
}

/// Returns the content of a text that is one fence.
fn unfenced(text: &str) -> &str {
    let Some((info, inner)) = fenced(text.trim_matches(is_blank)) else {
        return text;
    };
    let is_text = matches!(
        info.trim().to_ascii_lowercase().as_str(),
        "" | "text"
            | "txt"
            | "plaintext"
            | "plain"
            | "markdown"
            | "md"
            | "email"
            | "eml"
            | "mail"
            | "letter"
    );
    match is_text && !inner.contains("```") {
        true => inner,
        false => text,
    }
}

/// Elements that models set round an answer, and members of an object that hold their reasoning.
const WRAPPERS: &[&str] = &[
    "response",
    "answer",
    "reply",
    "output",
    "result",
    "final",
    "final_answer",
    "message",
    "email",
    "mail",
    "text",
    "body",
    "content",
];
const REASONING: &[&str] = &[
    "thought",
    "thoughts",
    "thinking",
    "reasoning",
    "analysis",
    "plan",
    "scratchpad",
];

/// Returns a text without the elements round all of it, a string of JSON as its content, and without an object or a fence
/// above it that holds reasoning.
fn unwrapped(text: &str) -> String {
    let mut text = text.trim_matches(is_blank).to_owned();
    for _ in 0..3 {
        let inner = WRAPPERS.iter().find_map(|name| {
            let inner = text.strip_prefix(&format!("<{name}>"))?;
            inner.strip_suffix(&format!("</{name}>"))
        });
        let Some(inner) = inner else { break };
        text = inner.trim_matches(is_blank).to_owned();
    }
    if text.starts_with('"')
        && text.contains("\\n")
        && let Ok(said) = serde_json::from_str::<String>(&text)
    {
        text = said;
    }
    if text.starts_with('{') {
        let mut values = serde_json::Deserializer::from_str(&text)
            .into_iter::<serde_json::Map<_, serde_json::Value>>();
        let thought = values.next().and_then(Result::ok);
        if thought
            .is_some_and(|members| members.keys().all(|key| REASONING.contains(&key.as_str())))
        {
            return text[values.byte_offset()..].to_owned();
        }
    }
    let fence = text
        .strip_prefix("```")
        .and_then(|rest| rest.split_once('\n'));
    if let Some((info, rest)) = fence
        && (REASONING.contains(&info.trim()) || info.trim() == "think")
        && let Some((_, after)) = rest.split_once("\n```")
    {
        return after.to_owned();
    }
    text
}

/// Returns a text without a label that stands alone above it, and without turns that a model plays below it.
fn without_label(text: &str) -> String {
    const LABELS: &[&str] = &[
        "response",
        "final answer",
        "answer",
        "reply",
        "output",
        "letter",
    ];
    let trimmed = text.trim_start_matches(is_blank);
    let low = |line: &str| line.trim().trim_matches(['*', '#', ' ']).to_lowercase();
    let mut kept = trimmed;
    if let Some((first, after)) = trimmed.split_once('\n')
        && let first = low(first)
        && let Some(label) = first.strip_suffix(':')
        && LABELS.contains(&label.trim_end_matches('*'))
    {
        kept = after;
    } else if trimmed
        .get(..13)
        .is_some_and(|start| start.eq_ignore_ascii_case("final answer:"))
    {
        kept = &trimmed[13..];
    }
    let turn = kept
        .match_indices("\nUser:")
        .chain(kept.match_indices("\nHuman:"))
        .map(|(at, _)| at)
        .min();
    match turn {
        Some(at) if kept[at..].contains("\nAssistant:") => kept[..at].to_owned(),
        _ => kept.to_owned(),
    }
}

/// Names of a subject, in lower case.
const SUBJECTS: &[&str] = &[
    "subject",
    "betreff",
    "objet",
    "asunto",
    "oggetto",
    "onderwerp",
    "assunto",
    "ämne",
    "emne",
    "temat",
    "aihe",
    "konu",
    "předmět",
    "тема",
    "件名",
    "主题",
];
/// Names of other header fields, which go with a subject.
const FIELDS: &[&str] = &[
    "from",
    "to",
    "cc",
    "bcc",
    "date",
    "reply-to",
    "von",
    "an",
    "datum",
    "de",
    "à",
    "para",
    "da",
    "a",
    "van",
    "aan",
    "in-reply-to",
    "message-id",
    "sender",
];

/// Returns a text without header fields at its start, where one of them is a subject.
fn without_headers(text: &str) -> &str {
    let (mut rest, mut has_subject) = (text.trim_start_matches(is_blank), false);
    let mut body = rest;
    while let Some((line, after)) = rest
        .split_once('\n')
        .or((!rest.is_empty()).then_some((rest, "")))
    {
        if line.trim_matches(is_blank).is_empty() && !has_subject {
            rest = after;
            continue;
        }
        let Some(name) = field_name(line) else {
            break;
        };
        let is_subject = SUBJECTS.contains(&name.as_str());
        // A line that goes on in the next one is a sentence, and so is one that ends as one.
        let is_whole = !line.ends_with('.') && after.is_empty()
            || !line.ends_with('.') && after.starts_with(['\n', '\r'])
            || after
                .split('\n')
                .next()
                .is_some_and(|next| next.contains([':', '：']));
        if !(is_subject && is_whole || FIELDS.contains(&name.as_str())) {
            break;
        }
        has_subject |= is_subject;
        rest = after;
        if has_subject {
            body = after;
        }
    }
    match has_subject && !body.trim_matches(is_blank).is_empty() {
        true => body.trim_start_matches(is_blank),
        false => text,
    }
}

/// Reports whether header fields stand above a text.
pub fn has_headers(text: &str) -> bool {
    without_headers(text).len() < text.trim_start_matches(is_blank).len()
}

/// Returns what is before the colon of a line, in lower case.
fn field_name(line: &str) -> Option<String> {
    let (name, _) = line.trim().trim_matches('*').split_once([':', '：'])?;
    Some(name.trim().trim_matches('*').to_lowercase())
}

/// Reports whether a text is header fields with a subject among them, and nothing else: the head of a letter.
pub fn is_heading(text: &str) -> bool {
    let (mut lines, mut fields, mut has_subject) = (0_usize, 0_usize, false);
    for line in text
        .lines()
        .filter(|line| !line.trim_matches(is_blank).is_empty())
    {
        lines += 1;
        let name = field_name(line).unwrap_or_default();
        let is_subject = SUBJECTS.contains(&name.as_str());
        has_subject |= is_subject;
        fields += usize::from(is_subject || FIELDS.contains(&name.as_str()));
    }
    let is_one = lines == 1 && !text.trim_end().ends_with(['.', '!', '?']);
    has_subject && fields == lines && (fields >= 2 || is_one)
}

/// Words of a sentence about a draft: what it is, and that it is here.
const DRAFTS: &[&str] = &[
    "draft",
    "reply",
    "response",
    "answer",
    "email",
    "e-mail",
    "letter",
    "message",
    "version",
    "entwurf",
    "antwort",
    "brief",
    "nachricht",
    "brouillon",
    "réponse",
    "borrador",
    "respuesta",
    "bozza",
    "risposta",
    "concept",
    "antwoord",
];
const HERE: &[&str] = &[
    "here is",
    "here's",
    "here’s",
    "here are",
    "below is",
    "this is",
    "sure",
    "certainly",
    "of course",
    "hier ist",
    "hier der",
    "hier mein",
    "voici",
    "aquí",
    "ecco",
    "hierbij",
    "hier is",
];
/// Beginnings of a letter, in lower case.
const GREETINGS: &[&str] = &[
    "dear ",
    "hi",
    "hello",
    "hey",
    "good ",
    "greetings",
    "to ",
    "liebe",
    "sehr ",
    "guten",
    "hallo",
    "moin",
    "grüß",
    "bonjour",
    "cher",
    "madame",
    "monsieur",
    "hola",
    "estimad",
    "querid",
    "buen",
    "gentile",
    "ciao",
    "caro",
    "cara",
    "beste",
    "geachte",
    "olá",
    "prezad",
    "hej",
    "kära",
    "kjære",
    "szanown",
    "dzień",
];

/// Returns a text without a sentence about it as a draft, and without the rule below it. Only above what begins like a letter.
fn without_preamble(text: &str) -> &str {
    let trimmed = text.trim_start_matches(is_blank);
    let Some((first, after)) = trimmed.split_once('\n') else {
        return text;
    };
    let low = first.trim().trim_matches('*').to_lowercase();
    const WANTED: &[&str] = &[
        "you asked",
        "you requested",
        "you wanted",
        "as requested",
        "gewünscht",
        "gebeten",
        "demandé",
        "pedido",
    ];
    let is_about = low.ends_with([':', '：'])
        // A guest who asked for a draft is told where it begins.
        && !WANTED.iter().any(|words| low.contains(words))
        && low.split_whitespace().count() <= 20
        && HERE.iter().any(|here| low.contains(here))
        && DRAFTS.iter().any(|draft| low.contains(draft));
    if !is_about {
        return text;
    }
    let after = after.trim_start_matches(is_blank);
    let low = after
        .get(..after.floor_char_boundary(after.len().min(40)))
        .unwrap_or_default()
        .to_lowercase();
    let has_rule = low.starts_with("---") || low.starts_with("***");
    let begins = has_rule
        || low.starts_with("```")
        || GREETINGS.iter().any(|greeting| low.starts_with(greeting))
        || SUBJECTS
            .iter()
            .any(|subject| low.trim_start_matches('*').starts_with(subject));
    match (begins, has_rule, after.split_once('\n')) {
        (true, true, Some((_, letter))) => without_afterword(letter),
        (true, false, _) => after,
        _ => text,
    }
}

/// Returns a draft between rules without what is below the last of them, where that is a sentence or two.
fn without_afterword(letter: &str) -> &str {
    match letter.rsplit_once("\n---") {
        // A name stays, a sentence about the draft goes.
        Some((before, below))
            if below.trim().lines().count() <= 2
                && (below.trim_matches(['-', '\n', ' ', '\r']).is_empty()
                    || below.trim_end().ends_with(['.', '!', '?', ':', '…'])) =>
        {
            before
        }
        _ => letter,
    }
}

/// Reports whether a character cannot be seen.
pub fn is_blank(c: char) -> bool {
    c.is_whitespace()
        || matches!(
            c,
            '\u{feff}' | '\u{200b}'
                ..='\u{200f}' | '\u{2060}' | '\u{ad}' | '\u{180e}' | '\u{2800}' | '\u{3164}'
        )
}
