//! Requests of the API that carry an `Idempotency-Key`: sent again within a day, they get the answer of the first one.

use crate::store::db::Scope;
use crate::store::{Result, Store};
use std::time::Duration;

/// Time for which an answer is kept.
const API_CALL_KEPT: Duration = Duration::from_secs(24 * 3600);

/// A request that is to happen once.
#[derive(Debug, Clone)]
pub struct ApiCall {
    /// Id of the key or session that sent it.
    pub caller: String,
    /// Its `Idempotency-Key`.
    pub key: String,
    /// Digest of method, path and body.
    pub request_sha256: String,
}

/// State in which a request finds its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiCallState {
    /// The key is new: the request is to be carried out.
    New,
    /// The same request was carried out; this was its answer.
    Answered(String),
    /// The same request is being carried out, or was when the engine stopped.
    Unknown,
    /// Another request used the key.
    Other,
}

const FORGET_CALLS: &str = "DELETE FROM api_calls WHERE created_at < $1";
const BEGIN_CALL: &str = "
    INSERT INTO api_calls (caller, key, request_sha256, created_at, answer) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (caller, key) DO NOTHING";
const CALL_OF_KEY: &str =
    "SELECT request_sha256, answer FROM api_calls WHERE caller = $1 AND key = $2";
const ANSWER_CALL: &str = "UPDATE api_calls SET answer = $3 WHERE caller = $1 AND key = $2";
const DROP_CALL: &str = "DELETE FROM api_calls WHERE caller = $1 AND key = $2 AND answer IS NULL";

impl Store {
    /// Begins a request, unless its key was used before, and forgets keys that are older than a day.
    pub async fn begin_api_call(&self, call: &ApiCall) -> Result<ApiCallState> {
        self.begin_call_with(call, None).await
    }

    /// Begins a request as [`Self::begin_api_call`], with the id under which its outcome will be stored as its answer. Whoever finds
    /// the id and nothing under it carries the request out, under that id.
    pub async fn reserve_api_call(&self, call: &ApiCall, id: &str) -> Result<ApiCallState> {
        self.begin_call_with(call, Some(id.to_owned())).await
    }

    async fn begin_call_with(
        &self,
        call: &ApiCall,
        answer: Option<String>,
    ) -> Result<ApiCallState> {
        let (call, now) = (call.clone(), self.clock().now());
        transact!(self, Scope::Engine, |conn| {
            conn.exec(FORGET_CALLS, now.minus(API_CALL_KEPT)).await?;
            let values = (&call.caller, &call.key, &call.request_sha256, now, answer);
            if conn.exec(BEGIN_CALL, values).await? > 0 {
                return Ok(ApiCallState::New);
            }
            let row = conn.row(CALL_OF_KEY, (&call.caller, &call.key)).await?;
            if row.get::<String>("request_sha256") != call.request_sha256 {
                return Ok(ApiCallState::Other);
            }
            Ok(match row.get::<Option<String>>("answer") {
                Some(answer) => ApiCallState::Answered(answer),
                None => ApiCallState::Unknown,
            })
        })
        .await
    }

    /// Ends a request: with its answer, or, where it changed nothing, so that its key may be used again.
    pub async fn end_api_call(&self, call: &ApiCall, answer: Option<String>) -> Result<()> {
        let call = call.clone();
        transact!(self, Scope::Rows, |conn| {
            match &answer {
                Some(answer) => conn.exec(ANSWER_CALL, (&call.caller, &call.key, answer)),
                None => conn.exec(DROP_CALL, (&call.caller, &call.key)),
            }
            .await?;
            Ok(())
        })
        .await
    }
}
