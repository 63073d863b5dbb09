//! Files of the runs that tests leave, of which `verify::archive` chooses its archive.

use super::Workspace;
use attache::clock::SystemClock;
use attache::replay::bundle::{self, Label};
use attache::store::{RunFilter, Store};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Folder that gets a file for each workspace of a test.
const FOLDER_VARIABLE: &str = "ATTACHE_RECORD_RUNS";

impl Drop for Workspace {
    fn drop(&mut self) {
        let Some(folder) = std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from) else {
            return;
        };
        let test = std::thread::current();
        let test = test.name().unwrap_or("test").replace("::", ".");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                let runtime = runtime.expect("a runtime");
                runtime.block_on(record(self.path(), &folder, &test));
            });
        });
    }
}

/// Writes the runs of a workspace as one file.
async fn record(workspace: &Path, folder: &Path, test: &str) {
    let Ok(store) = Store::open_to_read(workspace, Arc::new(SystemClock::new())).await else {
        return;
    };
    let filter = RunFilter {
        limit: 10_000,
        ..RunFilter::default()
    };
    let runs = store.list_runs(&filter).await.unwrap_or_default();
    let runs: Vec<_> = runs.into_iter().map(|run| run.id).collect();
    // What a test damaged leaves no file, and neither do secrets that stand in pieces.
    let Ok(things) = store.things_of_runs(&runs).await else {
        return;
    };
    let label = Label {
        engine: env!("CARGO_PKG_VERSION").to_owned(),
        made_at: String::new(),
        runs: runs.iter().map(ToString::to_string).collect(),
    };
    let Ok((_, bytes)) = bundle::write(label, things, &[], false) else {
        return;
    };
    let digest = attache::domain::sha256_hex(&[&bytes]);
    let file = folder.join(format!("{test}-{}.jsonl", &digest[..8]));
    std::fs::write(file, bytes).expect("a file");
}
