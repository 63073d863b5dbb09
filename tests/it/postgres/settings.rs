//! A database that does not keep what is promised is refused, with the statement that mends it.

use super::is_skipped;
use crate::app::{Workspace, database};
use crate::maintenance::workspace::attache;
use attache::clock::SystemClock;
use attache::store::{OpenError, Store};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

#[tokio::test]
async fn a_database_with_the_order_of_a_language_is_refused_with_the_statement_that_makes_another()
{
    if is_skipped() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    database::provide_of_locale(folder.path(), "C.UTF-8").await;
    let refused = Store::open(folder.path(), Arc::new(SystemClock::new())).await;
    let refusal = refused.map(|_| ()).expect_err("a refusal");
    assert!(
        matches!(&refusal, OpenError::Server { setting: "collation", remedy, .. } if remedy.contains("LOCALE 'C'")),
        "{refusal:?}"
    );
}

#[tokio::test]
async fn a_workspace_with_a_file_and_an_address_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Arc::new(SystemClock::new());
    let store = Store::open(folder.path(), clock.clone()).await;
    store.expect("a file").close().await;
    let secrets = "ATTACHE_DATABASE_URL=postgres://mail@db.test/mail\n";
    std::fs::write(folder.path().join(".secrets"), secrets).expect("a file");
    let refused = Store::open(folder.path(), clock).await;
    let refusal = refused.map(|_| ()).expect_err("a refusal");
    assert!(
        matches!(refusal, OpenError::TwoDatabases { .. }),
        "{refusal:?}"
    );
}

#[tokio::test]
async fn an_address_that_is_none_is_refused_without_its_password() {
    let folder = tempfile::tempdir().expect("a folder");
    let secrets = "ATTACHE_DATABASE_URL=mysql://mail:hunter2@db.test/mail\n";
    std::fs::write(folder.path().join(".secrets"), secrets).expect("a file");
    let refused = Store::open(folder.path(), Arc::new(SystemClock::new())).await;
    let refusal = refused.map(|_| ()).expect_err("a refusal");
    assert!(matches!(refusal, OpenError::DatabaseUrl(_)), "{refusal:?}");
    assert!(!format!("{refusal:?}").contains("hunter2"));
}

#[tokio::test]
async fn a_check_of_the_configuration_finds_an_address_that_is_none() {
    let workspace = Workspace::new(&json!({ "turns": [{ "say": "Yes." }] }));
    let check = ["config", "check"];
    for (address, words) in [
        (
            "postgres//mail:hunter2@db.test/mail",
            "does not begin with `postgres://`",
        ),
        (
            "postgres://mail:hunter2@db.test/mail?sslmood=require",
            "a parameter behind `?`",
        ),
        ("postgres://mail:hun/ter2@db.test/mail", "`%2F`"),
    ] {
        workspace.write(".secrets", &format!("ATTACHE_DATABASE_URL={address}\n"));
        let path = workspace.path().join(".secrets");
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).expect("a mode");
        let (code, said, _) = attache(workspace.path(), &check).await;
        assert_eq!(code, 65, "{said}");
        assert!(said.contains(words) && !said.contains("ter2"), "{said}");
    }
    // The control.
    workspace.write(
        ".secrets",
        "ATTACHE_DATABASE_URL=postgres://mail@db.test/mail\n",
    );
    let (code, said, _) = attache(workspace.path(), &check).await;
    assert_eq!(code, 0, "{said}");
}
