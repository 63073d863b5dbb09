//! The lines of `.secrets`. Pure; values appear in no message.

use crate::text::inside_quotes;

/// A secret that the file cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the secret for `.secrets` has both kinds of quotation marks beside a blank and a `#`")]
pub struct Unwritable;

/// Returns the text with this secret, in place of the one of that name or behind all others.
pub fn set(text: &str, name: &str, secret: &str) -> Result<String, Unwritable> {
    let line = format!("{name}={}", quoted(secret)?);
    let mut lines: Vec<&str> = text.lines().collect();
    match lines.iter().position(|written| is_of(written, name)) {
        Some(at) if value(lines[at]) == Some(secret) => return Ok(text.to_owned()),
        Some(at) => lines[at] = &line,
        None => lines.push(&line),
    }
    Ok(lines.join("\n") + "\n")
}

/// Returns the text without the secret of that name.
pub fn without(text: &str, name: &str) -> String {
    let lines = text.split_inclusive('\n');
    lines.filter(|line| !is_of(line, name)).collect()
}

fn is_of(line: &str, name: &str) -> bool {
    let named = line.trim().split_once('=');
    named.is_some_and(|(named, _)| named.trim_end() == name)
}

/// The value of a line as the engine reads it.
fn value(line: &str) -> Option<&str> {
    let value = line.split_once('=')?.1.trim();
    Some(inside_quotes(value).unwrap_or(value))
}

/// The secret as it is written: between quotation marks where the engine would read it otherwise.
fn quoted(secret: &str) -> Result<String, Unwritable> {
    let is_plain = !secret.contains(" #")
        && !secret.contains("\t#")
        && !secret.starts_with(['"', '\''])
        && secret.trim() == secret;
    if is_plain {
        return Ok(secret.to_owned());
    }
    let quote = ['"', '\'']
        .into_iter()
        .find(|quote| !secret.contains(*quote));
    let quote = quote.ok_or(Unwritable)?;
    Ok(format!("{quote}{secret}{quote}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_takes_the_place_of_the_one_before_it_and_no_other_line_changes() {
        let file = "# keys\nA_KEY = \"one\"\nB_KEY=two\n";
        assert_eq!(set(file, "A_KEY", "one").as_deref(), Ok(file));
        assert_eq!(
            set(file, "A_KEY", "new").as_deref(),
            Ok("# keys\nA_KEY=new\nB_KEY=two\n")
        );
        assert_eq!(set(file, "C_KEY", "x y"), Ok(format!("{file}C_KEY=x y\n")));
        assert_eq!(set("", "C_KEY", "x").as_deref(), Ok("C_KEY=x\n"));
    }

    #[test]
    fn a_secret_goes_and_no_other_line_changes() {
        let file = "# A_KEY=old\nA_KEY = 1\nB_KEY=two\n A_KEY=2";
        assert_eq!(without(file, "A_KEY"), "# A_KEY=old\nB_KEY=two\n");
        assert_eq!(without(file, "C_KEY"), file);
    }

    #[test]
    fn a_secret_is_quoted_where_it_would_be_read_otherwise() {
        assert_eq!(quoted("a #b").as_deref(), Ok("\"a #b\""));
        assert_eq!(quoted("\"a\"").as_deref(), Ok("'\"a\"'"));
        assert_eq!(quoted("a#b=\"c\"").as_deref(), Ok("a#b=\"c\""));
        assert_eq!(quoted("' #\""), Err(Unwritable));
    }
}
