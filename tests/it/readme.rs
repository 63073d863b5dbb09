//! The README is true: its commands run as shown, and its guarantees are held by tests that exist.

pub mod page;
pub mod place;
mod providers;

use page::Piece;
use place::Place;
use std::path::Path;

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn every_command_shown_works_as_shown() {
    let mut place = Place::new().await;
    let mut commands = 0;
    for piece in page::pieces(&read("README.md")) {
        assert!(
            !matches!(piece, Piece::NotRun { .. }),
            "everything that the README shows is executed"
        );
        commands += usize::from(place.follow(&piece));
    }
    assert!(commands >= 10, "only {commands} commands were found");
    let asked = place.model.seen().pop().expect("the model was asked").body;
    for told in [
        "three bicycles",
        "We lend six bicycles",
        "You answer letters about bicycles",
    ] {
        assert!(
            asked.contains(told),
            "the model was not told `{told}`:\n{asked}"
        );
    }
    place.smarthost.heard(|heard| {
        assert_eq!(heard.accepted().len(), 1);
        assert_eq!(heard.mails[0].to, ["anna.berger@traveller.example"]);
        assert_eq!(heard.count("AUTH"), 1);
    });
}

#[test]
fn every_guarantee_names_a_test_that_exists() {
    for (page, rows_min) in [("README.md", 6), ("docs/guarantees.md", 100)] {
        let rows = page::table(&read(page), "guarantee");
        assert!(rows.len() >= rows_min, "{page}: the table was not found");
        for row in rows {
            let code = row[1].trim_matches('`');
            let (path, name) = code
                .split_once("::")
                .unwrap_or_else(|| panic!("`{code}` is not `path::name`"));
            let source = read(path);
            let at = source
                .find(&format!("fn {name}("))
                .unwrap_or_else(|| panic!("{path} has no test `{name}`"));
            let above = source[..at]
                .trim_end_matches("async ")
                .lines()
                .rev()
                .take(3)
                .collect::<String>();
            assert!(above.contains("test"), "{path}: `{name}` is no test");
        }
    }
}
