//! Answers in a form that was asked for: the schema goes with the request or into the prompt, the final text is held to
//! it, and a model that misses it is told where and asked again, at most twice.
//!
//! How often it was asked again is read from the journal, so that a crash neither forgets nor repeats a repair.

use super::desk::RunError;
use super::providers::{Message, OutputSchema, Parameter, Request, Response, Stop, Structured, ToolChoice};
use super::work::Work;
use super::{purse, turn};
use crate::domain::{ErrorClass, StopReason, sha256_hex};
use crate::store::{Entry, HeldTo, NewOutput};
use jsonschema::ValidationError;
use serde_json::{Map, Value};

/// Times that a model is asked again.
const REPAIRS_MAX: u32 = 2;
/// Faults that one repair names; the rest shows up after these are mended.
const FAULTS_MAX: usize = 5;
const FAULT_CHARS_MAX: usize = 200;
/// How vendors call the schema; it says nothing.
const NAME: &str = "answer";

/// The form that a run's answer must have, and how far the run has come with it.
pub struct Form {
    /// As the responsibility's file had it when the slot fired.
    text: String,
    schema: Value,
    /// Times that the model was asked again, over all attempts.
    repairs: u32,
    /// The last answer was cut off: what there is of it is not gone on with, because a model that is held to a schema
    /// begins anew each time.
    pub is_cut: bool,
    /// Why the last answer is none, after all repairs; for the operator.
    failure: Option<String>,
}

/// What is wrong with an answer.
struct Fault {
    /// With what stands there.
    for_model: String,
    /// Without anything of the answer.
    for_operator: String,
}

impl Fault {
    fn plain(words: impl Into<String>) -> Self {
        let words = words.into();
        Self { for_model: words.clone(), for_operator: words }
    }
}

impl Form {
    /// The form of a run's answer; `None`: any text will do. Errors: class `Config`, for one that cannot be read.
    pub fn of(held_to: &HeldTo) -> Result<Option<Form>, RunError> {
        let Some(text) = held_to.output_schema.clone() else { return Ok(None) };
        let unreadable = |_| RunError::Fatal {
            class: ErrorClass::Config,
            message: "the schema of this run's answer cannot be read".to_owned(),
        };
        let schema = serde_json::from_str(&text).map_err(unreadable)?;
        Ok(Some(Form { text, schema, repairs: 0, is_cut: false, failure: None }))
    }

    fn give_up(&mut self, fault: &Fault, why: &str) {
        self.failure = Some(format!("the answer does not fit its schema, {why}: {}", fault.for_operator));
    }

    /// Asks for the form in a request: natively where the provider can, in the prompt where it cannot or would not.
    pub fn ask(&self, request: &mut Request, structured: Structured) {
        let refused = request.without.contains(&Parameter::OutputSchema);
        if structured == Structured::Native && !refused {
            request.output = Some(OutputSchema { name: NAME.to_owned(), schema: self.schema.clone() });
        } else {
            request.output = None;
            request.system.push(format!(
                "Your final answer must be one JSON value that fits the JSON Schema below: the JSON alone, without a \
                 sentence before or after it.\n\n{}",
                self.text
            ));
        }
    }

    fn read(&self, answer: &str, is_cut: bool) -> Result<Value, Fault> {
        if is_cut {
            return Err(Fault::plain("it was cut off at its length limit; write a shorter one"));
        }
        let value = json_of(answer).map_err(Fault::plain)?;
        let validator = jsonschema::validator_for(&self.schema);
        let validator = validator.map_err(|_| Fault::plain("the schema itself is broken"))?;
        let faults: Vec<_> = validator.iter_errors(&value).take(FAULTS_MAX).collect();
        if faults.is_empty() {
            return Ok(value);
        }
        let joined =
            |one: fn(&ValidationError<'_>) -> String| faults.iter().map(one).collect::<Vec<_>>().join("; ");
        Err(Fault {
            for_model: joined(|error| placed(error, &error.to_string())),
            for_operator: joined(|error| placed(error, &error.masked().to_string())),
        })
    }
}

/// Holds the final answer of a run to its form, asking again where it misses it. The text that it gives is what people
/// read; a run whose answer never fits stops with [`StopReason::Failed`].
pub async fn hold(
    work: &mut Work<'_>,
    (mut text, stop): (String, StopReason),
) -> Result<(String, StopReason), RunError> {
    if work.form.is_none() || stop == StopReason::Refused {
        return Ok((text, stop));
    }
    loop {
        let spent = work.meter.reached(work.budget(), work.elapsed());
        let Some(form) = work.form.as_mut() else { return Ok((text, stop)) };
        let fault = match form.read(&text, form.is_cut) {
            Ok(value) => {
                let schema_sha256 = sha256_hex(&[form.text.as_bytes()]);
                let output = NewOutput { schema_sha256, json: canonical(&value), repairs: form.repairs };
                work.pending.push(Entry::Output(output));
                let stop = if stop == StopReason::NoReply { StopReason::Answered } else { stop };
                return Ok((shown(&value), stop));
            }
            Err(fault) => fault,
        };
        if let Some(limit) = spent {
            form.give_up(&fault, &format!("and `{limit}` leaves no repair"));
            return Ok((text, StopReason::Failed));
        }
        if form.repairs >= REPAIRS_MAX {
            form.give_up(&fault, &format!("after {REPAIRS_MAX} repairs"));
            return Ok((text, StopReason::Failed));
        }
        form.repairs += 1;
        work.said.push(Message::assistant(text.clone()));
        let asked = turn::ask(work, ToolChoice::None, Some(note(&fault))).await;
        if let Err(RunError::Purse(empty)) = &asked
            && purse::ends(work, empty).await?
        {
            work.form.iter_mut().for_each(|form| form.give_up(&fault, "and the money leaves no repair"));
            return Ok((text, StopReason::Failed));
        }
        let answer = asked?;
        work.said.push(Message::user(note(&fault)));
        work.form.iter_mut().for_each(|form| form.is_cut = answer.stop == Stop::MaxTokens);
        text = answer.text();
    }
}

/// Why a run failed whose answer never fitted.
pub fn failure(work: &mut Work<'_>) -> Option<(ErrorClass, String)> {
    let failure = work.form.as_mut()?.failure.take()?;
    Some((ErrorClass::OutputInvalid, failure))
}

/// What an answer of an earlier attempt was answered with, if it was an answer that missed its form.
pub fn replayed(work: &mut Work<'_>, response: &Response) -> Option<Message> {
    let form = work.form.as_mut().filter(|_| is_final(response))?;
    let fault = form.read(&response.text(), response.stop == Stop::MaxTokens).err()?;
    // After the last repair somebody retried the run, and it began to count anew.
    form.repairs = if form.repairs >= REPAIRS_MAX { 0 } else { form.repairs + 1 };
    Some(Message::user(note(&fault)))
}

/// Whether the last answer of an earlier attempt ended its run by missing its form: whoever retries it asks anew.
pub fn is_given_up(work: &mut Work<'_>, response: &Response) -> bool {
    let Some(form) = work.form.as_mut().filter(|form| is_final(response) && form.repairs >= REPAIRS_MAX)
    else {
        return false;
    };
    let missed = form.read(&response.text(), response.stop == Stop::MaxTokens).is_err();
    if missed {
        form.repairs = 0;
    }
    missed
}

/// Whether a response was meant as the answer.
fn is_final(response: &Response) -> bool {
    response.calls().next().is_none() && !matches!(response.stop, Stop::Paused | Stop::MalformedCall)
}

fn note(fault: &Fault) -> String {
    let fault = &fault.for_model;
    format!(
        "[engine] Your answer does not fit the JSON Schema that was asked for: {fault}. Answer again with the whole \
         corrected JSON, and with nothing else."
    )
}

/// The JSON of an answer: all of it, or what stands in its only fenced block.
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
        let block = block.strip_prefix("json").or_else(|| block.strip_prefix("JSON")).unwrap_or(block);
        return serde_json::from_str(block.trim()).map_err(|error| format!("it is not JSON: {error}"));
    }
    Err(format!("it is not JSON: {error}"))
}

/// ``at `/rows/0/total`: "x" is not of type "number"``
fn placed(error: &ValidationError<'_>, words: &str) -> String {
    let path: String = error.instance_path().as_str().chars().take(FAULT_CHARS_MAX).collect();
    let place = if path.is_empty() { "at the top".to_owned() } else { format!("at `{path}`") };
    let words: String = words.chars().filter(|c| !c.is_control()).take(FAULT_CHARS_MAX).collect();
    format!("{place}: {words}")
}

/// JSON with the keys of every object in order and nothing between: equal values are equal texts.
fn canonical(value: &Value) -> String {
    sorted(value).to_string()
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            Value::Object(members.into_iter().map(|(k, v)| (k.clone(), sorted(v))).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// For people: in a fence, because an answer is Markdown, which would take the JSON apart.
fn shown(value: &Value) -> String {
    format!("```json\n{value:#}\n```")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_is_found_in_a_fence_and_not_guessed_elsewhere() {
        let good =
            ["{\"a\": 1}", " {\"a\":1}\n", "```json\n{\"a\": 1}\n```", "Here:\n```\n{\"a\":1}\n```\nDone."];
        for text in good {
            assert_eq!(json_of(text), Ok(json!({ "a": 1 })), "{text}");
        }
        for text in ["", "Done.", "{\"a\": 1", "so {\"a\": 1}", "```{}``` or ```{}```", "```json\n{\n```"] {
            assert!(json_of(text).is_err(), "{text}");
        }
        let fenced_inside = json!({ "a": "```x```" });
        assert_eq!(json_of(&fenced_inside.to_string()), Ok(fenced_inside.clone()));
        assert_eq!(json_of(&shown(&json!([1]))), Ok(json!([1])));
    }

    #[test]
    fn equal_values_are_equal_texts() {
        let (a, b) = (r#"{"b": [{"y": 1, "x": null}], "a": 1.0}"#, r#"{ "a":1.0,"b":[{"x":null,"y":1}] }"#);
        let text = |json: &str| json_of(json).map(|value| canonical(&value));
        assert_eq!(text(a), text(b));
        assert_eq!(text(a).as_deref(), Ok(r#"{"a":1.0,"b":[{"x":null,"y":1}]}"#));
    }
}
