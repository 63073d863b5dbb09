//! The configuration: what is wrong with its files now, what was edited since the start, and what is in force.

use crate::config::in_force::InForce;
use crate::config::{self, Problem, effective};
use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::runs::preflight;
use axum::response::Response;
use serde::Serialize;
use serde_json::json;

#[derive(Serialize)]
pub(super) struct ProblemLine {
    pub place: String,
    pub message: String,
    pub hint: Option<String>,
}

pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    let config = &call.context.config;
    let FileFindings { problems, warnings } = look_at_files(&call);
    let own = std::process::id().to_string();
    let page = json!({
        "problems": problems.iter().map(line).collect::<Vec<_>>(),
        "warnings": warnings.iter().map(line).collect::<Vec<_>>(),
        "edited": InForce::read(&config.workspace, &own)
            .map(|in_force| in_force.edited(&config.workspace))
            .unwrap_or_default(),
        "in_force": effective(config)
            .into_iter()
            .map(|(file, settings)| {
                let text = serde_json::to_string_pretty(&settings).unwrap_or_default();
                (file, text)
            })
            .collect::<Vec<_>>(),
    });
    call.page("config.html", &page).await
}

/// Problems because of which the next start would fail, and warnings.
pub(super) struct FileFindings {
    pub problems: Vec<Problem>,
    pub warnings: Vec<Problem>,
}

/// Reads the files anew. Where they cannot be read, the warnings are those of what is in force.
pub(super) fn look_at_files(call: &Call) -> FileFindings {
    let (config, now) = (&call.context.config, call.context.now());
    match config::load(&config.workspace, &preflight::name_catalog()) {
        Err(errors) => FileFindings {
            problems: errors.problems,
            warnings: preflight::examine(config, now).1,
        },
        Ok(fresh) => {
            let (problems, warnings) = preflight::examine(&fresh, now);
            FileFindings { problems, warnings }
        }
    }
}

pub(super) fn line(problem: &Problem) -> ProblemLine {
    let mut place = problem.file.clone();
    if let (Some(line), Some(column)) = (problem.line, problem.column) {
        place.push_str(&format!(":{line}:{column}"));
    }
    let message = match problem.path.as_str() {
        "" => problem.message.clone(),
        path => format!("{path}: {}", problem.message),
    };
    ProblemLine {
        place,
        message,
        hint: problem.hint.clone(),
    }
}
