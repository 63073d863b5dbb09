//! The grammar of a pipeline step: `name` or `name(arg, …)`, with placeholders such as
//! `{persona_id}` in arguments.

/// Permitted placeholders; the run loop replaces them when it assembles a run's context.
pub const PLACEHOLDERS: &[&str] = &["persona_id", "thread_id", "trigger"];

/// Error of a step that cannot be parsed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadStep {
    #[error("a resolver's name has only a-z, 0-9, `-` and `_`")]
    Name,
    #[error("the closing parenthesis is missing")]
    Unclosed,
    #[error("something follows the closing parenthesis")]
    Trailing,
    #[error("an argument is empty")]
    EmptyArgument,
    #[error("a brace in `{0}` has no partner")]
    Brace(String),
    #[error("no placeholder `{{{0}}}`; there are: {{{known}}}", known = PLACEHOLDERS.join("}, {"))]
    Placeholder(String),
}

/// Parses a step into a resolver's name and its arguments. Arguments are trimmed and hold no comma
/// or parenthesis; such arguments need the object form.
pub fn parse(text: &str) -> Result<(String, Vec<String>), BadStep> {
    let text = text.trim();
    let (name, rest) = text.split_at(text.find('(').unwrap_or(text.len()));
    let name = name.trim_end();
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(legal) {
        return Err(BadStep::Name);
    }
    let Some(inside) = rest.strip_prefix('(') else {
        return Ok((name.to_owned(), Vec::new()));
    };
    let (inside, after) = inside.split_once(')').ok_or(BadStep::Unclosed)?;
    if !after.is_empty() {
        return Err(BadStep::Trailing);
    }
    if inside.trim().is_empty() {
        return Ok((name.to_owned(), Vec::new()));
    }
    let args = inside
        .split(',')
        .map(|arg| arg.trim().to_owned())
        .collect::<Vec<_>>();
    if args.iter().any(String::is_empty) {
        return Err(BadStep::EmptyArgument);
    }
    Ok((name.to_owned(), args))
}

/// Checks that every `{…}` of an argument is one of [`PLACEHOLDERS`].
pub fn check_placeholders(arg: &str) -> Result<(), BadStep> {
    let mut rest = arg;
    while let Some(at) = rest.find(['{', '}']) {
        let unpaired = || BadStep::Brace(arg.to_owned());
        let inside = rest[at..].strip_prefix('{').ok_or_else(unpaired)?;
        let (name, after) = inside.split_once('}').ok_or_else(unpaired)?;
        if !PLACEHOLDERS.contains(&name) {
            return Err(BadStep::Placeholder(name.to_owned()));
        }
        rest = after;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read() {
        let read = |text| parse(text).map(|(name, args)| (name, args.join("|")));
        assert_eq!(
            read("thread-history"),
            Ok(("thread-history".into(), String::new()))
        );
        assert_eq!(
            read(" knowledge ( ) "),
            Ok(("knowledge".into(), String::new()))
        );
        assert_eq!(
            read("load-file(a/{persona_id}/B.md, 2)"),
            Ok(("load-file".into(), "a/{persona_id}/B.md|2".into()))
        );
    }

    #[test]
    fn broken_steps_say_what_is_wrong() {
        let cases = [
            ("", BadStep::Name),
            ("(x)", BadStep::Name),
            ("Load File(x)", BadStep::Name),
            ("load-file(x", BadStep::Unclosed),
            ("load-file(x) y", BadStep::Trailing),
            ("load-file(x,,y)", BadStep::EmptyArgument),
        ];
        for (text, error) in cases {
            assert_eq!(parse(text), Err(error), "{text}");
        }
        assert_eq!(check_placeholders("a/{persona_id}/{persona_id}"), Ok(()));
        assert_eq!(
            check_placeholders("{persona}"),
            Err(BadStep::Placeholder("persona".into()))
        );
        assert_eq!(check_placeholders("a}"), Err(BadStep::Brace("a}".into())));
        assert_eq!(check_placeholders("{a"), Err(BadStep::Brace("{a".into())));
    }
}
