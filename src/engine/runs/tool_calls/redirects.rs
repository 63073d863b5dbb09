//! Redirects of a page: each further host is decided on as a call with that URL would be.
//!
//! Nobody can be asked in the middle of a page. So a redirect that is not allowed ends the call, and the model learns the URL: a
//! call with it is decided on like any other, and its owner is asked where the policy says so.

use super::context::ToolCallContext;
use super::decide::decide;
use super::facts;
use super::links;
use crate::policy::PolicyEffect;
use crate::runs::error::RunError;
use crate::tools::RegisteredTool;
use crate::web::{FetchError, RedirectRule};
use futures_util::future::{BoxFuture, ready};
use serde_json::{Map, Value};

/// Error code of a redirect that is not followed.
const NOT_FOLLOWED: &str = "redirect_not_followed";

/// Redirects of the pages that a call asks for.
pub struct RedirectsOfCall<'a> {
    pub ctx: &'a ToolCallContext<'a>,
    pub tool: &'a RegisteredTool,
}

/// A rule for calls that ask for no page.
pub struct NoRedirect;

impl RedirectRule for NoRedirect {
    fn judge<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<(), FetchError>> {
        Box::pin(ready(Err(not_followed(url, "no rule permits it"))))
    }
}

impl RedirectRule for RedirectsOfCall<'_> {
    fn judge<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<(), FetchError>> {
        Box::pin(async move {
            let decision = self.decision(url).await;
            match decision {
                Ok((PolicyEffect::Allow, _)) => Ok(()),
                Ok((_, why)) => Err(not_followed(url, &why)),
                Err(error) => {
                    tracing::warn!(%error, "a redirect could not be decided on");
                    Err(not_followed(url, "it could not be decided on"))
                }
            }
        })
    }
}

impl RedirectsOfCall<'_> {
    async fn decision(&self, url: &str) -> Result<(PolicyEffect, String), RunError> {
        let Self { ctx, tool } = self;
        let args = Map::from_iter([("url".to_owned(), Value::from(url))]);
        let facts = facts::of_call(ctx, tool, &args);
        let facts = links::with_link(ctx, tool, &args, facts).await?;
        let decision = decide(ctx, tool.name(), &facts).await?;
        Ok((decision.effect, decision.why))
    }
}

fn not_followed(url: &str, why: &str) -> FetchError {
    let message = format!(
        "the page redirects to `{url}`, which is not asked for without a decision of its own: {why}; if you need that page, call again \
         with its URL"
    );
    FetchError::new(NOT_FOLLOWED, message)
}
