//! `grep`: finds lines in the text files of the persona's folder by a regular expression.

use super::folder::{label_of, on_disk, open_for};
use super::glob::path_pattern;
use super::walk::{WalkedFile, files_below};
use crate::domain::TextLabel;
use crate::mime;
use crate::text::truncated;
use crate::tools::contract::*;
use cap_std::fs_utf8::Dir;
use globset::GlobMatcher;
use regex::{Regex, RegexBuilder};
use std::io::Read;

const PATTERN_CHARS_MAX: usize = 500;
/// Most bytes of a compiled pattern: `(a{99}){99}` is one of the short ones that are large.
const COMPILED_BYTES_MAX: usize = 256 * 1024;
/// Most bytes that one call reads.
const SEARCHED_BYTES_MAX: u64 = 64 * 1024 * 1024;
const LIMIT_DEFAULT: usize = 50;
const LIMIT_MAX: usize = 500;
/// Most characters of a line that is shown.
const LINE_CHARS_MAX: usize = 300;

/// Finds lines in the text files of your folder, with file and line number.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Grep {
    /// Regular expression, without look-around.
    pattern: String,
    /// File or folder. Default: all.
    path: Option<String>,
    /// Pattern of paths, such as `knowledge/**/*.md`.
    glob: Option<String>,
    ignore_case: Option<bool>,
    /// 1 to 500 lines. Default: 50.
    #[schemars(with = "Option<i64>")]
    limit: Option<f64>,
}

impl TypedTool for Grep {
    const NAME: &str = "grep";
    const RESULT_WORDS: ResultWords = ResultWords::Engine;
    const USES: ToolCapabilities = uses!(files);

    async fn call(self, call: &ToolCall<'_>) -> Result<ToolOutcome, ToolError> {
        let wanted = LineSearch::of(&self, call.limits, call.reader)?;
        let path = self.path.unwrap_or_default();
        let found = on_disk(call.env.files()?, move |folder| wanted.run(folder, &path));
        let (result, label) = found.await?;
        Ok(ToolOutcome::labelled(result, label))
    }
}

struct LineSearch {
    pattern: Regex,
    glob: Option<GlobMatcher>,
    limit: usize,
    limits: ToolLimits,
    reader: Reader,
}

impl LineSearch {
    fn of(args: &Grep, limits: &ToolLimits, reader: Reader) -> Result<Self, ToolError> {
        let bad = |why: &str| {
            ToolError::mendable(
                "bad_pattern",
                format!("field `pattern` is no usable regular expression: {why}"),
            )
        };
        if args.pattern.is_empty() || args.pattern.chars().count() > PATTERN_CHARS_MAX {
            return Err(bad(&format!(
                "it must have 1 to {PATTERN_CHARS_MAX} characters"
            )));
        }
        let pattern = RegexBuilder::new(&args.pattern)
            .case_insensitive(args.ignore_case.unwrap_or(false))
            .size_limit(COMPILED_BYTES_MAX)
            .build();
        let pattern = pattern.map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => bad("it is too large; write a simpler one"),
            error => bad(truncated(&error.to_string(), LINE_CHARS_MAX).as_str()),
        })?;
        let glob = args.glob.as_deref();
        Ok(Self {
            pattern,
            glob: glob.map(|glob| path_pattern("glob", glob)).transpose()?,
            limit: count(args.limit, LIMIT_DEFAULT).clamp(1, LIMIT_MAX),
            limits: limits.clone(),
            reader,
        })
    }

    fn run(&self, folder: &Dir, path: &str) -> Result<(Value, TextLabel), ToolError> {
        let walked = files_below(folder, path, self.reader)?;
        let mut found = FoundLines {
            bytes_left: self.limits.result_bytes_max / 2,
            is_cut: walked.is_cut,
            ..FoundLines::default()
        };
        let mut unread = SEARCHED_BYTES_MAX;
        let is_wanted = |file: &&WalkedFile| {
            self.glob
                .as_ref()
                .is_none_or(|glob| glob.is_match(&file.path))
        };
        for file in walked.files.iter().filter(is_wanted) {
            let Some(left) = unread.checked_sub(file.bytes) else {
                found.is_cut = true;
                continue;
            };
            // A file that is gone, too large or no text is no match.
            let Some(text) = self.text_of(folder, file) else {
                found.skipped += 1;
                continue;
            };
            unread = left;
            found.searched += 1;
            let lines_before = found.lines.len();
            let has_room = self.add(&mut found, &file.path, &text);
            if found.lines.len() > lines_before {
                let label = label_of(folder, &file.path, &text);
                found.label = std::mem::take(&mut found.label).and(label);
            }
            if !has_room {
                break;
            }
        }
        let result = json!({
            "matches": found.lines, "files_searched": found.searched, "files_skipped": found.skipped,
            "truncated": found.is_cut,
        });
        Ok((result, found.label))
    }

    fn text_of(&self, folder: &Dir, file: &WalkedFile) -> Option<String> {
        let bytes_max = self.limits.file_bytes_max as u64;
        let (opened, size) = open_for(folder, &file.path, self.reader).ok()?;
        if size > bytes_max {
            return None;
        }
        let mut bytes = Vec::new();
        opened.take(bytes_max).read_to_end(&mut bytes).ok()?;
        mime::file_text(&bytes).ok().map(|text| text.text)
    }

    /// Adds the matching lines of a file; `false`: the answer is full.
    fn add(&self, found: &mut FoundLines, path: &str, text: &str) -> bool {
        for (index, line) in text.lines().enumerate() {
            if !self.pattern.is_match(line) {
                continue;
            }
            let shown: String = truncated(line.trim_end(), LINE_CHARS_MAX)
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect();
            let cost = path.len() + shown.len() + 48;
            if found.lines.len() == self.limit || cost > found.bytes_left {
                found.is_cut = true;
                return false;
            }
            found.bytes_left -= cost;
            found
                .lines
                .push(json!({ "path": path, "line": index + 1, "text": shown }));
        }
        true
    }
}

#[derive(Default)]
struct FoundLines {
    lines: Vec<Value>,
    searched: usize,
    skipped: usize,
    is_cut: bool,
    /// Estimated bytes by which the result may still grow.
    bytes_left: usize,
    label: TextLabel,
}
