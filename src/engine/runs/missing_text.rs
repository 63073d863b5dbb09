//! Wait of a run for a standing text that is gone: an answer without it would not be the owner's.

use crate::domain::{ErrorClass, NoticeId, NoticeKind, NoticeSubject, stable_seed};
use crate::runs::deps::WorkerDeps;
use crate::store::{ClaimedRun, NewNotice, RunFailure};
use std::time::Duration;

/// Time between two looks for the file. A prompt that comes back beside an engine ends the wait at once.
const LOOK: Duration = Duration::from_secs(5 * 60);

/// Parks a run until the text at a path is there; returns its failure when the transaction failed.
pub async fn park(
    deps: &WorkerDeps,
    run: &ClaimedRun,
    path: &str,
    message: String,
    worked: Duration,
) -> Option<RunFailure> {
    let spread = Duration::from_millis(stable_seed(run.id.as_str()) % 10_000);
    let until = deps.clock.now().plus(LOOK + spread);
    tracing::warn!(run = %run.id, persona = %run.persona, %until, error = message, "run waits for a text");
    let wait = RunFailure {
        class: ErrorClass::Config,
        message,
        retry_at: Some(until),
        worked,
    };
    let notice = notice(deps, run, path);
    let parked = deps
        .store
        .park_unspent(&run.id, wait.clone(), Some(notice))
        .await;
    let error = parked.err()?;
    tracing::error!(run = %run.id, %error, "a run that waits for a text is not stored yet; trying again");
    Some(wait)
}

/// Builds one notice per run and day; those of one file share their mail.
fn notice(deps: &WorkerDeps, run: &ClaimedRun, path: &str) -> NewNotice {
    let today = deps.clock.now().to_string();
    NewNotice {
        id: NoticeId::new(deps.clock.new_id()),
        persona: None,
        kind: NoticeKind::TextMissing,
        detail: path.to_owned(),
        subject: NoticeSubject::ConfigFile,
        subject_id: path.to_owned(),
        occurrence: format!("{}-{}", &today[..10], run.id),
        summary: format!(
            "run {} of {} waits: there is no file `{path}`, which a step `load-file` of configs/context.json reads",
            run.id, run.persona
        ),
        hint: format!(
            "put the file back, and the runs go on within minutes. Where runs may go without it, write the step as \
             `{{ \"use\": \"load-file\", \"args\": {}, \"required\": false }}`",
            serde_json::json!([path])
        ),
    }
}
