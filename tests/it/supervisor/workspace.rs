//! The workspace of an agent: its quota, and versions of what its run changed, also when the engine dies.

use super::agent::{Act, House, calls, ends, result, starts};
use crate::app::note;
use crate::unproven::past::queued_of_owner;
use attache::runs::worker::Worker;
use attache::store::files::versions::WorkspaceVersions;
use attache::store::files::workspace::WorkspaceQuota;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

fn folder(house: &House) -> PathBuf {
    house.app.workspace.path().join("personas/ada")
}

fn write(folder: &Path, path: &str, text: &str) {
    std::fs::write(folder.join("workspace").join(path), text).expect("a file");
}

/// Path, run, and whether it was removed, of every version.
fn versions(house: &House) -> Vec<(String, Option<String>, bool)> {
    let quota = WorkspaceQuota::from(&house.app.engine.config.limits);
    let versions = WorkspaceVersions::of(&folder(house), quota).expect("a place");
    let kept = versions.versions().expect("an index").into_iter();
    kept.map(|version| (version.path, version.run, version.removed))
        .collect()
}

#[tokio::test]
async fn what_a_run_changed_in_the_workspace_is_kept_under_its_name() {
    let change: fn(&Path) = |folder| {
        write(folder, "report.md", "Changed.");
        std::fs::remove_file(folder.join("workspace/list.md")).expect("gone");
    };
    let house = House::new(
        "write",
        vec![vec![starts(), Act::Does(change), ends("Done.")]],
    )
    .await;
    std::fs::create_dir(folder(&house).join("workspace")).expect("a folder");
    write(&folder(&house), "report.md", "As its owner wrote it.");
    write(&folder(&house), "list.md", "Milk.");
    let run = house.letter("q1@guest.example", "").await;
    assert_eq!(house.app.outcome(&run).await.0, "succeeded");
    let of_run = |path: &str, removed| (path.to_owned(), Some(run.clone()), removed);
    assert_eq!(
        versions(&house),
        [of_run("list.md", true), of_run("report.md", false)]
    );
    house.app.check().await;
}

#[tokio::test]
async fn what_a_run_changed_before_its_engine_died_is_kept_too() {
    let change: fn(&Path) = |folder| write(folder, "report.md", "Changed.");
    let house = House::new(
        "write",
        vec![vec![starts(), Act::Does(change), Act::IsDeaf]],
    )
    .await;
    std::fs::create_dir(folder(&house).join("workspace")).expect("a folder");
    write(&folder(&house), "report.md", "As its owner wrote it.");
    let run = house
        .app
        .run_of(&note("q1@guest.example", "", "Do it."))
        .await;
    let worker = Worker::new(house.deps()).run(Arc::new(Notify::new()), CancellationToken::new());
    tokio::select! {
        () = worker => panic!("nobody stops it"),
        () = house.pair.quiet.notified() => {}
    }
    assert_eq!(versions(&house), []);
    let house = house.restart().await;
    assert_eq!(
        versions(&house),
        [("report.md".to_owned(), Some(run), false)]
    );
}

/// Fills its workspace, and then would go on.
fn fills(more: Vec<Act>) -> Vec<Act> {
    let fill: fn(&Path) = |folder| write(folder, "big.md", &"x".repeat(5000));
    let begins = vec![starts(), calls("x1", "Write"), Act::Does(fill)];
    begins.into_iter().chain(more).collect()
}

async fn small(calls: Vec<Vec<Act>>) -> House {
    let house = House::new("write", calls).await;
    let path = "configs/gateway.json";
    house
        .app
        .workspace
        .set(path, "/limits/workspace_bytes_max", json!(4096));
    house.restart().await
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_agent_that_fills_its_workspace_is_stopped_and_told_what_to_do() {
    // At once when it says that it has written; else at its end.
    for more in [
        vec![result("x1", "written"), Act::Hangs],
        vec![ends("Done.")],
    ] {
        let house = small(vec![fills(more), vec![starts(), ends("Good morning.")]]).await;
        let run = house.letter("q1@guest.example", "").await;
        let (state, _, class) = house.app.outcome(&run).await;
        assert_eq!(
            (state.as_str(), class.as_deref()),
            ("failed", Some("disallowed_tool"))
        );
        assert!(house.app.sent().is_empty());
        assert_eq!(house.app.notices().len(), 1, "its owner is told");
        let said = house
            .app
            .row("SELECT error_message FROM runs WHERE id = $1", &run)
            .await;
        let said = said[0].clone().unwrap_or_default();
        let wanted = "`workspace` would hold more than 4096 bytes; remove files in it";
        assert!(said.contains(wanted), "{said}");
        // What it wrote is not thrown away, and nobody writes more beside it.
        assert!(folder(&house).join("workspace/big.md").exists());
        let run = house.letter("q2@guest.example", "").await;
        assert_eq!(house.app.outcome(&run).await.0, "failed");
        assert_eq!(
            house.pair.requests().len(),
            1,
            "the second agent never began"
        );
        assert!(!house.app.workspace.path().join("data/agents/ada").exists());
        // The control: with room again, the next one works.
        std::fs::remove_file(folder(&house).join("workspace/big.md")).expect("gone");
        let run = house.letter("q3@guest.example", "").await;
        assert_eq!(house.app.outcome(&run).await.0, "succeeded");
    }
}

/// An agent that may only read answers all the same: its owner may have filled the workspace.
#[tokio::test]
async fn a_full_workspace_stops_no_agent_that_only_reads() {
    let house = House::new("read_only", vec![vec![starts(), ends("Good morning.")]]).await;
    let path = "configs/gateway.json";
    house
        .app
        .workspace
        .set(path, "/limits/workspace_bytes_max", json!(4096));
    let house = house.restart().await;
    std::fs::create_dir(folder(&house).join("workspace")).expect("a folder");
    write(&folder(&house), "big.md", &"x".repeat(5000));
    let run = house.letter("q1@guest.example", "").await;
    assert_eq!(house.app.outcome(&run).await.0, "succeeded");
}

/// Sends the same agent the owner's letter, and two strangers': whoever cannot read the same works
/// elsewhere.
#[tokio::test]
async fn runs_for_different_readers_work_in_different_folders() {
    let house = House::new("write", vec![vec![starts(), ends("Good morning.")]]).await;
    house.letter("q1@guest.example", "").await;
    house.letter("q2@guest.example", "").await;
    house
        .letter("q3@guest.example", "In-Reply-To: <q1@guest.example>\n")
        .await;
    queued_of_owner(&house.app, "q4@home.test", "", "Look after it.").await;
    house.work().await;
    let requests = house.pair.requests();
    let working: Vec<String> = requests
        .into_iter()
        .map(|request| request.agent.expect("options").workspace)
        .collect();
    assert_eq!(working[0], working[2], "one thread, the same readers");
    assert_ne!(working[0], working[1], "another thread");
    assert!(working[1].starts_with("workspace/correspondents/"));
    assert_eq!(working[3], "workspace", "the owner's");
}
