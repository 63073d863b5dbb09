//! The text of a draft as a file: its subject in the first line, then an empty line, then the body in Markdown.

use crate::cli::{Exit, Failure, refuse};
use crate::config::environment;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;

/// Most bytes of a file that is read.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
const SUBJECT: &str = "Subject:";

/// Formats a draft for an editor.
pub fn written(subject: &str, text: &str) -> String {
    format!("{SUBJECT} {subject}\n\n{text}\n")
}

/// Parses what [`written`] formats; a file that begins with no subject is all text. Returns the subject, if there is one, and
/// the text.
pub fn parsed(file: &str) -> (Option<String>, String) {
    let file = file.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let (first, rest) = file.split_once('\n').unwrap_or((&file, ""));
    match first.strip_prefix(SUBJECT) {
        Some(subject) => (Some(subject.trim().to_owned()), rest.trim().to_owned()),
        None => (None, file.trim().to_owned()),
    }
}

/// Reads a file, or standard input for `-`. Errors: it cannot be read, or is larger than a mail may be.
pub fn read(path: &str) -> Result<String, Failure> {
    let name = match path {
        "-" => "standard input".to_owned(),
        path => format!("`{path}`"),
    };
    let unread = |error: &std::io::Error| {
        Failure::new(Exit::NoInput, format!("{name} cannot be read: {error}"))
    };
    let mut text = Vec::new();
    let source: Box<dyn Read> = match path {
        "-" => Box::new(std::io::stdin()),
        path => Box::new(std::fs::File::open(path).map_err(|error| unread(&error))?),
    };
    let mut source = source.take(FILE_BYTES_MAX + 1);
    source
        .read_to_end(&mut text)
        .map_err(|error| unread(&error))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        let message = format!("{name} is larger than {FILE_BYTES_MAX} bytes");
        return Err(Failure::new(Exit::NoInput, message));
    }
    String::from_utf8(text).map_err(|_| Failure::new(Exit::NoInput, format!("{name} is not UTF-8")))
}

/// Has the user edit a text in the program that `VISUAL` or `EDITOR` names. The file is its user's alone, and is removed
/// afterwards.
pub fn edited(folder: &Path, id: &str, text: &str) -> Result<String, Failure> {
    let named = ["VISUAL", "EDITOR"]
        .into_iter()
        .find_map(|name| environment(name).filter(|program| !program.trim().is_empty()));
    let Some(program) = named else {
        return refuse(
            Exit::Usage,
            "neither `VISUAL` nor `EDITOR` names a program",
            "set one, or give the new text with `--file FILE` (`-` is standard input)",
        );
    };
    let file = folder.join(format!("draft-{id}.md"));
    let outcome = write(&file, text).and_then(|()| run(&program, &file));
    let read_back = outcome.and_then(|()| read(&file.display().to_string()));
    // It may never have been written.
    let _gone = std::fs::remove_file(&file);
    read_back
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    use std::os::unix::fs::OpenOptionsExt;
    let unwritten = |error: std::io::Error| {
        Failure::new(
            Exit::Failed,
            format!("`{}` cannot be written: {error}", file.display()),
        )
    };
    // What an earlier editor left behind.
    let _gone = std::fs::remove_file(file);
    let mut options = std::fs::OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o600);
    let mut opened = options.open(file).map_err(unwritten)?;
    opened.write_all(text.as_bytes()).map_err(unwritten)
}

/// Runs the editor on the terminal and waits for it. The variable may hold arguments, as `code --wait` does.
fn run(program: &str, file: &Path) -> Result<(), Failure> {
    let mut words = program.split_whitespace();
    let name = words.next().unwrap_or_default();
    let status = Command::new(name).args(words).arg(file).status();
    let failed = |why: String| {
        Err(Failure::new(
            Exit::Failed,
            format!("`{program}` {why}, so nothing was changed"),
        ))
    };
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => failed(format!("ended with {status}")),
        Err(error) => failed(format!("cannot be started: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_reads_back_as_it_was_written() {
        let (subject, text) = parsed(&written("Re: Tuesday", "Dear Carol,\n\nwe meet."));
        assert_eq!(subject.as_deref(), Some("Re: Tuesday"));
        assert_eq!(text, "Dear Carol,\n\nwe meet.");
        assert_eq!(parsed("Only\ntext.\n"), (None, "Only\ntext.".to_owned()));
        assert_eq!(
            parsed("Subject: X\r\n\r\nY\r\n"),
            (Some("X".to_owned()), "Y".to_owned())
        );
    }
}
