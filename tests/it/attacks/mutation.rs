//! The mutation run: with a guard off, each attack that names it gets through. So no guard is there for show, and no attack
//! fails for a reason of its own.

use super::case::attacks;
use super::{MUTANT, ONLY, TEST, network};
use crate::app::database::is_sqlite_only;
use attache::mutants::GUARDS;
use std::collections::BTreeMap;
use std::process::Command;

#[test]
#[ignore = "second tier"]
fn without_its_guard_an_attack_gets_through() {
    if is_sqlite_only("a server is in no namespace of a network") {
        return;
    }
    let mut of_guard: BTreeMap<String, [Vec<String>; 2]> = BTreeMap::new();
    let mut unplayed = Vec::new();
    for (id, attack) in attacks() {
        if !attack.can_be_played(&id) {
            unplayed.extend(attack.guards);
            continue;
        }
        let is_network = usize::from(attack.has_network());
        for guard in attack.guards {
            of_guard.entry(guard).or_default()[is_network].push(id.clone());
        }
    }
    let known: Vec<&str> = GUARDS.iter().map(|(guard, _)| *guard).collect();
    for guard in of_guard.keys() {
        assert!(known.contains(&guard.as_str()), "no guard `{guard}`");
    }
    let mut needless = Vec::new();
    let mut attempts = 0;
    for guard in known {
        let Some([here, inside]) = of_guard.get(guard) else {
            let is_unplayed = unplayed.iter().any(|other| other == guard);
            assert!(is_unplayed, "no attack names {guard}");
            println!("SKIPPED: {guard}, whose attacks need programs that are not here");
            continue;
        };
        let mut told = without(guard, here, false).unwrap_or_default();
        let inside = match without(guard, inside, true) {
            Ok(more) => {
                told.push_str(&more);
                inside.as_slice()
            }
            Err(why) => {
                println!("SKIPPED: {inside:?} without {guard}: {why}");
                &[]
            }
        };
        for row in here.iter().chain(inside) {
            attempts += 1;
            if !told.contains(&format!("FORBIDDEN {row}:")) {
                needless.push(format!("{row} without {guard}"));
            }
        }
    }
    println!(
        "mutation run: {} guards off one by one, {attempts} attacks, {} still stopped",
        of_guard.len(),
        needless.len()
    );
    assert!(needless.is_empty(), "stopped all the same: {needless:#?}");
}

/// What the battery says of these rows in a process in which that guard is off. `Err`: why there is no network for them.
fn without(guard: &str, rows: &[String], is_network: bool) -> Result<String, String> {
    if rows.is_empty() {
        return Ok(String::new());
    }
    let me = std::env::current_exe().expect("this program");
    let (mut command, _home) = match is_network {
        true => network::inside(me.as_os_str())?,
        false => (
            Command::new(me),
            tempfile::tempdir().expect("a temporary folder"),
        ),
    };
    let output = command
        .args(["--exact", "--include-ignored", TEST, "--nocapture"])
        .env(MUTANT, guard)
        .env(ONLY, rows.join(","))
        .output();
    let output = output.expect("the battery");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("attack battery:"), "{guard}: {told}");
    Ok(told)
}
