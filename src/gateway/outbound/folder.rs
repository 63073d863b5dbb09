//! The folder transport: each mail becomes `<delivery id>.eml`. For demos, tests and air-gapped
//! machines.
//!
//! Copy this file to start a new transport. Exactly-once: a mail that is delivered again overwrites
//! itself with equal bytes, so the commit before the point of no return is not needed and not made.

use super::{
    Checked, Obstacle, PointOfNoReturn, RecipientResult, Setup, SetupError, Transport,
    TransportAttempt, TransportCondition, TransportPhase, printable,
};
use crate::config::TransportSettings;
use crate::store::ClaimedDelivery;
use futures_util::future::BoxFuture;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum files written concurrently: a journaling file system syncs concurrent writes together.
const WRITES_MAX: usize = 16;

pub struct FolderTransport {
    path: PathBuf,
}

/// Builds this transport if the settings name it.
pub(super) fn build(setup: &Setup<'_>) -> Option<Result<Arc<dyn Transport>, SetupError>> {
    let TransportSettings::Folder(path) = setup.transport else {
        return None;
    };
    let made = std::fs::create_dir_all(path);
    Some(match made {
        Ok(()) => Ok(Arc::new(FolderTransport { path: path.clone() })),
        Err(source) => Err(SetupError::Folder {
            path: path.display().to_string(),
            source,
        }),
    })
}

impl Transport for FolderTransport {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn connections_max(&self) -> usize {
        WRITES_MAX
    }

    fn send<'a>(
        &'a self,
        mail: &'a ClaimedDelivery,
        _point: &'a dyn PointOfNoReturn,
    ) -> BoxFuture<'a, TransportAttempt> {
        Box::pin(async move {
            let folder = self.path.clone();
            let name = mail.id.to_string();
            let bytes = mail.bytes.clone();
            let written = tokio::task::spawn_blocking(move || write(&folder, &name, &bytes)).await;
            match written {
                Ok(Ok(())) => TransportAttempt::same_for_all(
                    mail,
                    &RecipientResult::delivered(None, "written"),
                ),
                Ok(Err(error)) => unreachable(mail, &error.to_string()),
                Err(_stopping) => unreachable(mail, "the engine is stopping"),
            }
        })
    }

    fn check<'a>(&'a self, _senders: &'a [String]) -> BoxFuture<'a, Result<Checked, Obstacle>> {
        let to = self.name();
        Box::pin(async move {
            match check(&self.path) {
                Ok(()) => Ok(Checked {
                    to,
                    seen: vec!["files can be written".to_owned()],
                }),
                Err(error) => Err(Obstacle {
                    to,
                    at: TransportPhase::Folder,
                    reply: printable(&error.to_string()),
                }),
            }
        })
    }
}

/// A test file whose name is no mail's, so that programs that read the folder ignore it.
const CHECK: &str = ".attache-check";

fn check(folder: &Path) -> std::io::Result<()> {
    let file = folder.join(CHECK);
    std::fs::write(&file, b"")?;
    std::fs::remove_file(file)
}

fn unreachable(mail: &ClaimedDelivery, why: &str) -> TransportAttempt {
    let verdict = RecipientResult::deferred(None, &format!("cannot write into the folder: {why}"));
    TransportAttempt {
        health: TransportCondition::Unreachable,
        ..TransportAttempt::same_for_all(mail, &verdict)
    }
}

/// Writes a file; when this returns, it is complete and survives a power cut.
fn write(folder: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let unfinished = folder.join(format!(".{name}.tmp"));
    let mut file = File::create(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&unfinished, folder.join(format!("{name}.eml")))?;
    // The rename is durable only after an `fsync` of the folder.
    File::open(folder)?.sync_all()
}
