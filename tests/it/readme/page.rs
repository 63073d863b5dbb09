//! A page of the documentation as a test reads it: files to write, commands to run with what they print, tables.

/// A fenced block, or a part of one.
#[derive(Debug)]
pub enum Piece {
    /// A fence with a path behind its language.
    File { path: String, text: String },
    /// A line of a `console` fence that starts with `$ `, and the lines below it.
    Command { line: String, shown: Vec<String> },
    /// A line of a fence `console not run: REASON`: no test can run it, and the page says why.
    NotRun { line: String },
}

/// Begins the reason why a `console` fence is not executed.
const NOT_RUN: &str = "console not run: ";

/// All fenced blocks in order. A fence that is neither is a mistake: nothing would check it.
pub fn pieces(page: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(info) = line.strip_prefix("```") else {
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        if let Some(reason) = info.strip_prefix(NOT_RUN) {
            assert!(
                reason.len() > 10,
                "a fence ```{info}: say why no test runs it"
            );
            let commands = block.iter().filter_map(|line| line.strip_prefix("$ "));
            pieces.extend(commands.map(|line| Piece::NotRun {
                line: line.to_owned(),
            }));
            continue;
        }
        match info.split_once(' ') {
            Some((_, path)) => {
                pieces.push(Piece::File {
                    path: path.to_owned(),
                    text: block.join("\n") + "\n",
                });
            }
            None if info == "console" => commands(&block, &mut pieces),
            None => panic!("a fence ```{info}: say `console`, or name the file that it shows"),
        }
    }
    pieces
}

fn commands(block: &[&str], pieces: &mut Vec<Piece>) {
    for line in block {
        match (line.strip_prefix("$ "), pieces.last_mut()) {
            (Some(command), _) => pieces.push(Piece::Command {
                line: command.to_owned(),
                shown: Vec::new(),
            }),
            (None, Some(Piece::Command { shown, .. })) => shown.push((*line).to_owned()),
            (None, _) => panic!("`{line}` is shown before any command"),
        }
    }
}

/// The rows of every table whose first heading is this one, cell by cell.
pub fn table(page: &str, heading: &str) -> Vec<Vec<String>> {
    let start = format!("| {heading} |");
    let mut rows = Vec::new();
    let mut lines = page.lines();
    while lines.by_ref().any(|line| line.starts_with(&start)) {
        rows.extend(
            lines
                .by_ref()
                .skip(1)
                .take_while(|line| line.starts_with('|')),
        );
    }
    let cells = |row: &str| {
        row.trim_matches('|')
            .split(" | ")
            .map(|cell| cell.trim().to_owned())
            .collect()
    };
    rows.into_iter().map(cells).collect()
}

/// The lines of a page outside fences.
pub fn prose(text: &str) -> String {
    let mut inside = false;
    let outside = text.lines().filter(|line| {
        let fence = line.starts_with("```");
        inside ^= fence;
        !inside && !fence
    });
    outside.map(|line| format!("{line}\n")).collect()
}

/// Everything between single backticks, outside fences; a code may go on in the next line of its paragraph.
pub fn codes(text: &str) -> Vec<String> {
    let prose = prose(text);
    let paragraphs = prose.split("\n\n");
    let of = |paragraph: &str| {
        paragraph
            .split('`')
            .skip(1)
            .step_by(2)
            .map(|code| code.replace('\n', " "))
            .collect()
    };
    paragraphs
        .flat_map(|paragraph| -> Vec<String> { of(paragraph) })
        .collect()
}

/// Whether output is what the page shows. `…` stands for any text of a line, and alone for any number of lines.
pub fn shows(shown: &[String], printed: &str) -> Result<(), String> {
    let mut lines = printed.lines();
    let mut anywhere = false;
    for wanted in shown {
        if wanted == "…" {
            anywhere = true;
            continue;
        }
        let found = if anywhere {
            lines.any(|line| fits(wanted, line))
        } else {
            lines.next().is_some_and(|line| fits(wanted, line))
        };
        if !found {
            return Err(format!(
                "the page shows\n{wanted}\nbut this was printed:\n{printed}"
            ));
        }
        anywhere = false;
    }
    match lines.next() {
        Some(line) if !anywhere && !shown.is_empty() => Err(format!(
            "the page does not show\n{line}\nof what was printed:\n{printed}"
        )),
        _ => Ok(()),
    }
}

fn fits(wanted: &str, line: &str) -> bool {
    let pieces: Vec<&str> = wanted.split('…').collect();
    let [first, between @ .., last] = pieces.as_slice() else {
        return wanted == line;
    };
    let Some(mut rest) = line.strip_prefix(first) else {
        return false;
    };
    for piece in between {
        let Some(at) = rest.find(piece) else {
            return false;
        };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn a_fence_that_is_not_run_says_why() {
    let read = pieces("```console not run: it waits for real minutes\n$ sleep 600\ndone\n```\n");
    assert!(
        matches!(read.as_slice(), [Piece::NotRun { line }] if line == "sleep 600"),
        "{read:?}"
    );
}

#[test]
fn what_is_shown_is_compared_line_by_line() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    for shown in ["a\nb c d", "a\nb…d", "…\nb c d", "a\n…", "…", ""] {
        assert_eq!(shows(&lines(shown), "a\nb c d\n"), Ok(()), "{shown:?}");
    }
    for shown in [
        "a",
        "b c d",
        "a\nb c",
        "a\nb…x",
        "a\nb c d\ne",
        "…\na",
        "…\nz",
    ] {
        assert!(shows(&lines(shown), "a\nb c d\n").is_err(), "{shown:?}");
    }
}
