//! Words that have one home, and words that have none.

use crate::source::{File, line_of, occurrences};

/// Some words, the places where they may stand, and what to do elsewhere.
struct Home {
    words: &'static [&'static str],
    /// Files, or folders that end in `/`.
    places: &'static [&'static str],
    instead: &'static str,
}

const HOMES: &[Home] = &[
    Home {
        words: &["SystemTime::now", "Utc::now", "Local::now", "Instant::now"],
        places: &["src/base/clock.rs"],
        instead: "take the time as an argument, or from a `Clock`",
    },
    Home {
        words: &[
            "tokio::spawn",
            "task::spawn(",
            "task::spawn_local",
            "thread::spawn",
        ],
        places: &["src/app.rs", "src/store/sqlite/writer/"],
        instead: "return the future and let `app.rs` run it, or supervise it in a `TaskTracker` or `JoinSet`",
    },
    Home {
        words: &["std::env::", "std::env;", "env::var"],
        // A crash point and a guard that is off must not need a configuration.
        places: &[
            "src/settings/config/",
            "src/main.rs",
            "src/base/crash.rs",
            "src/base/mutants.rs",
        ],
        instead: "read the environment in `config/` and pass a setting down",
    },
    Home {
        words: &["println!", "print!", "eprintln!", "eprint!"],
        places: &["src/cli/", "src/main.rs"],
        instead: "return a value to the command, or log with `tracing`",
    },
    Home {
        words: &[
            "std::process::Command",
            "process::Command",
            "tokio::process",
            "use std::process::{",
        ],
        places: &[
            "src/providers/child/process.rs",
            // One locked child for each document, bounded and ended there.
            "src/letter/extract/",
            // One sandbox for each command, and in it the command.
            "src/engine/shell/",
            // The editor of whoever types the command, on their terminal.
            "src/cli/drafts/editor.rs",
            // The browser of whoever logs in.
            "src/cli/mcp/browser.rs",
        ],
        instead: "start agents through `providers/child/process.rs`, which bounds and ends them",
    },
    Home {
        words: &[
            "Client::builder",
            "ClientBuilder::new",
            "reqwest::Client::new",
            "reqwest::blocking",
            "reqwest::get",
            "hyper::client",
            "hyper_util::client",
            // These make a client of their own.
            "StreamableHttpClientTransport::from_uri",
            "SseClientTransport::start",
        ],
        places: &[
            // Where all of them begin.
            "src/settings/web/tls.rs",
        ],
        instead: "fetch through `web::WebFetcher`, which looks at every address first",
    },
    Home {
        words: &["http_client"],
        places: &[
            "src/settings/web/tls.rs",
            "src/settings/web/mod.rs",
            // URLs that an operator wrote.
            "src/providers/transport/client.rs",
            // Looks at every address first.
            "src/settings/web/fetcher.rs",
        ],
        instead: "fetch through `web::WebFetcher`, which looks at every address first",
    },
    Home {
        words: &["TcpStream::connect"],
        places: &[
            // Servers that an operator wrote.
            "src/gateway/outbound/smtp/connection.rs",
            "src/gateway/ingress/imap/dial.rs",
        ],
        instead: "fetch through `web::WebFetcher`, or send mail by a transport",
    },
    Home {
        words: &[".unwrap()", ".expect(", ".unwrap_err()", ".expect_err("],
        places: &[],
        instead: "return an error with `?`, or give a value with `unwrap_or` and say why the case is impossible",
    },
    Home {
        words: &["sqlx::"],
        places: &[
            "src/store/db/",
            "src/store/sqlite/",
            "src/store/postgres/",
            "src/store/writes/",
            "src/store/migrations.rs",
            // Migrations, copies and checks of a file.
            "src/store/maintenance/",
            "src/store/memory/rewrite.rs",
            // Files that are opened to read.
            "src/store/audit.rs",
            "src/store/views/export.rs",
        ],
        instead: "execute a statement by `store::db`, which knows the database",
    },
    Home {
        words: &["todo!", "unimplemented!", "dbg!"],
        places: &[],
        instead: "finish it, or leave it out",
    },
    Home {
        words: &["#[allow", "#![allow"],
        places: &[],
        instead: "mend the cause, or write `#[expect(lint, reason = \"…\")]`",
    },
];

/// Words outside their home, in code that is not a test.
pub fn strays(file: &File) -> Vec<String> {
    let mut complaints = Vec::new();
    for home in HOMES
        .iter()
        .filter(|home| !home.places.iter().any(|place| is_in(&file.path, place)))
    {
        let mut lines: Vec<(usize, &str)> = Vec::new();
        for word in home.words {
            lines.extend(occurrences(&file.live, word).map(|at| (line_of(&file.live, at), *word)));
        }
        lines.sort_unstable();
        lines.dedup_by_key(|(line, _)| *line);
        for (line, word) in lines {
            complaints.push(format!(
                "{}:{line}: `{word}` is not at home here: {}",
                file.path, home.instead
            ));
        }
    }
    complaints
}

fn is_in(path: &str, place: &str) -> bool {
    if place.ends_with('/') {
        path.starts_with(place)
    } else {
        path == place
    }
}

/// Beginnings of statements, and what must follow somewhere behind them.
const STATEMENTS: &[(&str, &str)] = &[
    ("SELECT ", "FROM "),
    ("INSERT INTO ", ""),
    ("INSERT OR ", " INTO "),
    ("UPDATE ", " SET "),
    ("DELETE FROM ", ""),
    ("CREATE TABLE ", ""),
    ("CREATE INDEX ", ""),
    ("ALTER TABLE ", ""),
    ("DROP TABLE ", ""),
    ("PRAGMA ", ""),
    ("BEGIN IMMEDIATE", ""),
];

/// SQL in string literals outside the store.
pub fn sql(file: &File) -> Vec<String> {
    if is_in(&file.path, "src/store/") {
        return Vec::new();
    }
    let is_sql = |text: &str| {
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ") + " ";
        // Lower case counts only where a statement begins the string, because English has the same words.
        let shouted = |(first, then): &(&str, &str)| follows(&flat, first, then);
        let whispered = |(first, then): &(&str, &str)| {
            flat.starts_with(&first.to_lowercase())
                && follows(&flat, &first.to_lowercase(), &then.to_lowercase())
        };
        STATEMENTS
            .iter()
            .any(|statement| shouted(statement) || whispered(statement))
    };
    let found = file.literals.iter().filter(|literal| is_sql(&literal.text));
    let place = |line: usize| {
        format!(
            "{}:{line}: SQL outside `src/store/`: write a named transaction there and call it",
            file.path
        )
    };
    found.map(|literal| place(literal.line)).collect()
}

/// Tests that no command runs: what `cargo test` leaves out, `.ci/run` runs as the second tier, which such a test names.
pub fn left_out(file: &File) -> Vec<String> {
    let lines = file.code.lines().zip(file.text.lines()).enumerate();
    let found = lines.filter(|(_, (code, text))| {
        code.contains("#[ignore") && text.trim() != "#[ignore = \"second tier\"]"
    });
    found
        .map(|(index, _)| {
            format!(
                "{}:{}: only a test of the second tier is left out: write `#[ignore = \"second tier\"]`, or mend the test",
                file.path,
                index + 1
            )
        })
        .collect()
}

#[test]
fn a_test_is_left_out_for_one_reason_only() {
    let complaints = |text: &str| left_out(&File::new("tests/it/a.rs", text)).len();
    assert_eq!(complaints("#[ignore = \"second tier\"]\nfn a() {}"), 0);
    assert_eq!(complaints("// #[ignore]\nfn a() {}"), 0);
    assert_eq!(complaints("#[ignore]\nfn a() {}"), 1);
    assert_eq!(complaints("#[ignore = \"flaky\"]\nfn a() {}"), 1);
}

/// Columns of `src/store` read by their position, which another column in the statement would shift.
pub fn columns_by_position(file: &File) -> Vec<String> {
    if !is_in(&file.path, "src/store/") {
        return Vec::new();
    }
    let lines = file.live.lines().enumerate();
    let found = lines.filter(|(_, line)| line.contains("query_as") || reads_by_position(line));
    found
        .map(|(index, _)| {
            format!(
                "{}:{}: a column is read by its position: name it (`AS name`) and read it by its name",
                file.path,
                index + 1
            )
        })
        .collect()
}

/// `row.get(0)`, `row.get::<String, _>(0)`, `row.try_get(0)`.
fn reads_by_position(line: &str) -> bool {
    let calls = [".get(", ".try_get(", ", _>("];
    calls.iter().any(|call| {
        line.split(call)
            .skip(1)
            .filter_map(|rest| rest.split_once(')'))
            .any(|(index, _)| index.parse::<usize>().is_ok())
    })
}

#[test]
fn a_column_read_by_its_position_is_found() {
    let file = |line: &str| File::new("src/store/x.rs", &format!("fn f() {{ {line} }}"));
    for bad in [
        "row.get(0)",
        "row.get::<String, _>(12)",
        "sqlx::query_as(X)",
    ] {
        assert_eq!(columns_by_position(&file(bad)).len(), 1, "{bad}");
    }
    for good in [
        "row.get(\"id\")",
        "list.get(at)",
        "row.get::<i64, _>(\"n\")",
    ] {
        assert_eq!(
            columns_by_position(&file(good)),
            Vec::<String>::new(),
            "{good}"
        );
    }
}

fn follows(text: &str, first: &str, then: &str) -> bool {
    text.find(first)
        .is_some_and(|at| text[at + first.len()..].contains(then.trim_start()))
}

#[test]
fn a_stray_word_is_found_with_its_line() {
    let samples = [
        "let at = SystemTime::now();",
        "let at = chrono::Utc::now();",
        "tokio::spawn(async {});",
        "let key = std::env::var(\"KEY\");",
        "println!(\"hi\");",
        "eprint!(\"hi\");",
        "std::process::Command::new(\"sh\");",
        "x.unwrap();",
        "x.expect(\"so\");",
        "todo!();",
        "dbg!(x);",
        "unimplemented!();",
        "#[allow(dead_code)]",
    ];
    for sample in samples {
        let found = strays(&File::new(
            "src/engine/tools/x.rs",
            &format!("//! Head.\n\nfn f() {{\n{sample}\n}}\n"),
        ));
        assert_eq!(found.len(), 1, "{sample}: {found:?}");
        assert!(
            found[0].starts_with("src/engine/tools/x.rs:4: "),
            "{found:?}"
        );
    }
}

#[test]
fn a_word_in_a_comment_a_string_or_a_test_is_no_stray() {
    let text = "//! No `.unwrap()`.\nfn f() -> &'static str { \"println! and todo!\" }\n\
        fn g(x: Option<u8>) -> u8 { x.unwrap_or(0) }\n#[expect(dead_code, reason = \"r\")]\n\
        #[cfg(test)]\nmod tests { fn t() { Some(1).unwrap(); tokio::spawn(async {}); } }\n";
    assert_eq!(
        strays(&File::new("src/engine/tools/x.rs", text)),
        Vec::<String>::new()
    );
    assert_eq!(
        strays(&File::new(
            "src/base/clock.rs",
            "fn f() { SystemTime::now(); }"
        )),
        Vec::<String>::new()
    );
    assert_eq!(
        strays(&File::new("src/cli/x.rs", "fn f() { println!(); }")),
        Vec::<String>::new()
    );
}

#[test]
fn sql_is_found_in_any_string_and_english_is_not() {
    let bad = [
        "SELECT id\\n FROM runs",
        "INSERT INTO runs VALUES (1)",
        "insert or ignore into runs values (1)",
        "UPDATE runs SET a = 1",
        "delete from runs",
        "PRAGMA journal_mode",
        "WITH x AS (SELECT 1 FROM y)",
    ];
    for sql_text in bad {
        let text = format!("const X: &str = \"{}\";", sql_text.replace("\\n", "\n"));
        assert_eq!(
            sql(&File::new("src/harness/x.rs", &text)).len(),
            1,
            "{sql_text}"
        );
        assert_eq!(
            sql(&File::new("src/store/x.rs", &text)).len(),
            0,
            "{sql_text}"
        );
    }
    for english in [
        "please select one from the list",
        "an update will set it",
        "From: x",
        "SELECT a mailbox",
    ] {
        assert_eq!(
            sql(&File::new("src/harness/x.rs", &format!("f(\"{english}\")"))).len(),
            0,
            "{english}"
        );
    }
    let raw = "const X: &str = r#\"SELECT \"a\" FROM b\"#;";
    assert_eq!(sql(&File::new("src/harness/x.rs", raw)).len(), 1);
}
