//! What is printed on a terminal, into a pipe, and where nobody reads.

use super::*;

/// A screen on paper, of a terminal with so many columns.
fn drawn(width: usize, draw: impl Fn(&Screen)) -> String {
    let paper = Paper::default();
    let screen = Screen::new(Box::new(paper.clone()), true, false).with_width(width);
    draw(&screen);
    let bytes = paper.0.lock().expect("no writer panicked").clone();
    String::from_utf8(bytes).expect("text")
}

#[test]
fn an_empty_list_on_a_terminal_says_that_there_is_nothing() {
    let none: [(String, String); 0] = [];
    let shown = drawn(80, |screen| {
        screen
            .list(&none, &["ID", "TO"], "nothing is queued", |_| Vec::new())
            .expect("paper takes everything");
    });
    assert_eq!(shown, "nothing is queued\n");
}

#[test]
fn prose_ends_where_the_terminal_ends_and_keeps_its_mark() {
    let letter =
        "Dear Porter,\nplease bring the two brown bags and the hat box to the station before noon.";
    let shown = drawn(40, |screen| {
        screen.behind("| ", letter).expect("paper takes everything");
        let fields = [(
            "what",
            "a sentence that is longer than the terminal is wide".to_owned(),
        )];
        screen.fields(&fields).expect("paper takes everything");
        let faint = anstyle::Style::new().dimmed();
        let pieces = [
            (faint, "    | "),
            (
                anstyle::Style::new(),
                "and a piece of the timeline that is long",
            ),
        ];
        screen.styled(&pieces).expect("paper takes everything");
    });
    let wanted = "| Dear Porter,
| please bring the two brown bags and
| the hat box to the station before
| noon.
what  a sentence that is longer than the
      terminal is wide
\u{1b}[2m    | \u{1b}[0mand a piece of the timeline that
    | is long
";
    assert_eq!(shown, wanted);
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    let workspace = Workspace::new();
    for args in [&["config", "schema"][..], &["config", "show"]] {
        let mut command = attache(&[&["--workspace", text(workspace.0.path())], args].concat());
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let Output { status, stderr, .. } = command
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .and_then(Child::wait_with_output)
            .expect("it ends");
        assert_eq!(
            (status.code(), String::from_utf8_lossy(&stderr).as_ref()),
            (Some(0), ""),
            "{args:?}"
        );
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let workspace = Workspace::new();
    for args in [
        &["config", "show"][..],
        &["config", "schema"],
        &["persona", "list", "--json"],
        &["--help"],
    ] {
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .expect("a device without room");
        let mut command = attache(&[&["--workspace", text(workspace.0.path())], args].concat());
        let Output { status, stderr, .. } = command
            .stdout(full)
            .stderr(Stdio::piped())
            .spawn()
            .and_then(Child::wait_with_output)
            .expect("it ends");
        let stderr = String::from_utf8_lossy(&stderr);
        assert_eq!(status.code(), Some(75), "{args:?}: {stderr}");
        assert!(
            stderr.contains("the output cannot be written"),
            "{args:?}: {stderr}"
        );
    }
}

#[test]
fn every_letter_is_taken_when_the_output_reader_goes_away() {
    let workspace = Workspace::new();
    let sample = std::fs::read_to_string(workspace.path("configs/demo/letter.eml"))
        .expect("the sample letter");
    let mut args = vec![
        "--workspace".to_owned(),
        text(workspace.0.path()).to_owned(),
        "ingest".to_owned(),
    ];
    for number in 0..3 {
        let file = workspace.path(&format!("{number}.eml"));
        std::fs::write(
            &file,
            sample.replace("20261118182405", &format!("2026111818240{number}")),
        )
        .expect("a letter");
        args.push(text(&file).to_owned());
    }
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = attache(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let status = command.stdout(writer).status().expect("it ends");
    assert_eq!(status.code(), Some(0));
    assert_eq!(
        workspace.json(&["runs", "list"]).as_array().map(Vec::len),
        Some(3)
    );
}
