//! Provider of a replayed run: encodes requests, and returns recorded answers. It cannot send.

use super::recorded_env::RecordedEnv;
use crate::config::Tier;
use crate::domain::ErrorClass;
use crate::providers::{
    CallContext, Capabilities, Event, Phase, Provider, ProviderError, Request, RequestEncoder,
    Response, ToolArgs,
};
use crate::runs::record::call_record::CallFailure;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use std::sync::Arc;

/// An adapter that encodes its requests and returns recorded answers. It cannot send.
pub struct RecordedProvider {
    encoder: Arc<dyn RequestEncoder>,
    recorded_env: Arc<RecordedEnv>,
}

impl RecordedProvider {
    pub fn new(encoder: Arc<dyn RequestEncoder>, recorded_env: Arc<RecordedEnv>) -> Self {
        Self {
            encoder,
            recorded_env,
        }
    }
}

impl RequestEncoder for RecordedProvider {
    fn id(&self) -> &str {
        self.encoder.id()
    }
    fn capabilities(&self, model: &str) -> Capabilities {
        let capabilities = self.encoder.capabilities(model);
        let window_tokens = self
            .recorded_env
            .record()
            .window_tokens(self.id())
            .or(capabilities.window_tokens);
        Capabilities {
            window_tokens,
            ..capabilities
        }
    }
    fn needs(&self, name: &str, args: &ToolArgs) -> Tier {
        self.encoder.needs(name, args)
    }
    fn lists_our_tools(&self) -> bool {
        self.encoder.lists_our_tools()
    }
    fn ends_when_dropped(&self) -> bool {
        self.encoder.ends_when_dropped()
    }
    fn encode(&self, request: &Request) -> Result<String, ProviderError> {
        self.encoder.encode_request(request)
    }
}

impl Provider for RecordedProvider {
    fn stream<'a>(
        &'a self,
        _wire: &'a str,
        _context: CallContext,
    ) -> BoxStream<'a, Result<Event, ProviderError>> {
        stream::iter(self.recorded_env.outcome()).boxed()
    }
}

impl RecordedEnv {
    /// Returns the events of the last call that was made.
    fn outcome(&self) -> Vec<Result<Event, ProviderError>> {
        let cut_off = |message: &str| {
            vec![Err(ProviderError::new(
                ErrorClass::Cancelled,
                Phase::MidStream,
                message,
            ))]
        };
        let Some(call) = self.made() else {
            return cut_off("nothing was asked");
        };
        if let Some(response) = &call.response {
            return vec![Ok(started(response)), Ok(Event::Finished(response.clone()))];
        }
        match call
            .ended
            .as_ref()
            .and_then(|ended| ended.error.as_ref())
            .and_then(CallFailure::error)
        {
            Some(error) => vec![Err(error)],
            None => cut_off("nobody saw this call end"),
        }
    }
}

fn started(response: &Response) -> Event {
    Event::Started {
        provider_request_id: response.provider_request_id.clone(),
        model: response.model_served.clone(),
    }
}
