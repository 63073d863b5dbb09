//! Tool calls of a chat completion, put together from their fragments. Pure.

use crate::providers::contract::traits::ToolArgs;
use serde_json::Value;

/// Calls of one answer, in the order in which they began.
#[derive(Default)]
pub struct PartialCalls(Vec<PartialCall>);

/// A call, as far as its fragments have come.
#[derive(Default)]
pub struct PartialCall {
    index: Option<u64>,
    pub id: String,
    pub name: String,
    pub arguments: String,
}

impl PartialCalls {
    /// Adds a fragment to its call: by `index`, else by `id`, else a name begins a call, else the
    /// last call.
    pub fn add(&mut self, fragment: &Value) {
        let function = fragment.get("function").unwrap_or(&Value::Null);
        let named = function
            .get("name")
            .and_then(Value::as_str)
            .is_some_and(|name| !name.is_empty());
        let id = fragment
            .get("id")
            .and_then(Value::as_str)
            .filter(|id| !id.is_empty());
        let index = fragment.get("index").and_then(Value::as_u64);
        let position = |test: &dyn Fn(&PartialCall) -> bool| self.0.iter().rposition(test);
        let found = match (index, id) {
            (Some(_), _) => position(&|call| call.index == index),
            (None, Some(id)) => position(&|call| call.id == id),
            (None, None) if named => None,
            (None, None) => self.0.len().checked_sub(1),
        };
        // Some gateways number every parallel call 0: a named fragment after a complete call begins
        // another call.
        let found = found.filter(|at| !(named && self.0[*at].is_succeeded_by(id, function)));
        let at = found.unwrap_or_else(|| self.begin(index));
        self.0[at].extend(id, function);
    }

    fn begin(&mut self, index: Option<u64>) -> usize {
        self.0.push(PartialCall {
            index,
            ..PartialCall::default()
        });
        self.0.len() - 1
    }

    /// Adds a fragment of the older form: one call, without an id.
    pub fn add_unnumbered(&mut self, function: &Value) {
        let index = Some(0);
        let at = self.0.iter().position(|call| call.index == index);
        let at = at.unwrap_or_else(|| self.begin(index));
        self.0[at].extend(None, function);
    }

    /// Takes all calls.
    pub fn take(&mut self) -> Vec<PartialCall> {
        std::mem::take(&mut self.0)
    }
}

impl PartialCall {
    fn extend(&mut self, id: Option<&str>, function: &Value) {
        if self.id.is_empty() {
            self.id = id.unwrap_or_default().to_owned();
        }
        if self.name.is_empty() {
            self.name = function
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned();
        }
        match function.get("arguments") {
            Some(Value::String(piece)) => self.arguments.push_str(piece),
            Some(object @ Value::Object(_)) => self.arguments.push_str(&object.to_string()),
            _ => {}
        }
    }

    /// Reports whether a named fragment begins another call although it has this call's index.
    fn is_succeeded_by(&self, id: Option<&str>, function: &Value) -> bool {
        let other_id = id.is_some_and(|id| !self.id.is_empty() && self.id != id);
        let brings_arguments = is_filled(function.get("arguments"));
        let complete = !self.arguments.is_empty()
            && matches!(ToolArgs::parse(&self.arguments), ToolArgs::Object(_));
        other_id && brings_arguments && complete
    }
}

/// Reports whether a member has a text or an object.
pub fn is_filled(value: Option<&Value>) -> bool {
    match value {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Object(_)) => true,
        _ => false,
    }
}
