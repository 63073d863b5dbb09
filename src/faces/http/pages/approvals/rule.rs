//! Rules that would answer a question from now on, to be put into the file of the policy by its owner: nothing is written here.

use crate::http::api::named_approval;
use crate::http::call::Call;
use crate::http::failure::{PageError, Shape};
use crate::http::reply;
use crate::replay::rule_proposal::{CALLS_READ_MAX, ProposalError, propose};
use axum::response::Response;
use serde_json::json;

/// Shows the rules with what they would have done, or answers with them.
pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    let question = named_approval(&call).await?;
    let context = &call.context;
    let proposal = propose(&context.store, &context.config, &question).await;
    let proposal = proposal.map_err(|error| match error {
        ProposalError::Refused(_) => PageError::Refused(error.to_string()),
        ProposalError::Store(error) => error.into(),
    })?;
    if call.shape == Shape::Json {
        return reply::record(&proposal);
    }
    let texts = proposal
        .choices
        .iter()
        .map(|choice| serde_json::to_string_pretty(&choice.rule).unwrap_or_default());
    let page = json!({
        "texts": texts.collect::<Vec<_>>(),
        "all_calls": proposal.calls + proposal.without_facts,
        "calls_read_max": CALLS_READ_MAX,
        "proposal": proposal,
    });
    call.page("approval_rule.html", &page).await
}
