//! Spans in the JSON of OTLP (opentelemetry.io, "OTLP Specification", JSON Protobuf Encoding): ids in hexadecimal, 64-bit
//! numbers as texts, enumerations as numbers.

use crate::domain::Timestamp;
use serde_json::{Value, json};

/// Kind of a span, by its number in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpanKind {
    Internal = 1,
    Client = 3,
}

/// Something that took time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TraceSpan {
    /// 32 hexadecimal digits.
    pub trace: String,
    /// 16 hexadecimal digits.
    pub id: String,
    pub parent: Option<String>,
    pub name: String,
    pub kind: SpanKind,
    pub start: Timestamp,
    pub end: Timestamp,
    pub attributes: Vec<(&'static str, Value)>,
    /// Class of its error; `None`: it went well.
    pub error: Option<String>,
}

impl TraceSpan {
    pub(super) fn word(&mut self, key: &'static str, value: &str) {
        self.attributes.push((key, json!({ "stringValue": value })));
    }

    pub(super) fn number(&mut self, key: &'static str, value: u64) {
        let value = json!({ "intValue": value.to_string() });
        self.attributes.push((key, value));
    }

    /// Says that it failed, with the class of the error and no text.
    pub(super) fn fail(&mut self, class: &str) {
        self.word("error.type", class);
        self.error = Some(class.to_owned());
    }

    fn json(&self) -> Value {
        let attributes: Vec<Value> = self
            .attributes
            .iter()
            .map(|(key, value)| json!({ "key": key, "value": value }))
            .collect();
        let mut span = json!({
            "traceId": self.trace, "spanId": self.id, "name": self.name, "kind": self.kind as u8,
            "startTimeUnixNano": nanos(self.start), "endTimeUnixNano": nanos(self.end),
            "attributes": attributes,
            "status": match &self.error {
                None => json!({ "code": 1 }),
                Some(class) => json!({ "code": 2, "message": class }),
            },
        });
        if let Some(parent) = &self.parent {
            span["parentSpanId"] = parent.as_str().into();
        }
        span
    }
}

/// Returns the body of a request that exports spans.
pub(super) fn export(spans: &[TraceSpan]) -> Value {
    let word = |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
    let version = env!("CARGO_PKG_VERSION");
    json!({ "resourceSpans": [{
        "resource": { "attributes": [word("service.name", "attache"), word("service.version", version)] },
        "scopeSpans": [{
            "scope": { "name": "attache", "version": version },
            "spans": spans.iter().map(TraceSpan::json).collect::<Vec<_>>(),
        }],
    }] })
}

fn nanos(at: Timestamp) -> String {
    (i128::from(at.as_millis()) * 1_000_000).to_string()
}
