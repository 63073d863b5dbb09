//! The real binary dies at each of its crash points between a command and its answer; the next one goes on.

use super::{signed, taken, world};
use crate::app::TestApp;
use crate::app::db;
use crate::identity::world::World;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

/// Where it dies.
pub static POINTS: &[&str] = &["MC1", "MC2", "MC3", "MC4"];

/// `abort` ends a process by this signal.
const SIGABRT: i32 = 6;

async fn drain(folder: &Path, order: Option<&str>) -> ExitStatus {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_attache"));
    for variable in ["ATTACHE_WORKSPACE", "ATTACHE_LOG", "ATTACHE_CRASH"] {
        command.env_remove(variable);
    }
    if let Some(order) = order {
        command.env("ATTACHE_CRASH", order);
    }
    let output = command.current_dir(folder).arg("drain").output().await;
    output.expect("the binary runs").status
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_command_acts_once_and_is_answered_once_wherever_the_engine_dies() {
    for point in POINTS {
        let world = world().await;
        assert_eq!(
            taken(&world, &signed(&world, "p", "", "/pause")).await,
            "command"
        );
        let World { app, .. } = world;
        let TestApp { workspace, engine } = app;
        drop(engine);
        let died = drain(workspace.path(), Some(&format!("{point}:1"))).await;
        assert_eq!(died.signal(), Some(SIGABRT), "{point} is met");
        assert!(drain(workspace.path(), None).await.success(), "{point}");
        assert!(drain(workspace.path(), None).await.success(), "{point}");
        let mut rows = workspace.rows().await;
        let count = "SELECT (SELECT count(*) FROM halts) AS halts,
            (SELECT count(*) FROM audit_log WHERE decision = 'halt') AS effects,
            (SELECT count(*) FROM audit_log WHERE decision = 'command') AS acts,
            (SELECT count(*) FROM deliveries WHERE kind = 'notice') AS answers";
        let row = db::query(count).fetch_one(&mut rows).await.expect("a row");
        let counts = ["halts", "effects", "acts", "answers"].map(|column| row.get::<i64>(column));
        assert_eq!(counts, [1, 1, 1, 1], "{point}");
        assert_eq!(workspace.notices().len(), 1, "{point}");
    }
}
