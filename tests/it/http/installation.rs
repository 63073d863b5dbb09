//! What `attache doctor` finds, on the page about the engine: the same findings in the same words, at most once a minute.

use super::site::Site;
use attache::cli::WorkspaceExaminer;
use attache::clock::ManualClock;
use attache::domain::Timestamp;
use attache::http::{
    ExaminedInstallation, InstallationExaminer, InstallationFinding, InstallationWatch,
};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Findings of the command: area, severity, what, remedy.
fn of_the_command(workspace: &Path) -> Vec<[String; 4]> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command
        .current_dir(workspace)
        .env_remove("ATTACHE_WORKSPACE")
        .args(["doctor", "--quick", "--json"]);
    let said = command.output().expect("the binary runs").stdout;
    let said: Value = serde_json::from_slice(&said).expect("JSON");
    let findings = said["findings"].as_array().expect("findings");
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let of = |finding: &Value| ["area", "severity", "what", "remedy"].map(|key| text(finding, key));
    findings.iter().map(of).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_shows_the_findings_of_the_command_in_its_words() {
    let site = Site::examined().await;
    let login = site.login().await;
    let page = async || {
        let body = site.get(&login, "/doctor").await.body;
        body.replace("&#x2f;", "/")
            .replace("&#x27;", "'")
            .replace("&quot;", "\"")
    };
    let before = page().await;
    assert!(
        before.contains("<h2 class=\"gap\" id=\"installation\">"),
        "{before}"
    );
    // The control: it is not found before it is broken, and not looked for again within a minute.
    assert!(!before.contains("no-such-check"), "{before}");
    let workspace = &site.scene.world.app.workspace;
    let hook = json!({ "id": "mail", "event": "before_send", "command": ["no-such-check"] });
    workspace.write_json("configs/hooks.json", &json!({ "hooks": [hook] }));
    assert!(!page().await.contains("no-such-check"));
    workspace.clock.advance(Duration::from_secs(61));
    let after = page().await;
    let found = WorkspaceExaminer::of(workspace.path())
        .examine()
        .await
        .findings;
    let said = of_the_command(workspace.path());
    assert_eq!(found.len(), said.len(), "{found:#?} {said:#?}");
    assert!(
        said.iter()
            .any(|[_, _, what, _]| what.contains("no-such-check")),
        "{said:#?}"
    );
    for (finding, [area, severity, what, remedy]) in found.iter().zip(&said) {
        let InstallationFinding { says, .. } = finding;
        assert_eq!(
            (finding.area, finding.severity),
            (area.as_str(), severity.as_str())
        );
        assert!(
            says.ends_with(what) && finding.remedy == *remedy,
            "{says} {what}"
        );
        let row = format!("<th scope=\"row\">{area}</th>");
        assert!(after.contains(&row), "{row}: {after}");
    }
    assert!(after.contains("`no-such-check`"), "{after}");
}

#[derive(Default)]
struct Slow {
    looks: AtomicUsize,
    hangs: bool,
}

impl InstallationExaminer for Slow {
    fn examine(&self) -> BoxFuture<'_, ExaminedInstallation> {
        Box::pin(async {
            self.looks.fetch_add(1, Ordering::SeqCst);
            if self.hangs {
                std::future::pending::<()>().await;
            }
            tokio::task::yield_now().await;
            ExaminedInstallation::default()
        })
    }
}

#[tokio::test]
async fn requests_share_an_examination_and_no_page_waits_for_one_that_hangs() {
    let start = Timestamp::parse(crate::app::START).expect("an instant");
    let clock = Arc::new(ManualClock::at(start));
    let quick = Arc::new(Slow::default());
    let watch = InstallationWatch::new(quick.clone(), clock.clone());
    let (one, two) = tokio::join!(watch.latest(), watch.latest());
    assert!(one.is_some() && one == two);
    assert_eq!(quick.looks.load(Ordering::SeqCst), 1);
    clock.advance(Duration::from_secs(60));
    assert!(watch.latest().await.is_some());
    assert_eq!(quick.looks.load(Ordering::SeqCst), 2);
    let hangs = Arc::new(Slow {
        hangs: true,
        ..Slow::default()
    });
    let watch = InstallationWatch::new(hangs, clock).waiting_for(Duration::from_millis(20));
    assert_eq!(watch.latest().await, None);
}
