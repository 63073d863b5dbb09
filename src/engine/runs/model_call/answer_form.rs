//! Form of a structured answer: the schema that goes with the request or into the prompt, and the
//! faults of an answer that misses it.

use crate::domain::ErrorClass;
use crate::providers::{
    FinishReason, Message, OutputSchema, Parameter, Request, Response, Structured,
};
use crate::runs::error::RunError;
use crate::store::RunOptionsInForce;
use jsonschema::ValidationError;
use serde_json::{Map, Value};

/// Most repairs of an answer.
pub const REPAIRS_MAX: u32 = 2;
/// Most faults that one repair names; the others show once these are corrected.
const FAULTS_MAX: usize = 5;
const FAULT_CHARS_MAX: usize = 200;
/// Name of the schema for vendors that require one.
const NAME: &str = "answer";

/// Form that a run's answer must have, and the state of its repairs.
pub struct AnswerForm {
    /// Schema text of the responsibility's file when the slot fired.
    pub text: String,
    schema: Value,
    /// Repairs so far, over all attempts.
    pub repairs: u32,
    /// `true`: the last answer was cut off; it is not continued, because a model that is bound to a
    /// schema begins anew each time.
    pub is_cut: bool,
    /// Reason why the last answer was rejected after all repairs; for the operator.
    pub failure: Option<String>,
}

/// FormFault of an answer.
pub struct FormFault {
    /// Message with the faulty value.
    for_model: String,
    /// Message without any text of the answer.
    for_operator: String,
}

impl FormFault {
    fn plain(words: impl Into<String>) -> Self {
        let words = words.into();
        Self {
            for_model: words.clone(),
            for_operator: words,
        }
    }
}

impl AnswerForm {
    /// Returns the form of a run's answer; `None`: any text. Errors: class `Config`, for a schema
    /// that cannot be read.
    pub fn of(run_options: &RunOptionsInForce) -> Result<Option<AnswerForm>, RunError> {
        let Some(text) = run_options.output_schema.clone() else {
            return Ok(None);
        };
        let unreadable = |_| RunError::Fatal {
            class: ErrorClass::Config,
            message: "the schema of this run's answer cannot be read".to_owned(),
        };
        let schema = serde_json::from_str(&text).map_err(unreadable)?;
        Ok(Some(AnswerForm {
            text,
            schema,
            repairs: 0,
            is_cut: false,
            failure: None,
        }))
    }

    pub fn give_up(&mut self, fault: &FormFault, why: &str) {
        self.failure = Some(format!(
            "the answer does not fit its schema, {why}: {}",
            fault.for_operator
        ));
    }

    /// Adds the form to a request: natively where the provider supports it, in the prompt where it
    /// does not or has refused it.
    pub fn ask(&self, request: &mut Request, structured: Structured) {
        let refused = request.without.contains(&Parameter::OutputSchema);
        if structured == Structured::Native && !refused {
            request.output = Some(OutputSchema {
                name: NAME.to_owned(),
                schema: self.schema.clone(),
            });
        } else {
            request.output = None;
            request.system.push(format!(
                "Your final answer must be one JSON value that fits the JSON Schema below: the JSON alone, without a \
                 sentence before or after it.\n\n{}",
                self.text
            ));
        }
    }

    pub fn read(&self, answer: &str, is_cut: bool) -> Result<Value, FormFault> {
        if is_cut {
            return Err(FormFault::plain(
                "it was cut off at its length limit; write a shorter one",
            ));
        }
        let value = json_of(answer).map_err(FormFault::plain)?;
        let validator = jsonschema::validator_for(&self.schema);
        let validator = validator.map_err(|_| FormFault::plain("the schema itself is broken"))?;
        let faults: Vec<_> = validator.iter_errors(&value).take(FAULTS_MAX).collect();
        if faults.is_empty() {
            return Ok(value);
        }
        let joined = |one: fn(&ValidationError<'_>) -> String| {
            faults.iter().map(one).collect::<Vec<_>>().join("; ")
        };
        Err(FormFault {
            for_model: joined(|error| placed(error, &error.to_string())),
            for_operator: joined(|error| placed(error, &error.masked().to_string())),
        })
    }

    /// Returns the repair note after an answer of an earlier attempt, if that answer missed its
    /// form.
    pub fn replayed(&mut self, response: &Response) -> Option<Message> {
        if !is_final(response) {
            return None;
        }
        let is_cut = response.stop == FinishReason::MaxTokens;
        let fault = self.read(&response.text(), is_cut).err()?;
        // After the last repair an operator retried the run, and the count began anew.
        self.repairs = if self.repairs >= REPAIRS_MAX {
            0
        } else {
            self.repairs + 1
        };
        Some(Message::user(note(&fault)))
    }

    /// Reports whether the last answer of an earlier attempt ended its run by missing its form: a
    /// retry then asks anew.
    pub fn is_given_up(&mut self, response: &Response) -> bool {
        if !is_final(response) || self.repairs < REPAIRS_MAX {
            return false;
        }
        let is_cut = response.stop == FinishReason::MaxTokens;
        let missed = self.read(&response.text(), is_cut).is_err();
        if missed {
            self.repairs = 0;
        }
        missed
    }
}

/// Reports whether a response was meant as the final answer.
fn is_final(response: &Response) -> bool {
    response.calls().next().is_none()
        && !matches!(
            response.stop,
            FinishReason::Paused | FinishReason::MalformedCall
        )
}

/// Returns the note to a model whose answer missed its form.
pub fn note(fault: &FormFault) -> String {
    let fault = &fault.for_model;
    format!(
        "[engine] Your answer does not fit the JSON Schema that was asked for: {fault}. Answer again with the whole \
         corrected JSON, and with nothing else."
    )
}

/// Parses the JSON of an answer: all of it, or its only fenced block.
fn json_of(answer: &str) -> Result<Value, String> {
    let answer = answer.trim();
    if answer.is_empty() {
        return Err("it is empty".to_owned());
    }
    let whole = serde_json::from_str(answer);
    let error = match whole {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let mut fences = answer.match_indices("```").map(|(at, _)| at);
    if let (Some(open), Some(close), None) = (fences.next(), fences.next(), fences.next()) {
        let block = answer.get(open + 3..close).unwrap_or_default();
        let block = block
            .strip_prefix("json")
            .or_else(|| block.strip_prefix("JSON"))
            .unwrap_or(block);
        return serde_json::from_str(block.trim())
            .map_err(|error| format!("it is not JSON: {error}"));
    }
    Err(format!("it is not JSON: {error}"))
}

/// Formats a fault: ``at `/rows/0/total`: "x" is not of type "number"``.
fn placed(error: &ValidationError<'_>, words: &str) -> String {
    let path: String = error
        .instance_path()
        .as_str()
        .chars()
        .take(FAULT_CHARS_MAX)
        .collect();
    let place = if path.is_empty() {
        "at the top".to_owned()
    } else {
        format!("at `{path}`")
    };
    let words: String = words
        .chars()
        .filter(|c| !c.is_control())
        .take(FAULT_CHARS_MAX)
        .collect();
    format!("{place}: {words}")
}

/// Formats JSON with sorted keys and without spaces: equal values are equal texts.
pub fn canonical(value: &Value) -> String {
    sorted(value).to_string()
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            Value::Object(
                members
                    .into_iter()
                    .map(|(k, v)| (k.clone(), sorted(v)))
                    .collect::<Map<_, _>>(),
            )
        }
        other => other.clone(),
    }
}

/// Formats JSON for readers: in a fence, because an answer is Markdown, which would break the JSON.
pub fn shown(value: &Value) -> String {
    format!("```json\n{value:#}\n```")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_is_found_in_a_fence_and_not_guessed_elsewhere() {
        let good = [
            "{\"a\": 1}",
            " {\"a\":1}\n",
            "```json\n{\"a\": 1}\n```",
            "Here:\n```\n{\"a\":1}\n```\nDone.",
        ];
        for text in good {
            assert_eq!(json_of(text), Ok(json!({ "a": 1 })), "{text}");
        }
        for text in [
            "",
            "Done.",
            "{\"a\": 1",
            "so {\"a\": 1}",
            "```{}``` or ```{}```",
            "```json\n{\n```",
        ] {
            assert!(json_of(text).is_err(), "{text}");
        }
        let fenced_inside = json!({ "a": "```x```" });
        assert_eq!(
            json_of(&fenced_inside.to_string()),
            Ok(fenced_inside.clone())
        );
        assert_eq!(json_of(&shown(&json!([1]))), Ok(json!([1])));
    }

    #[test]
    fn equal_values_are_equal_texts() {
        let (a, b) = (
            r#"{"b": [{"y": 1, "x": null}], "a": 1.0}"#,
            r#"{ "a":1.0,"b":[{"x":null,"y":1}] }"#,
        );
        let text = |json: &str| json_of(json).map(|value| canonical(&value));
        assert_eq!(text(a), text(b));
        assert_eq!(
            text(a).as_deref(),
            Ok(r#"{"a":1.0,"b":[{"x":null,"y":1}]}"#)
        );
    }
}
