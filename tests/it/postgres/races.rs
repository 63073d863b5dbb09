//! Eight nodes at the same rows: claims, letters, budgets. Each has a control with a text that is right on one connection only.

use super::is_skipped;
use super::nodes::{answers, node_beside};
use crate::app::{TestApp, database, db, note};
use attache::domain::{Bound, BudgetAccount, BudgetAccountId, BudgetScope, Origin, PersonaId};
use attache::store::{CallReservation, EmbeddingPurpose, NewEmbeddingCall, StoreError};
use futures_util::future::join_all;
use serde_json::json;
use std::collections::BTreeSet;

const NODES: usize = 8;
const LETTERS: usize = 64;
/// Calls that the engine's budget pays for, and how many are tried.
const CALLS_PAID: i64 = 10;
const CALLS_TRIED: usize = 40;

async fn nodes() -> Vec<TestApp> {
    let first = TestApp::start(answers()).await;
    let mut nodes = vec![first];
    for number in 1..NODES as u64 {
        let next = node_beside(&nodes[0], number).await;
        nodes.push(next);
    }
    nodes
}

/// Connections of other programs, which take no lock of ours.
async fn connections(app: &TestApp) -> Vec<db::Connection> {
    let url = database::url_of(app.workspace.path()).expect("a database on a server");
    join_all((0..NODES).map(|_| db::Connection::at(&url))).await
}

/// Has letters of as many threads come through all nodes at once.
async fn letters_through_all(nodes: &[TestApp]) {
    let letters = (0..LETTERS).map(|number| note(&format!("l{number}"), "", "Hello."));
    let letters: Vec<String> = letters.collect();
    let taken = letters.iter().enumerate();
    let taken = join_all(taken.map(|(number, eml)| nodes[number % NODES].receive(eml))).await;
    assert!(taken.iter().all(Result::is_ok), "{taken:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_nodes_claim_each_run_once() {
    if is_skipped() {
        return;
    }
    let nodes = nodes().await;
    letters_through_all(&nodes).await;
    let mut claimed = Vec::new();
    loop {
        let claims = nodes
            .iter()
            .map(|node| node.engine.store.claim_runs(4, 1000));
        let claims = join_all(claims).await.into_iter();
        let runs: Vec<_> = claims.flat_map(|claim| claim.expect("a claim")).collect();
        if runs.is_empty() {
            break;
        }
        claimed.extend(runs.into_iter().map(|run| run.id.to_string()));
    }
    assert_eq!(claimed.len(), LETTERS);
    assert_eq!(claimed.iter().collect::<BTreeSet<_>>().len(), LETTERS);
}

/// Claims by a text that is right where one connection writes.
async fn claimed_by_a_naive_text(app: &TestApp) -> Vec<String> {
    let naive = "UPDATE runs SET state = 'running' WHERE id IN
        (SELECT id FROM runs WHERE state = 'queued' ORDER BY seq LIMIT 4) RETURNING id";
    let mut connections = connections(app).await;
    let mut claimed = Vec::new();
    loop {
        let claims = connections.iter_mut().map(|conn| async {
            let claim = db::query_scalar::<String>(naive).fetch_all(conn);
            claim.await.expect("a claim")
        });
        let some: Vec<String> = join_all(claims).await.into_iter().flatten().collect();
        if some.is_empty() {
            return claimed;
        }
        claimed.extend(some);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_naive_text_claims_runs_twice() {
    if is_skipped() {
        return;
    }
    let app = TestApp::start(json!({ "turns": [] })).await;
    for number in 0..LETTERS {
        app.run_of(&note(&format!("l{number}"), "", "Hello.")).await;
    }
    let claimed = claimed_by_a_naive_text(&app).await;
    let different = claimed.iter().collect::<BTreeSet<_>>().len();
    assert_eq!(different, LETTERS);
    assert!(claimed.len() > LETTERS, "the control found nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_letter_through_eight_nodes_at_once_is_one_run() {
    if is_skipped() {
        return;
    }
    let nodes = nodes().await;
    let eml = note("once", "", "Hello.");
    let taken = join_all((0..16).map(|number| nodes[number % NODES].receive(&eml))).await;
    assert!(taken.iter().all(Result::is_ok), "{taken:?}");
    let mut rows = nodes[0].workspace.rows().await;
    let runs: i64 = db::query_scalar("SELECT count(*) FROM runs")
        .fetch_one(&mut rows)
        .await
        .expect("a count");
    assert_eq!(runs, 1);
}

pub(super) fn engine_account() -> BudgetAccountId {
    BudgetAccountId {
        scope: BudgetScope::Engine,
        owner: String::new(),
        period: "2026-11-21".to_owned(),
    }
}

/// A call of 100 micro-dollars, by an engine with this bound.
pub(super) fn paid_call(id: &str, persona: &str, bound: i64) -> NewEmbeddingCall {
    let account = BudgetAccount {
        id: engine_account(),
        cost_micros_max: Some(Bound {
            value: bound,
            origin: Origin::Global,
        }),
        tokens_max: None,
    };
    NewEmbeddingCall {
        id: id.to_owned(),
        persona: PersonaId::parse(persona).expect("an id"),
        purpose: EmbeddingPurpose::Letters,
        run: None,
        provider: "scripted".to_owned(),
        model: "test".to_owned(),
        texts: 1,
        reservation: CallReservation {
            micros: 100,
            tokens: 1,
            accounts: vec![account],
            left_in_run: 0,
            left_elsewhere: 0,
        },
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_nodes_never_spend_more_than_the_budget_of_the_engine() {
    if is_skipped() {
        return;
    }
    let nodes = nodes().await;
    let calls = (0..CALLS_TRIED).map(|number| {
        let store = &nodes[number % NODES].engine.store;
        // Each for a persona of its own, so that no lock of a persona is in the way.
        let persona = format!("p{number}");
        store.open_embedding_call(paid_call(
            &format!("call {number}"),
            &persona,
            100 * CALLS_PAID,
        ))
    });
    let opened = join_all(calls).await;
    let paid = opened.iter().filter(|opened| opened.is_ok()).count();
    let refused = opened
        .iter()
        .filter(|opened| matches!(opened, Err(StoreError::BudgetExhausted(_))))
        .count();
    assert_eq!(i64::try_from(paid).expect("few"), CALLS_PAID);
    assert_eq!(paid + refused, CALLS_TRIED, "{opened:?}");
    let balance = nodes[0].engine.store.account(&engine_account()).await;
    assert_eq!(
        balance.expect("a balance").reserved_micros,
        100 * CALLS_PAID
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_reads_a_budget_before_it_writes_spends_too_much() {
    if is_skipped() {
        return;
    }
    let app = TestApp::start(json!({ "turns": [] })).await;
    let mut rows = app.workspace.rows().await;
    let account = "INSERT INTO budget_accounts (scope, owner, period) VALUES ('engine', '', 'd')";
    db::query(account).execute(&mut rows).await.expect("made");
    let balance = "SELECT reserved_micros FROM budget_accounts WHERE period = 'd'";
    let spend =
        "UPDATE budget_accounts SET reserved_micros = reserved_micros + 100 WHERE period = 'd'";
    let mut connections = connections(&app).await;
    for _ in 0..CALLS_TRIED {
        // All have read before the first writes: what a server lets happen, if seldom.
        let reads = connections.iter_mut().map(|conn| async {
            let read = db::query_scalar::<i64>(balance).fetch_one(conn);
            read.await.expect("a balance")
        });
        let balances = join_all(reads).await;
        let calls = connections.iter_mut().zip(balances);
        let calls = calls.map(|(conn, found)| async move {
            if found + 100 <= 100 * CALLS_PAID {
                db::query(spend).execute(conn).await.expect("spent");
            }
        });
        join_all(calls).await;
    }
    let spent: i64 = db::query_scalar(balance)
        .fetch_one(&mut rows)
        .await
        .expect("a balance");
    assert!(spent > 100 * CALLS_PAID, "the control found nothing");
}
