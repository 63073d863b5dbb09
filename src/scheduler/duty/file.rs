//! A responsibility file as typed: front matter of flat `key: value` lines between `---`, then the prompt.
//!
//! The front matter is the part of YAML that a flat table needs, read strictly: plain or quoted scalars and comments.
//! Absent on purpose: lists, nesting, multi-line values, anchors, tags; each is refused with its line.

use super::cron::Schedule;
use super::prompt;
use crate::config::micros_of;
use chrono_tz::Tz;

/// Largest responsibility file.
pub const FILE_BYTES_MAX: usize = 64 * 1024;
const NAME_CHARS_MAX: usize = 100;
const KEYS: &[&str] = &["name", "schedule", "timezone", "enabled", "budget_usd", "output_schema"];

/// A responsibility as its file says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Responsibility {
    pub name: String,
    pub schedule: Schedule,
    /// `None`: the persona's zone.
    pub timezone: Option<Tz>,
    pub enabled: bool,
    /// Micro-dollars that each of its runs may cost.
    pub budget_micros: Option<i64>,
    /// Where the form of its answers stands; the file is not looked at here.
    pub output_schema: Option<SchemaPath>,
    /// The body, a template.
    pub prompt: String,
}

/// A file below the persona's folder, and the line that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaPath {
    pub line: usize,
    pub path: String,
}

/// What is wrong with a file, and on which line (counted from 1).
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("line {line}: {problem}")]
pub struct FileError {
    pub line: usize,
    pub problem: String,
}

/// One `key: value` of the front matter.
struct Entry {
    line: usize,
    key: &'static str,
    value: String,
}

/// Reads a whole file.
pub fn parse(bytes: &[u8]) -> Result<Responsibility, FileError> {
    if bytes.len() > FILE_BYTES_MAX {
        return Err(fault(1, format!("the file is larger than {FILE_BYTES_MAX} bytes")));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
        fault(line, "the file is not UTF-8")
    })?;
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let mut lines = text.split('\n').zip(1..);
    if !matches!(lines.next(), Some((first, _)) if is_fence(first)) {
        return Err(fault(1, "a responsibility begins with a line `---`, then its `name` and `schedule`"));
    }
    let mut entries: Vec<Entry> = Vec::new();
    let end = loop {
        match lines.next() {
            Some((line, number)) if is_fence(line) => break number,
            Some((line, number)) => entries.extend(read_line(line, number, &entries)?),
            None => return Err(fault(1, "the front matter is not closed by a second line `---`")),
        }
    };
    let body: Vec<&str> = lines.map(|(line, _)| line).collect();
    assemble(&entries, end, &body.join("\n"))
}

fn is_fence(line: &str) -> bool {
    line.trim_end() == "---"
}

fn fault(line: usize, problem: impl Into<String>) -> FileError {
    FileError { line, problem: problem.into() }
}

fn read_line(line: &str, number: usize, before: &[Entry]) -> Result<Option<Entry>, FileError> {
    let content = line.trim_end();
    if content.is_empty() || content.trim_start().starts_with('#') {
        return Ok(None);
    }
    if content.starts_with([' ', '\t', '-']) {
        return Err(fault(
            number,
            "nested values and lists are not offered here; write flat `key: value` lines",
        ));
    }
    let (typed, rest) = content
        .split_once(':')
        .filter(|(_, rest)| rest.is_empty() || rest.starts_with([' ', '\t']))
        .ok_or_else(|| fault(number, "expected `key: value`, with a space after the colon"))?;
    let key = KEYS.iter().copied().find(|key| *key == typed.trim()).ok_or_else(|| {
        fault(
            number,
            format!("unknown key `{}`{}", shown(typed), nearest(typed.trim(), KEYS.iter().copied())),
        )
    })?;
    if let Some(first) = before.iter().find(|entry| entry.key == key) {
        return Err(fault(number, format!("`{key}` is given twice, first on line {}", first.line)));
    }
    let value = scalar(rest.trim()).map_err(|problem| fault(number, format!("`{key}` {problem}")))?;
    Ok(Some(Entry { line: number, key, value }))
}

/// A plain or quoted value; a comment may follow it.
fn scalar(text: &str) -> Result<String, String> {
    let (value, rest) = match text.chars().next() {
        Some('"') => double_quoted(&text[1..])?,
        Some('\'') => single_quoted(&text[1..])?,
        Some('[' | '{' | '|' | '>' | '&' | '!') => {
            return Err("is a list, a block or a tag; write one plain or quoted value".to_owned());
        }
        Some('#') => (String::new(), ""),
        _ => {
            let end = text.find(" #").unwrap_or(text.len());
            (text[..end].trim_end().to_owned(), "")
        }
    };
    let rest = rest.trim_start();
    if !(rest.is_empty() || rest.starts_with('#')) {
        return Err(format!("has `{}` after its closing quote", shown(rest)));
    }
    if value.chars().any(char::is_control) {
        return Err("contains a control character".to_owned());
    }
    if value.trim().is_empty() { Err("has no value".to_owned()) } else { Ok(value) }
}

fn double_quoted(text: &str) -> Result<(String, &str), String> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => match chars.next() {
                Some((_, escaped @ ('"' | '\\' | '/'))) => value.push(escaped),
                _ => return Err("has a backslash that escapes neither `\"` nor `\\`".to_owned()),
            },
            other => value.push(other),
        }
    }
    Err("has no closing `\"` on its line".to_owned())
}

fn single_quoted(text: &str) -> Result<(String, &str), String> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest.split_once('\'').ok_or("has no closing `'` on its line")?;
        value.push_str(part);
        match after.strip_prefix('\'') {
            Some(more) => {
                value.push('\'');
                rest = more;
            }
            None => return Ok((value, after)),
        }
    }
}

fn assemble(entries: &[Entry], end: usize, body: &str) -> Result<Responsibility, FileError> {
    let find = |key: &str| entries.iter().find(|entry| entry.key == key);
    let required = |key: &str| find(key).ok_or_else(|| fault(end, format!("`{key}` is missing")));
    let name = required("name")?;
    if name.value.chars().count() > NAME_CHARS_MAX {
        return Err(fault(name.line, format!("`name` is longer than {NAME_CHARS_MAX} characters")));
    }
    let schedule = required("schedule")?;
    let parsed = Schedule::parse(&schedule.value)
        .map_err(|error| fault(schedule.line, format!("`schedule`: {error}")))?;
    let timezone = find("timezone").map(zone).transpose()?;
    let enabled = match find("enabled").map(|entry| (entry.value.as_str(), entry.line)) {
        None | Some(("true", _)) => true,
        Some(("false", _)) => false,
        Some((other, line)) => {
            let problem = format!("`enabled` is `{}`; write `true` or `false`", shown(other));
            return Err(fault(line, problem));
        }
    };
    let budget_micros = find("budget_usd").map(dollars).transpose()?;
    let output_schema = find("output_schema").map(schema_path).transpose()?;
    let prompt = body.trim();
    if prompt.is_empty() {
        return Err(fault(end, "the prompt below the front matter is empty"));
    }
    let skipped = body[..body.len() - body.trim_start().len()].matches('\n').count();
    prompt::check(prompt).map_err(|error| fault(end + skipped + error.line.unwrap_or(1), error.problem))?;
    let name = name.value.trim().to_owned();
    let prompt = prompt.to_owned();
    Ok(Responsibility { name, schedule: parsed, timezone, enabled, budget_micros, output_schema, prompt })
}

/// `schemas/report.json`: that it cannot leave the folder is the folder's affair; here it is refused in words.
fn schema_path(entry: &Entry) -> Result<SchemaPath, FileError> {
    let path = entry.value.trim();
    let is_below = !path.starts_with('/') && path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if !is_below || !path.ends_with(".json") {
        let problem = "`output_schema` is the path of a `.json` file below the persona's folder, such as \
            `schemas/report.json`";
        return Err(fault(entry.line, problem));
    }
    Ok(SchemaPath { line: entry.line, path: path.to_owned() })
}

/// US dollars, such as `0.25`, as micro-dollars.
fn dollars(entry: &Entry) -> Result<i64, FileError> {
    micros_of(&entry.value).ok_or_else(|| {
        let problem = format!("`budget_usd` is `{}`; write US dollars such as `0.25`", shown(&entry.value));
        fault(entry.line, problem)
    })
}

fn zone(entry: &Entry) -> Result<Tz, FileError> {
    entry.value.parse().map_err(|_| {
        let names = chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name());
        let hint = nearest(&entry.value, names);
        fault(entry.line, format!("unknown time zone `{}`{hint}", shown(&entry.value)))
    })
}

/// `; did you mean …` for the closest candidate, when one is close.
fn nearest<'a>(typed: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    let folded = shown(typed).to_lowercase();
    let closest = candidates
        .map(|name| (strsim::damerau_levenshtein(&folded, &name.to_lowercase()), name))
        .min_by_key(|(distance, _)| *distance);
    match closest {
        Some((distance, name)) if distance * 2 <= name.len() => format!("; did you mean `{name}`?"),
        _ => String::new(),
    }
}

/// At most 60 characters of what was typed, without control characters.
fn shown(text: &str) -> String {
    text.trim().chars().filter(|c| !c.is_control()).take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(front: &str) -> Result<Responsibility, FileError> {
        parse(format!("---\n{front}\n---\nWrite.").as_bytes())
    }

    #[test]
    fn plain_quoted_and_commented_values_read_alike() {
        let plain = file("name: Day's digest\nschedule: 0 9 * * *\ntimezone: Europe/Berlin");
        let quoted =
            file("name: 'Day''s digest'\nschedule: \"0 9 * * *\" # daily\n# zone\ntimezone: Europe/Berlin");
        assert!(plain.is_ok(), "{plain:?}");
        assert_eq!(plain, quoted);
    }

    #[test]
    fn a_byte_order_mark_and_crlf_change_nothing() {
        let unix = "---\nname: A\nschedule: 0 9 * * *\nenabled: false\n---\n\nOne.\nTwo.\n";
        let windows = format!("\u{feff}{}", unix.replace('\n', "\r\n"));
        assert_eq!(parse(windows.as_bytes()), parse(unix.as_bytes()));
        assert_eq!(parse(unix.as_bytes()).map(|r| (r.enabled, r.prompt)), Ok((false, "One.\nTwo.".into())));
    }

    #[test]
    fn every_fault_names_its_line_and_what_would_work() {
        let cases = [
            ("name: A\nscedule: 0 9 * * *", 3, "did you mean `schedule`?"),
            ("name: A", 3, "`schedule` is missing"),
            ("name: A\nname: B", 3, "first on line 2"),
            ("name: A\nschedule: 0 25 * * *", 3, "the hour field `25`"),
            ("name: A\nschedule:\n  - 0 9 * * *", 3, "`schedule` has no value"),
            ("name: A\n  nested: 1", 3, "nested values"),
            ("name: [A]", 2, "is a list"),
            ("name: \"A", 2, "no closing"),
            ("name: A\nschedule: 0 9 * * *\ntimezone: Europe/Berln", 4, "did you mean `Europe/Berlin`?"),
            ("name: A\nschedule: 0 9 * * *\nenabled: maybe", 4, "write `true` or `false`"),
            ("name: A\nschedule: 0 9 * * *\noutput_schema: ../x.json", 4, "below the persona's folder"),
            ("name:A", 2, "a space after the colon"),
            ("name: A\nschedule: 0 9 * * *\nbudget_usd: much", 4, "write US dollars such as `0.25`"),
        ];
        for (front, line, says) in cases {
            let error = file(front).expect_err(front);
            assert_eq!(error.line, line, "{front}: {error}");
            assert!(error.problem.contains(says), "{front}: {error}");
        }
    }
}
