//! The attack battery: what an enemy who owns the model, and writes what letters they like, cannot have done; beside each
//! attack its twin, the same done by somebody who may. And the mutation run: without its guard an attack gets through.
//!
//! Cases are files, `tests/fixtures/attacks/<ID>.json`; `held.json` there names the rows that other tests hold. Those with a
//! network are played in a namespace of the kernel.

mod carriers;
mod case;
mod effects;
mod held;
#[cfg(debug_assertions)] // without them no guard can be switched off
mod mutation;
pub mod network;
mod play;
mod sinks;

use crate::app::database::is_sqlite_only;
use case::{Attack, attacks};
use effects::Effect;
use futures_util::StreamExt;
use play::played;

/// Ids of the rows that are played, separated by commas; without it, all. The mutation run names a few.
const ONLY: &str = "ATTACHE_ATTACKS";
/// The guard that is off.
const MUTANT: &str = "ATTACHE_MUTANT";
/// The test that plays rows.
const TEST: &str = "attacks::no_attack_has_a_forbidden_effect_and_twins_succeed";
/// Plays at a time.
const AT_ONCE: usize = 3;

/// What became of one attack and its twin.
struct Verdict {
    id: String,
    /// Forbidden effects that happened.
    broken: Vec<Effect>,
    /// Required effects that did not.
    missing: Vec<Effect>,
    /// Effects of the twin that did not happen.
    hindered: Vec<Effect>,
    trace: [Vec<String>; 2],
}

async fn verdict((id, attack): (String, Attack)) -> Verdict {
    let seen = played(&attack.attack).await;
    // With a guard off only the attack is asked for.
    let twin = match std::env::var_os(MUTANT) {
        Some(_) => None,
        None => Some(played(&attack.twin_play()).await),
    };
    let broken = attack.forbidden.into_iter().filter(|e| e.happened(&seen));
    let missing = attack.required.into_iter().filter(|e| !e.happened(&seen));
    let hindered = attack.twin.effects.into_iter();
    Verdict {
        id,
        broken: broken.collect(),
        missing: missing.collect(),
        hindered: hindered
            .filter(|e| twin.as_ref().is_some_and(|twin| !e.happened(twin)))
            .collect(),
        trace: [seen.trace, twin.map(|twin| twin.trace).unwrap_or_default()],
    }
}

/// Rows with a network are played by this program in a namespace, one after the other: their servers have the same addresses.
#[test]
#[ignore = "second tier"]
fn no_attack_over_a_network_has_a_forbidden_effect() {
    if is_sqlite_only("a server is in no namespace of a network") {
        return;
    }
    let program = std::env::current_exe().expect("this program");
    let (mut command, _home) = match network::inside(program.as_os_str()) {
        Ok(inside) => inside,
        Err(why) => {
            println!("SKIPPED: no namespace for a network: {why}");
            return;
        }
    };
    let output = command
        .args(["--exact", "--include-ignored", TEST, "--nocapture"])
        .output();
    let output = output.expect("this program");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{told}");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(told.contains("attack battery:"), "{told}");
}

#[tokio::test]
#[ignore = "second tier"]
async fn no_attack_has_a_forbidden_effect_and_twins_succeed() {
    let only = std::env::var(ONLY).ok();
    let is_asked = |id: &str| {
        only.as_ref()
            .is_none_or(|only| only.split(',').any(|other| other == id))
    };
    let is_here = |attack: &Attack| attack.has_network() == network::is_inside();
    let rows: Vec<_> = attacks()
        .into_iter()
        .filter(|(id, attack)| is_asked(id) && is_here(attack) && attack.can_be_played(id))
        .collect();
    let (fewest, at_once) = match network::is_inside() {
        _ if only.is_some() => (1, 1),
        true => (10, 1),
        false => (40, AT_ONCE),
    };
    assert!(rows.len() >= fewest, "only {} rows were found", rows.len());
    let mut verdicts: Vec<Verdict> = futures_util::stream::iter(rows)
        .map(verdict)
        .buffer_unordered(at_once)
        .collect()
        .await;
    verdicts.sort_by(|a, b| a.id.cmp(&b.id));
    for Verdict {
        id,
        broken,
        missing,
        hindered,
        trace,
    } in &verdicts
    {
        let lists = [
            ("FORBIDDEN", broken),
            ("MISSING", missing),
            ("TWIN", hindered),
        ];
        for (what, list) in lists.iter().filter(|(_, list)| !list.is_empty()) {
            println!(
                "{what} {id}: {list:?}\n  {}\n  twin: {}",
                trace[0].join("; "),
                trace[1].join("; ")
            );
        }
    }
    let broken: usize = verdicts.iter().map(|verdict| verdict.broken.len()).sum();
    let missing: usize = verdicts.iter().map(|verdict| verdict.missing.len()).sum();
    let twins = verdicts
        .iter()
        .filter(|verdict| verdict.hindered.is_empty());
    let (rows, twins) = (verdicts.len(), twins.count());
    println!("attack battery: {rows} rows, forbidden effects {broken}; twins {twins} of {rows}");
    assert_eq!((broken, missing), (0, 0), "see above");
    assert!(twins * 100 >= rows * 95, "twins: {twins} of {rows}");
}
