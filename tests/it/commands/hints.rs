//! Errors with a hint of what would work.

use super::*;

#[test]
fn a_letter_that_no_rule_knows_gets_a_polite_answer() {
    let workspace = Workspace::new();
    workspace.letter("other.eml", "Bicycles", "Do you have bicycles?");
    workspace.ok(&["ingest", "other.eml"]);
    workspace.ok(&["drain"]);
    let record = workspace.json(&["replay", "last"]);
    let text = record["mails"][0]["message"]["text"]
        .as_str()
        .expect("a mail");
    assert!(
        text.contains("\"Bicycles\"") && text.contains("configs/inference.json"),
        "{text}"
    );
}

#[test]
fn what_is_not_there_is_said_with_a_hint() {
    let workspace = Workspace::new();
    let commands: [(&[&str], &str); 6] = [
        (&["replay", "last"], "attache ingest"),
        (&["replay", "0199aabbccdd"], "list"),
        (&["runs", "show", "0199aabbccdd"], "list"),
        (&["runs", "cancel", "nonsense"], "list"),
        (&["runs", "retry", "01"], "list"),
        (&["threads", "show", "0199aabbccdd"], "list"),
    ];
    for (args, way) in commands {
        let said = workspace.run(args);
        assert_eq!(
            (said.code, said.stdout.as_str()),
            (66, ""),
            "{args:?}: {}",
            said.stderr
        );
        let hint = said.stderr.split_once("hint: ").map(|(_, hint)| hint);
        assert!(
            hint.is_some_and(|hint| hint.contains(way)),
            "{args:?}: {}",
            said.stderr
        );
    }
    let folder = TempDir::new().expect("a temporary folder");
    // A mail server that calls `ingest` must keep the letter while a disk is not mounted.
    for (args, code) in [
        (&["serve"][..], 78),
        (&["drain"], 78),
        (&["runs", "list"], 78),
        (&["ingest", "x.eml"], 75),
        (&["replay", "last"], 78),
    ] {
        let said = answer(
            attache(folder.path(), args)
                .output()
                .expect("the binary runs"),
        );
        assert_eq!(said.code, code, "{args:?}: {}", said.stderr);
    }
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("a folder").count(),
        0,
        "nothing was made by looking"
    );
}

#[test]
fn an_ambiguous_beginning_lists_what_it_could_mean() {
    let workspace = Workspace::new();
    workspace.letter("one.eml", "One", "First.");
    workspace.letter("two.eml", "Two", "Second.");
    let runs = runs_of(&workspace.json(&["ingest", "one.eml", "two.eml"]));
    let said = workspace.run(&["replay", &runs[0][..6]]);
    assert_eq!(said.code, 66, "{}", said.stderr);
    assert!(
        runs.iter().all(|run| said.stderr.contains(run)),
        "{}",
        said.stderr
    );
    let same = runs[0]
        .bytes()
        .zip(runs[1].bytes())
        .take_while(|(a, b)| a == b)
        .count();
    assert_eq!(
        workspace.json(&["replay", &runs[1][..=same]])["run"]["id"],
        runs[1].as_str()
    );
}

#[test]
#[ignore = "second tier"]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    let workspace = Workspace::new();
    workspace.ok(&["ingest", LETTER]);
    workspace.ok(&["drain"]);
    for args in [
        &["replay", "last", "--full"][..],
        &["replay", "last", "--json"],
        &["runs", "list"],
        &["demo"],
    ] {
        let mut command = attache(workspace.path(), args);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        drop(child.stdout.take());
        let said = answer(child.wait_with_output().expect("it ends"));
        assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{args:?}");
    }
}

#[test]
#[ignore = "second tier"]
fn text_from_mail_cannot_drive_the_terminal() {
    let workspace = Workspace::new();
    let hostile = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}";
    workspace.letter(
        "evil.eml",
        &format!("Hi {hostile}"),
        &format!("Look:\n{hostile}\nrun 0  succeeded"),
    );
    workspace.ok(&["ingest", "evil.eml"]);
    workspace.ok(&["drain"]);
    let thread = workspace.json(&["threads", "list"])[0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let commands: [&[&str]; 7] = [
        &["replay", "last", "--full"],
        &["replay", &thread],
        &["replay", "last", "--json"],
        &["threads", "list"],
        &["threads", "show", &thread],
        &["runs", "list"],
        &["runs", "show", "last"],
    ];
    for args in commands {
        let said = workspace.ok(args).stdout;
        let driven = said
            .chars()
            .find(|c| !matches!(c, '\n' | '\t') && (c.is_control() || *c == '\u{202e}'));
        assert_eq!(driven, None, "{args:?} prints {driven:?}");
        let imitated = said.lines().any(|line| line.starts_with("run 0  "));
        assert!(!imitated, "{args:?} shows a line of the letter as its own");
    }
}
