//! The README is true: its commands run as shown, and what it names is there.

mod page;
mod place;
mod providers;

use attache::cli;
use page::Piece;
use place::Place;
use std::collections::BTreeSet;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_shown_works_as_shown() {
    let mut place = Place::new().await;
    let mut commands = 0;
    for piece in page::pieces(&page::text()) {
        match piece {
            // The configuration of another program; `tests/peers/` runs it.
            Piece::File { path, text } if path.starts_with('/') => stands_in_the_peer_test(&text),
            Piece::File { path, text } => place.write(&path, &text),
            Piece::Command { line, shown } => {
                commands += 1;
                tokio::task::block_in_place(|| place.run(&line, &shown));
            }
        }
    }
    assert!(commands >= 10, "only {commands} commands were found");
    let asked = place.model.received_requests().await.expect("they are recorded");
    let asked = String::from_utf8_lossy(&asked.last().expect("the model was asked").body).into_owned();
    for told in ["three bicycles", "We lend six bicycles", "You answer letters about bicycles"] {
        assert!(asked.contains(told), "the model was not told `{told}`:\n{asked}");
    }
    place.smarthost.heard(|heard| {
        assert_eq!(heard.accepted().len(), 1);
        assert_eq!(heard.mails[0].to, ["anna.berger@traveller.example"]);
        assert_eq!(heard.count("AUTH"), 1);
    });
}

fn stands_in_the_peer_test(text: &str) {
    let tested = read("tests/peers/postfix/main.cf").replace("@HOUSE@", "2525");
    for line in text.lines() {
        assert!(tested.lines().any(|other| other == line), "tests/peers/postfix/main.cf lacks `{line}`");
    }
}

#[test]
fn every_guarantee_names_a_test_that_exists() {
    let rows = page::table(&page::text(), "guarantee");
    assert!(rows.len() >= 15, "the table was not found");
    for row in rows {
        let code = row[1].trim_matches('`');
        let (path, name) = code.split_once("::").unwrap_or_else(|| panic!("`{code}` is not `path::name`"));
        let source = read(path);
        let at = source.find(&format!("fn {name}(")).unwrap_or_else(|| panic!("{path} has no test `{name}`"));
        let above = source[..at].trim_end_matches("async ").lines().rev().take(3).collect::<String>();
        assert!(above.contains("test"), "{path}: `{name}` is no test");
    }
}

#[test]
fn every_path_mentioned_is_there() {
    let page = page::text();
    let links = page.split("](").skip(1).filter_map(|rest| rest.split(')').next()).map(str::to_owned);
    let links = links.filter(|link| !link.starts_with('#'));
    let tops = ["src/", "tests/", "configs/", "personas/", "migrations/", "benches/", ".ci/"];
    let is_path = |code: &String| {
        tops.iter().any(|top| code.starts_with(top)) && !code.contains([' ', '<', '*', ':', '{'])
    };
    let mentioned: BTreeSet<String> = page::codes(&page).into_iter().filter(is_path).chain(links).collect();
    assert!(mentioned.len() >= 8, "{mentioned:?}");
    for path in mentioned {
        assert!(root().join(&path).exists(), "README.md mentions `{path}`, which is not there");
    }
}

#[test]
fn every_command_is_in_the_table_and_nothing_else() {
    let mut known = BTreeSet::new();
    for command in cli::command().get_subcommands() {
        let name = format!("attache {}", command.get_name());
        let below: Vec<_> =
            command.get_subcommands().map(|sub| format!("{name} {}", sub.get_name())).collect();
        known.extend(if below.is_empty() { vec![name] } else { below });
    }
    let listed = page::table(&page::text(), "command");
    let listed: BTreeSet<_> = listed.iter().map(|row| row[0].trim_matches('`').to_owned()).collect();
    assert_eq!(listed, known);
}

#[test]
fn every_key_and_name_of_the_configuration_exists_and_no_file_is_left_out() {
    let page = page::text();
    let rows = page::table(&page, "file");
    let schemas =
        ["gateway", "inference", "prices", "context", "security"].map(|name| format!("configs/{name}.json"));
    let schema_of = |file: &str| match file {
        "personas/<id>/persona.json" => Some(read("configs/schema/persona.json")),
        file if schemas.iter().any(|known| known == file) => {
            Some(read(&file.replace("configs/", "configs/schema/")))
        }
        _ => None,
    };
    let mut described = 0;
    for row in &rows {
        let Some(schema) = schema_of(row[0].trim_matches('`')) else { continue };
        described += 1;
        let samples = schema + &read("configs/context.json");
        for key in page::codes(&row[1]) {
            assert!(samples.contains(&format!("\"{key}\"")), "{}: no key or word `{key}`", row[0]);
        }
        let whole: serde_json::Value = serde_json::from_str(&read_schema(&row[0])).expect("a schema");
        for key in whole["properties"].as_object().expect("an object").keys().filter(|key| *key != "$schema")
        {
            assert!(row[1].contains(&format!("`{key}`")), "{}: `{key}` is not mentioned", row[0]);
        }
    }
    assert_eq!(described, schemas.len() + 1);
    let vocabulary = cli::vocabulary();
    let resolvers = vocabulary.resolvers.iter().map(|(name, _)| *name);
    let names = vocabulary.tools.iter().chain(&vocabulary.providers).copied().chain(resolvers);
    for name in names {
        assert!(page.contains(&format!("`{name}`")), "`{name}` is not mentioned");
    }
}

fn read_schema(cell: &str) -> String {
    let file = cell.trim_matches('`');
    let name = file.rsplit('/').next().expect("a name");
    read(&format!("configs/schema/{name}"))
}
