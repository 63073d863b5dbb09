//! What the pages tell a reader to type is understood: every `attache …` in prose has a command, and options, that exist.

use super::pages;
use crate::readme::page::{self, Piece};
use crate::readme::read;
use attache::cli;

#[test]
fn every_command_that_is_named_exists_with_its_options() {
    let mut root = cli::command();
    root.build();
    let mut seen = 0;
    for path in pages() {
        let text = read(&path);
        let mut lines: Vec<String> = page::codes(&text);
        if !path.starts_with("docs/reference/") && path != "src/ARCHITECTURE.md" {
            lines.extend(
                page::pieces(&text)
                    .into_iter()
                    .filter_map(|piece| match piece {
                        Piece::NotRun { line } | Piece::Command { line, .. } => Some(line),
                        Piece::File { .. } => None,
                    }),
            );
        }
        for line in lines.iter().filter(|line| line.starts_with("attache ")) {
            seen += 1;
            understood(&root, line).unwrap_or_else(|wrong| panic!("{path}: `{line}`: {wrong}"));
        }
    }
    assert!(seen > 100, "only {seen} commands were found");
}

fn understood(root: &clap::Command, line: &str) -> Result<(), String> {
    let mut command = root;
    let is_typed = |word: &&str| !matches!(*word, "|" | "&" | ">" | "2>&1" | "…");
    for word in line.split_whitespace().skip(1).take_while(is_typed) {
        if let Some(option) = word.strip_prefix("--") {
            let name = option.split('=').next().unwrap_or(option);
            if !name.is_empty()
                && !command
                    .get_arguments()
                    .any(|arg| arg.get_long() == Some(name))
            {
                return Err(format!("no option --{name} of `{}`", command.get_name()));
            }
        } else if let Some(below) = command.find_subcommand(word) {
            command = below;
        } else if command.has_subcommands()
            && command.get_positionals().next().is_none()
            && word == word.to_lowercase()
        {
            // An option's value may stand there, as in `--workspace house`.
            let is_value = line.contains(&format!("--workspace {word}")) || word.starts_with("-");
            if !is_value {
                return Err(format!("no command `{word}`"));
            }
        }
    }
    Ok(())
}

#[test]
fn a_command_or_an_option_that_does_not_exist_is_found() {
    let mut root = cli::command();
    root.build();
    for good in [
        "attache serve --log info",
        "attache runs list --json",
        "attache --workspace house ingest x.eml",
        "attache replay last",
    ] {
        assert_eq!(understood(&root, good), Ok(()), "{good}");
    }
    for bad in [
        "attache sevre",
        "attache runs lst",
        "attache serve --fast",
        "attache outbox show --log-fromat x",
    ] {
        assert!(understood(&root, bad).is_err(), "{bad}");
    }
}
