//! OpenAI's Responses API (`POST /v1/responses`), which xAI and some other servers have, too.
//!
//! Used without state: nothing is stored (`store: false`), and what the model has to have back goes
//! back whole. That is its reasoning, encrypted, in its place before the calls that it led to, and
//! the phase of a message. In reading order: `request`, `items` (what goes back), `decoder`.
//! Format by OpenAI's OpenAPI document 2.3.0. Absent on purpose: tools that the vendor runs,
//! conversations that it keeps, background answers, images by URL.

pub mod decoder;
mod items;
mod request;

use crate::providers::api::openai::endpoint::DialectServer;
use crate::providers::api::openai::responses::decoder::ResponsesDecoder;
use crate::providers::contract::estimate;
use crate::providers::contract::traits::{
    CallContext, Capabilities, Event, Provider, ProviderCheck, ProviderError, Request,
    RequestEncoder,
};
use crate::providers::transport::decode::Decoder;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

/// A server of the Responses API.
pub struct Responses(DialectServer);

impl Responses {
    pub(in crate::providers) fn for_server(server: DialectServer) -> Self {
        Self(server)
    }
}

impl RequestEncoder for Responses {
    fn id(&self) -> &str {
        &self.0.name
    }

    fn capabilities(&self, _model: &str) -> Capabilities {
        self.0.capabilities()
    }

    fn encode(&self, request: &Request) -> Result<String, ProviderError> {
        request::body(request, self.0.dialect, &self.0.switches)
    }
}

impl Provider for Responses {
    fn endpoint(&self) -> Option<String> {
        Some(self.0.endpoint.base_url())
    }

    fn check(&self, context: CallContext) -> BoxFuture<'_, Result<ProviderCheck, ProviderError>> {
        Box::pin(async move { self.0.check(&context).await })
    }

    fn stream<'a>(
        &'a self,
        encoded: &'a str,
        context: CallContext,
    ) -> BoxStream<'a, Result<Event, ProviderError>> {
        let dialect = self.0.dialect;
        let decoder = move |request_id| -> Box<dyn Decoder + 'a> {
            Box::new(ResponsesDecoder::new(
                request_id,
                dialect.family,
                dialect.adapter.id,
                estimate::request(encoded),
            ))
        };
        self.0.endpoint.call(encoded, context, Box::new(decoder))
    }
}
