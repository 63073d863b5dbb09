//! Secrets: the environment first, then `.secrets`. Values are never printed and never part of a
//! [`Problem`].

use crate::config::file::text_file::Unreadable;
use crate::config::file::{Problem, nearest, text_file};
use crate::text::inside_quotes;
use secrecy::{ExposeSecret, SecretString};
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// File of `KEY=VALUE` lines in the workspace.
pub const FILE: &str = ".secrets";
/// Name of the secret with the address of a database on a server, which the store reads.
pub const DATABASE_VARIABLE: &str = "ATTACHE_DATABASE_URL";
/// Maximum bytes of the file.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Placeholder for a secret that a process has no access to.
pub const STAND_IN: &str = "not-known-to-this-process";

/// Reports whether a secret is only a placeholder.
pub fn is_stand_in(secret: &SecretString) -> bool {
    secret.expose_secret() == STAND_IN
}

/// Reads one variable of the environment. The only place that does so; tests pass another function.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Serializes a secret: that it is there, and no more.
pub fn as_set<'s, S: Serializer>(
    secret: impl Into<Option<&'s SecretString>>,
    to: S,
) -> Result<S::Ok, S::Error> {
    secret.into().map(|_| "[set]").serialize(to)
}

/// Reports whether the environment or `.secrets` has a secret of that name.
pub fn has_secret(
    workspace: &Path,
    name: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> bool {
    let mut problems = Vec::new();
    let secrets = Secrets::read(workspace, environment, &mut problems);
    secrets.get(name).is_some()
}

/// Returns a secret of the environment or `.secrets`. What is wrong with that file is reported when
/// the configuration is loaded.
pub fn secret(workspace: &Path, name: &str) -> Option<SecretString> {
    let mut reported_later = Vec::new();
    Secrets::read(workspace, &environment, &mut reported_later).get(name)
}

/// Secrets of the environment and `.secrets`.
pub struct Secrets<'e> {
    environment: &'e dyn Fn(&str) -> Option<String>,
    /// Line number and value by name.
    file: BTreeMap<String, (usize, SecretString)>,
    faulty: FaultyNames,
}

/// Names whose lines in `.secrets` are faulty. They count as set, so that one mistake is one problem.
#[derive(Default)]
enum FaultyNames {
    #[default]
    None,
    Some(BTreeSet<String>),
    /// The file cannot be read.
    All,
}

impl FaultyNames {
    fn has(&self, name: &str) -> bool {
        match self {
            Self::None => false,
            Self::Some(names) => names.contains(name),
            Self::All => true,
        }
    }
}

impl<'e> Secrets<'e> {
    /// Reads `.secrets` if it exists.
    pub fn read(
        workspace: &Path,
        environment: &'e dyn Fn(&str) -> Option<String>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let path = workspace.join(FILE);
        let text = match text_file::read(&path, FILE_BYTES_MAX) {
            Ok(text) => {
                problems.extend(open_to_others(&path).map(readable_by_others));
                text
            }
            Err(Unreadable::Missing) => String::new(),
            Err(error) => {
                let problem = Problem::in_file(FILE, error.to_string());
                problems.push(match error.hint() {
                    Some(hint) => problem.hint(hint),
                    None => problem,
                });
                return Self {
                    environment,
                    file: BTreeMap::new(),
                    faulty: FaultyNames::All,
                };
            }
        };
        let (file, faulty) = parse(&text, problems);
        Self {
            environment,
            file,
            faulty: FaultyNames::Some(faulty),
        }
    }

    /// Secrets of the environment alone.
    pub fn only(environment: &'e dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            environment,
            file: BTreeMap::new(),
            faulty: FaultyNames::None,
        }
    }

    /// Returns the secret of that name; an empty variable counts as unset. For one whose line is faulty: [`STAND_IN`].
    pub fn get(&self, name: &str) -> Option<SecretString> {
        let from_environment = (self.environment)(name).filter(|value| !value.trim().is_empty());
        from_environment
            .map(|value| SecretString::from(value.trim()))
            .or_else(|| self.file.get(name).map(|(_, value)| value.clone()))
            .or_else(|| self.faulty.has(name).then(|| SecretString::from(STAND_IN)))
    }

    /// Hint for a secret that is not set. A line of `.secrets` with nearly its name, which nothing of `known` reads, may be meant
    /// for it.
    pub fn how_to_set(&self, name: &str, known: &[String]) -> String {
        let written = self.file.keys().map(String::as_str);
        let unread = written.filter(|written| !known.iter().any(|known| known == written));
        let set = format!("set {name} in the environment or in `.secrets`");
        match nearest(name, &unread.collect::<Vec<_>>()) {
            Some(near) => format!("{set}, which has `{near}`: did you mean `{name}`?"),
            None => set,
        }
    }

    /// Values that are probably not the keys that they are meant to be; no message repeats one.
    ///
    /// `known` are the names that a setting refers to; `headers` are those of them whose value is that of a whole header, with
    /// its scheme.
    pub fn doubtful(&self, known: &[&str], headers: &[&str]) -> Vec<Problem> {
        let written = self.file.iter().filter_map(|(name, (line, value))| {
            let is_header = headers.contains(&name.as_str());
            let (what, hint) = doubt(value.expose_secret(), is_header)?;
            Some(at_line(*line, format!("the value of `{name}` {what}")).hint(hint))
        });
        let mut doubtful: Vec<Problem> = written.collect();
        for name in known {
            let Some(set) = (self.environment)(name) else {
                continue;
            };
            if let Some((what, hint)) = doubt(set.trim(), headers.contains(name)) {
                let message = format!("the value of `{name}` in the environment {what}");
                doubtful.push(Problem::in_file(FILE, message).hint(hint));
            }
            let in_file = self.file.get(*name);
            let problem = match (set.trim(), in_file) {
                ("", _) => Problem::in_file(
                    FILE,
                    format!("`{name}` is set in the environment, and empty: it counts as not set"),
                )
                .hint("give it its value there, or take it out of the environment"),
                (value, Some((line, other))) if value != other.expose_secret() => at_line(
                    *line,
                    format!("`{name}` has another value in the environment, and that one counts"),
                )
                .hint("take one of the two out"),
                _ => continue,
            };
            doubtful.push(problem);
        }
        doubtful
    }

    /// Names in `.secrets` that no setting refers to.
    pub fn unknown<'a>(&'a self, known: &'a [&'a str]) -> impl Iterator<Item = Problem> + 'a {
        let strangers = self
            .file
            .iter()
            .filter(|(name, _)| !known.contains(&name.as_str()));
        strangers.map(|(name, (line, _))| {
            let problem = at_line(*line, format!("nothing reads `{name}`"));
            match nearest(name, known) {
                Some(near) => problem.hint(format!("did you mean `{near}`?")),
                None => problem.hint("take the line out, unless a setting is to name it"),
            }
        })
    }
}

/// Returns line number and value by name, and the names without a value that can be used.
fn parse(
    text: &str,
    problems: &mut Vec<Problem>,
) -> (BTreeMap<String, (usize, SecretString)>, BTreeSet<String>) {
    let (mut found, mut faulty) = (BTreeMap::new(), BTreeSet::new());
    // Some editors write a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, value)) = line
            .split_once('=')
            .filter(|(name, _)| is_name(name.trim_end()))
        else {
            problems.push(misshapen(line, index + 1));
            faulty.extend(meant_name(line));
            continue;
        };
        let (name, value) = (name.trim_end(), value.trim());
        if has_comment(value) {
            let message = format!("a comment behind the value of `{name}` would be part of it");
            let hint = "put the comment on a line of its own; a ` #` that belongs to the value stands between quotation marks";
            problems.push(at_line(index + 1, message).hint(hint));
            faulty.insert(name.to_owned());
            continue;
        }
        let value = inside_quotes(value).unwrap_or(value);
        if value.is_empty() {
            let problem = at_line(index + 1, format!("`{name}` has no value"));
            problems.push(problem.hint("write the key behind `=`, or take the line out"));
            faulty.insert(name.to_owned());
        } else if found
            .insert(name.to_owned(), (index + 1, SecretString::from(value)))
            .is_some()
        {
            problems.push(at_line(index + 1, format!("`{name}` is written twice")));
        }
    }
    (found, faulty)
}

/// Returns the name that a line is probably about, however it is written.
fn meant_name(line: &str) -> Option<String> {
    let (name, _) = line.split_once(['=', ':'])?;
    let name = name.trim();
    let name = name.strip_prefix("export ").unwrap_or(name).trim();
    let name = name.to_ascii_uppercase();
    is_name(&name).then_some(name)
}

fn at_line(line: usize, message: String) -> Problem {
    let mut problem = Problem::in_file(FILE, message);
    (problem.line, problem.column) = (Some(line), Some(1));
    problem
}

/// Problem of a line that is no `KEY=VALUE`. The line may hold a key, so the message does not
/// repeat it.
fn misshapen(line: &str, number: usize) -> Problem {
    let problem = at_line(number, "not a line of the form KEY=VALUE".to_owned());
    let name = line.split_once('=').map(|(name, _)| name.trim_end());
    if name
        .and_then(|name| name.strip_prefix("export "))
        .is_some_and(|name| is_name(name.trim()))
    {
        return problem.hint("leave out the word `export`: this is no script of a shell");
    }
    match name {
        Some(name) if is_name(&name.to_ascii_uppercase()) => problem.hint(format!(
            "names are written in capital letters: `{}`",
            name.to_ascii_uppercase()
        )),
        _ if line.contains(':') && name.is_none() => {
            problem.hint("write `=` between name and value, not `:`")
        }
        _ => problem.hint("write one such as `ANTHROPIC_API_KEY=…`, or begin a comment with `#`"),
    }
}

/// Reports whether an unquoted value, or the rest after a quoted one, contains a comment in the
/// syntax of other `.env` readers.
fn has_comment(value: &str) -> bool {
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
    let behind = match quote {
        Some(quote) => value[1..].find(quote).map_or("", |end| &value[end + 2..]),
        None => value,
    };
    behind.contains(" #") || behind.contains("\t#")
}

/// Returns why a value is hardly a key, and what to do.
fn doubt(value: &str, is_header: bool) -> Option<(&'static str, &'static str)> {
    // The last two stand in the pages of this book.
    const PLACEHOLDERS: [&str; 8] = [
        "changeme",
        "change-me",
        "change_me",
        "your-key",
        "your_key",
        "placeholder",
        "put-your",
        "yours-here",
    ];
    let is_half_quoted = value.starts_with(['"', '\'']) || value.ends_with(['"', '\'']);
    let lower = value.to_ascii_lowercase();
    let is_placeholder = PLACEHOLDERS.iter().any(|one| lower.contains(one))
        || (lower.len() > 2 && lower.chars().all(|letter| letter == 'x'))
        || value.contains(['…', '<', '>'])
        || lower.ends_with("...");
    Some(match () {
        () if is_half_quoted => (
            "begins or ends with a quotation mark, which is part of it",
            "put the value between two quotation marks of one kind, or take the one out",
        ),
        () if is_placeholder => (
            "looks like a placeholder",
            "write the key that the provider shows",
        ),
        () if lower.starts_with("bearer ") && !is_header => (
            "begins with `Bearer`, which is sent in front of it anyway",
            "write the key alone",
        ),
        () => return None,
    })
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

fn readable_by_others(mode: u32) -> Problem {
    Problem::in_file(FILE, format!("others may read it: its mode is {mode:04o}"))
        .hint("run `chmod 600 .secrets`, and change the keys if others had access")
}

/// Mode of a file that other users may access, by the same rule as ssh for its keys.
#[cfg(unix)]
pub fn open_to_others(path: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

#[cfg(not(unix))]
pub fn open_to_others(_: &Path) -> Option<u32> {
    None
}
