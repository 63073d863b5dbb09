//! The command dies at every step: no engine starts on what is half done, and the same command finishes it, or takes it back.

use super::cells::{Rows, ada, cell, lines, lived, other};
use crate::app::Workspace;
use crate::maintenance::whole_backup::dies;
use crate::replay::attache;
use attache::store::{OpenError, Store};

/// Points that these tests come to, in place of a workload of the sweep.
pub const POINTS: &[&str] = &["PM1", "PM2", "PM3", "PM4", "PM5"];

const TABLES: [&str; 8] = [
    "messages",
    "runs",
    "run_turns",
    "thread_tool_events",
    "deliveries",
    "approvals",
    "usage_ledger",
    "responsibility_slots",
];

async fn of_ada(workspace: &Workspace) -> Vec<String> {
    let mut rows = workspace.rows().await;
    let mut found = Vec::new();
    for table in TABLES {
        found.extend(lines(&mut rows, table, "persona_id = 'ada'").await);
    }
    found
}

fn has_folder(workspace: &Workspace) -> bool {
    workspace.path().join("personas/ada").is_dir()
}

/// Reports whether an engine starts; a refusal is that of a persona on its way.
async fn starts(workspace: &Workspace) -> bool {
    match Store::open(workspace.path(), workspace.clock.clone()).await {
        Ok(store) => {
            store.close().await;
            true
        }
        Err(OpenError::PersonaOnItsWay { persona, .. }) => {
            assert_eq!(persona, ada().to_string());
            false
        }
        Err(other) => panic!("{other:?}"),
    }
}

fn cells_of_files(files: usize) -> (Rows, Rows) {
    match files {
        0 => (Rows::File, Rows::Server),
        1 => (Rows::Server, Rows::File),
        _ => (Rows::File, Rows::File),
    }
}

/// A control as well: without a death an engine starts in both cells, and the persona is in one.
#[tokio::test]
async fn the_same_command_finishes_what_died_at_any_step() {
    for (at, point) in POINTS.iter().enumerate() {
        let (here, there) = cells_of_files(at % 3);
        let (Some(from), Some(to)) = (lived(here).await, cell(there, "eva").await) else {
            continue;
        };
        let before = of_ada(&from).await;
        assert!(before.len() > 30);
        let target = to.path().to_str().expect("a path").to_owned();
        let args = ["persona", "move", "ada", "--to", &target];
        dies(&from, &format!("{point}:1"), &args);
        assert_eq!(starts(&from).await, *point == "PM5", "{point}: source");
        assert_eq!(starts(&to).await, *point == "PM1", "{point}: target");
        let (code, _, stderr) = attache(from.path(), &["drain"]);
        match *point {
            "PM5" => assert_eq!(code, 0, "{stderr}"),
            _ => assert!(
                code == 78 && stderr.contains("persona move ada --to"),
                "{stderr}"
            ),
        }
        // Whoever examines the old cell hears of the move, and not of a folder that is to be put back.
        let (_, examined, _) = attache(from.path(), &["doctor", "--quick"]);
        let is_told = examined.contains("no engine starts here: a move of the persona `ada`");
        assert_eq!(is_told, *point != "PM5", "{point}: {examined}");
        assert!(!examined.contains("folder is gone"), "{point}: {examined}");
        let (code, stdout, stderr) = attache(from.path(), &args);
        assert_eq!(code, 0, "{point}: {stdout}{stderr}");
        assert_eq!(
            (has_folder(&from), has_folder(&to)),
            (false, true),
            "{point}"
        );
        assert_eq!(of_ada(&to).await, before, "{point}");
        assert_eq!(of_ada(&from).await, [] as [&str; 0], "{point}");
        assert!(starts(&from).await && starts(&to).await, "{point}");
        // Nothing under another name is left.
        for workspace in [&from, &to] {
            let personas = std::fs::read_dir(workspace.path().join("personas")).expect("a folder");
            let names = personas.map(|entry| entry.expect("an entry").file_name());
            let left: Vec<_> = names
                .filter(|name| name.to_string_lossy().starts_with(".mov"))
                .collect();
            assert!(left.is_empty(), "{point}: {left:?}");
        }
        // Once more there is nothing to do.
        let (code, _, stderr) = attache(from.path(), &args);
        assert_eq!(code, 66, "{stderr}");
    }
}

#[tokio::test]
async fn a_move_is_taken_back_until_the_folder_has_left() {
    for point in POINTS {
        let from = lived(Rows::File).await.expect("a cell of a file");
        let to = other(Rows::File, "eva", &from)
            .await
            .expect("a cell of a file");
        let before = of_ada(&from).await;
        let target = to.path().to_str().expect("a path").to_owned();
        dies(
            &from,
            &format!("{point}:1"),
            &["persona", "move", "ada", "--to", &target],
        );
        let (code, _, stderr) = attache(from.path(), &["persona", "move", "ada", "--cancel"]);
        match *point {
            "PM4" => assert!(code == 1 && stderr.contains("too far"), "{code}: {stderr}"),
            "PM5" => assert_eq!(code, 66, "{stderr}"),
            _ => {
                assert_eq!(code, 0, "{point}: {stderr}");
                assert!(starts(&from).await && starts(&to).await, "{point}");
                assert_eq!(
                    (has_folder(&from), has_folder(&to)),
                    (true, false),
                    "{point}"
                );
                assert_eq!(of_ada(&from).await, before, "{point}");
                assert_eq!(of_ada(&to).await, [] as [&str; 0], "{point}");
                let args = ["doctor", "--audit"];
                let (code, stdout, _) = attache(to.path(), &args);
                assert_eq!(code, 0, "{point}: {stdout}");
                // Begun anew, it comes to its end.
                let (code, _, stderr) =
                    attache(from.path(), &["persona", "move", "ada", "--to", &target]);
                assert_eq!(code, 0, "{stderr}");
                assert_eq!(of_ada(&to).await, before, "{point}");
            }
        }
    }
}

#[tokio::test]
async fn another_move_waits_for_one_that_died() {
    let from = lived(Rows::File).await.expect("a cell of a file");
    let to = cell(Rows::File, "eva").await.expect("a cell of a file");
    let third = cell(Rows::File, "eva").await.expect("a cell of a file");
    let target = to.path().to_str().expect("a path").to_owned();
    let elsewhere = third.path().to_str().expect("a path").to_owned();
    dies(&from, "PM2:1", &["persona", "move", "ada", "--to", &target]);
    for args in [
        ["persona", "move", "ada", "--to", &elsewhere],
        ["persona", "move", "eve", "--to", &target],
    ] {
        let (code, _, stderr) = attache(from.path(), &args);
        assert_eq!(code, 78, "{stderr}");
        assert!(stderr.contains("did not end"), "{stderr}");
    }
    assert!(starts(&third).await, "nothing has begun there");
}

/// What came to the other cell while a move had only begun is not overwritten.
#[tokio::test]
async fn a_persona_that_was_made_there_meanwhile_stays() {
    let from = lived(Rows::File).await.expect("a cell of a file");
    let to = cell(Rows::File, "eva").await.expect("a cell of a file");
    let target = to.path().to_str().expect("a path").to_owned();
    let args = ["persona", "move", "ada", "--to", &target];
    dies(&from, "PM1:1", &args);
    to.persona("ada", "Another Ada");
    let (code, _, stderr) = attache(from.path(), &args);
    assert_eq!(code, 73, "{stderr}");
    let page = to.path().join("personas/ada/PERSONA.md");
    let page = std::fs::read_to_string(page).expect("her file");
    assert_eq!(page, "Another Ada answers letters.");
    let (code, _, stderr) = attache(from.path(), &["persona", "move", "ada", "--cancel"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(starts(&from).await && has_folder(&from) && has_folder(&to));
}
