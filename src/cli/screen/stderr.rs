//! Errors, remarks and hints on stderr.

use super::text::{escaped, printable};
use anstyle::{AnsiColor, Style};
use serde_json::json;
use std::io::Write;
use std::time::Duration;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default();
/// Timeout of writing one sentence to stderr.
const STDERR_GRACE_PERIOD: Duration = Duration::from_secs(1);

/// Prints an error to stderr: a sentence, its causes, and a hint where there is one.
pub fn complain(error: &anyhow::Error, hint: Option<&str>) {
    let mut text = format!("{ERROR}error:{ERROR:#} {}\n", printable(&error.to_string()));
    for cause in causes(error) {
        text.push_str(&format!("  caused by: {}\n", printable(&cause)));
    }
    if let Some(hint) = hint {
        text.push_str(&format!("{HINT}hint:{HINT:#} {}\n", printable(hint)));
    }
    to_stderr(text);
}

/// Texts of the causes of an error. One that the text before it ends with is left out: libraries paste their source into their
/// own text.
fn causes(error: &anyhow::Error) -> Vec<String> {
    let mut before = error.to_string();
    let mut causes = Vec::new();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !before.ends_with(&cause) {
            causes.push(cause.clone());
            before = cause;
        }
    }
    causes
}

/// Prints an error to stderr as one line of JSON, so that it is distinct from log lines: `error`,
/// `causes`, `hint` (or `null`) and `exit_code`.
pub fn complain_json(error: &anyhow::Error, hint: Option<&str>, exit_code: u8) {
    let record = json!({
        "error": error.to_string(),
        "causes": causes(error),
        "hint": hint,
        "exit_code": exit_code,
    });
    // A record of strings always serializes to JSON.
    let text = serde_json::to_string(&record).unwrap_or_default();
    to_stderr(format!("{}\n", escaped(&text)));
}

/// Prints a remark to stderr that is neither a result nor an error.
pub fn remark(text: &str) {
    to_stderr(format!("{}\n", printable(text)));
}

/// Asks for input on stderr, without a line end.
pub fn prompt(text: &str) {
    to_stderr(printable(text));
}

/// Writes to stderr with a timeout: a pipe without a reader must not keep a command from its end.
fn to_stderr(text: String) {
    let (written, is_written) = std::sync::mpsc::channel();
    let write = move || {
        // No channel is left to report that stderr is closed.
        let _unheard = anstream::stderr().lock().write_all(text.as_bytes());
        let _too_late = written.send(());
    };
    if std::thread::Builder::new()
        .name("stderr".to_owned())
        .spawn(write)
        .is_ok()
    {
        let _unread = is_written.recv_timeout(STDERR_GRACE_PERIOD);
    }
}

/// Prints the next step to stderr, as after an error.
pub fn hint(text: &str) {
    let line = format!("{HINT}hint:{HINT:#} {}\n", printable(text));
    let _unheard = anstream::stderr().lock().write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::causes;

    #[test]
    fn a_cause_is_printed_once() {
        let disk = anyhow::anyhow!("no space");
        let pasted = disk.context("cannot write: no space");
        let same = pasted
            .context("cannot write: no space")
            .context("no backup");
        assert_eq!(causes(&same), ["cannot write: no space"]);
        let others = anyhow::anyhow!("a").context("b").context("c");
        assert_eq!(causes(&others), ["b", "a"]);
    }
}
