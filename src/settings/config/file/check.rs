//! Finds every problem of one file before it is read into its type.
//!
//! serde stops at the first error; the JSON Schema of the same type finds them all. The faulty
//! members are then removed, so that the rest can be read and checked further in the same pass.

use super::document::{Document, Spot, child, last_key};
use super::problem::Problem;
use super::secret_keys::{is_header, looks_secret, secret_in_file};
use super::source::ConfigSource;
use super::{duration, json_schema};
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

/// Old and new names of renamed keys.
const RENAMED: &[(&str, &str)] = &[("trusted_sealers", "trusted_arc_signers")];
/// Keys of what was removed in 0.2.0 (decision D-161), and what to do instead.
const GONE: &[(&str, &str)] = &[(
    "objects",
    "remove it: all bytes are in the database; put `data` on a disk that is large enough",
)];

/// A typed file and the positions of its members.
#[derive(Default)]
pub struct ConfigFile<T> {
    /// The file without the members that have problems.
    pub typed: T,
    pub document: Document,
}

impl<T> Deref for ConfigFile<T> {
    type Target = Document;

    fn deref(&self) -> &Document {
        &self.document
    }
}

/// Reads one file into its type and reports every problem; `None` when nothing can be read.
pub fn read<T: JsonSchema + DeserializeOwned>(
    source: &ConfigSource<'_>,
    file: &str,
    problems: &mut Vec<Problem>,
) -> Option<ConfigFile<T>> {
    match source.document(file) {
        Ok(document) => type_check(document, problems),
        Err(problem) => {
            problems.push(*problem);
            None
        }
    }
}

fn type_check<T: JsonSchema + DeserializeOwned>(
    document: Document,
    problems: &mut Vec<Problem>,
) -> Option<ConfigFile<T>> {
    problems.extend(document.repeated());
    let faults = find_faults(&document, &compiled::<T>());
    let mut sound = document.value.clone();
    for fault in &faults {
        cut_out(&mut sound, &fault.pointer);
    }
    let blamed = faults
        .iter()
        .map(|fault| fault.pointer.clone())
        .collect::<Vec<_>>();
    let mut reported = !faults.is_empty();
    problems.extend(faults.into_iter().map(|fault| fault.problem));
    loop {
        let error = match serde_path_to_error::deserialize(&sound) {
            Ok(typed) => return Some(ConfigFile { typed, document }),
            Err(error) => error,
        };
        // Faults that a schema cannot express: a number that is too large for its type, a duration
        // beyond all dates.
        let pointer = pointer_of(error.path());
        if !cut_out(&mut sound, &pointer) {
            if !reported {
                problems.push(document.problem(
                    &pointer,
                    Spot::Value,
                    error.into_inner().to_string(),
                ));
            }
            return None;
        }
        // The fault that was removed from it is reported already, and now it is missing.
        if blamed
            .iter()
            .any(|fault| fault.starts_with(&format!("{pointer}/")))
        {
            continue;
        }
        let message = match document.value.pointer(&pointer) {
            Some(Value::Number(number)) => format!("{number} is out of range"),
            _ => error.into_inner().to_string(),
        };
        problems.push(document.problem(&pointer, Spot::Value, message));
        reported = true;
    }
}

/// A problem, and the pointer of the member that must be removed to read the rest.
struct MemberFault {
    pointer: String,
    problem: Problem,
}

/// A schema, and what looks for faults by it; or why it cannot.
struct CompiledSchema {
    schema: Value,
    validator: Result<jsonschema::Validator, String>,
}

/// Returns the schema of a type of files. It is made once: there is a file of a type for each persona.
fn compiled<T: JsonSchema>() -> Arc<CompiledSchema> {
    static COMPILED: Mutex<BTreeMap<Cow<'static, str>, Arc<CompiledSchema>>> =
        Mutex::new(BTreeMap::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let entry = compiled.entry(T::schema_id()).or_insert_with(|| {
        let schema = json_schema::schema_for::<T>();
        let validator = jsonschema::validator_for(&schema).map_err(|error| error.to_string());
        Arc::new(CompiledSchema { schema, validator })
    });
    entry.clone()
}

fn find_faults(document: &Document, compiled: &CompiledSchema) -> Vec<MemberFault> {
    let mut faults = document
        .pointers()
        .filter(|pointer| looks_secret(&last_key(pointer)) && !is_header(pointer))
        // A name that the owner gave, such as a tool's, with its settings below.
        .filter(|pointer| {
            !document
                .value
                .pointer(pointer)
                .is_some_and(Value::is_object)
        })
        .map(|pointer| MemberFault {
            pointer: pointer.to_owned(),
            problem: secret_in_file(document, pointer),
        })
        .collect::<Vec<_>>();
    let inspection = Inspection {
        document,
        schema: &compiled.schema,
    };
    match &compiled.validator {
        Ok(validator) => {
            let errors: Vec<_> = validator.iter_errors(&document.value).collect();
            let of_type = |error: &&ValidationError<'_>| !is_of_list(error, &errors);
            let worth = errors.iter().filter(of_type);
            worth.for_each(|error| inspection.explain(error, &mut faults));
        }
        Err(error) => {
            let problem = Problem::in_file(
                &document.file,
                format!("its schema cannot be used: {error}"),
            );
            faults.push(MemberFault {
                pointer: String::new(),
                problem,
            });
        }
    }
    faults
}

/// Reports whether an error is only that a value has not the type of the words of which it should be one, which another says.
fn is_of_list(error: &ValidationError<'_>, errors: &[ValidationError<'_>]) -> bool {
    let is_same = |other: &&ValidationError<'_>| other.instance_path() == error.instance_path();
    let mut others = errors.iter().filter(is_same);
    matches!(error.kind(), ValidationErrorKind::Type { .. })
        && others.any(|other| matches!(other.kind(), ValidationErrorKind::Enum { .. }))
}

struct Inspection<'a> {
    document: &'a Document,
    schema: &'a Value,
}

impl Inspection<'_> {
    fn explain(&self, error: &ValidationError<'_>, faults: &mut Vec<MemberFault>) {
        let pointer = error.instance_path().as_str();
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                for key in unexpected.iter().filter(|key| !looks_secret(key)) {
                    let pointer = child(pointer, key);
                    let gone = GONE.iter().find(|(old, _)| old == key);
                    let says = gone.map_or("unknown key", |_| "this setting was removed in 0.2.0");
                    let problem = self.document.problem(&pointer, Spot::Key, says);
                    let renamed = RENAMED.iter().find(|(old, _)| old == key);
                    let problem = match (gone, renamed) {
                        (Some((_, instead)), _) => problem.hint(*instead),
                        (None, Some((_, new))) => problem.hint(format!("it is called `{new}` now")),
                        (None, None) => problem.did_you_mean(key, self.known_keys(error)),
                    };
                    faults.push(MemberFault { pointer, problem });
                }
            }
            ValidationErrorKind::AnyOf { context }
            | ValidationErrorKind::OneOfNotValid { context } => {
                self.explain_choice(error, context, faults);
            }
            ValidationErrorKind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                let problem =
                    self.document
                        .problem(pointer, Spot::Value, format!("`{name}` is missing"));
                let problem = problem.hint(self.wanted(error, name));
                faults.push(MemberFault {
                    pointer: pointer.to_owned(),
                    problem,
                });
            }
            _ => {
                let problem = self.worded(error);
                faults.push(MemberFault {
                    pointer: pointer.to_owned(),
                    problem,
                });
            }
        }
    }

    /// Explains a value with several permitted forms: the errors of the intended form, or else all
    /// forms together.
    fn explain_choice(
        &self,
        error: &ValidationError<'_>,
        forms: &[Vec<ValidationError<'static>>],
        faults: &mut Vec<MemberFault>,
    ) {
        let pointer = error.instance_path().as_str();
        let here = |e: &&ValidationError<'_>| e.instance_path().as_str() == pointer;
        let is_other_form = |form: &&Vec<ValidationError<'_>>| {
            form.iter().filter(here).any(|e| {
                use ValidationErrorKind as Kind;
                matches!(
                    e.kind(),
                    Kind::Type { .. } | Kind::Constant { .. } | Kind::Enum { .. }
                )
            })
        };
        let meant = forms
            .iter()
            .filter(|form| !is_other_form(form))
            .collect::<Vec<_>>();
        if let [only] = meant.as_slice() {
            return only.iter().for_each(|e| self.explain(e, faults));
        }
        let leaves = forms.iter().flatten().filter(here).collect::<Vec<_>>();
        let options = leaves.iter().flat_map(|e| options(e)).collect::<Vec<_>>();
        let typed = error.instance();
        let problem = match typed.as_str() {
            Some(text) if !options.is_empty() => self.unknown_value(pointer, text, &options),
            _ => {
                let types = leaves
                    .iter()
                    .flat_map(|e| expected_types(e))
                    .collect::<Vec<_>>();
                let strings = (!options.is_empty() && types.is_empty()).then_some(JsonType::String);
                self.wrong_type(pointer, typed, types.into_iter().chain(strings))
            }
        };
        faults.push(MemberFault {
            pointer: pointer.to_owned(),
            problem,
        });
    }

    fn worded(&self, error: &ValidationError<'_>) -> Problem {
        let pointer = error.instance_path().as_str();
        let problem_at = |message: String| self.document.problem(pointer, Spot::Value, message);
        let typed = error.instance();
        match error.kind() {
            ValidationErrorKind::Type { .. } => {
                self.wrong_type(pointer, typed, expected_types(error))
            }
            ValidationErrorKind::Enum { .. } | ValidationErrorKind::Constant { .. } => {
                self.unknown_value(pointer, typed.as_str().unwrap_or_default(), &options(error))
            }
            ValidationErrorKind::Pattern { pattern } if pattern == duration::PATTERN => problem_at(
                format!("`{}` is not a duration", typed.as_str().unwrap_or_default()),
            )
            .hint("write a whole number and ms, s, m, h or d, such as `30s` or `5d`"),
            ValidationErrorKind::Minimum { limit } => {
                problem_at(format!("must be at least {limit}"))
                    .hint(format!("write {limit} or more"))
            }
            ValidationErrorKind::Maximum { limit } => {
                problem_at(format!("must be at most {limit}"))
                    .hint(format!("write {limit} or less"))
            }
            ValidationErrorKind::MinLength { .. } | ValidationErrorKind::MinItems { .. } => {
                problem_at("must not be empty".to_owned())
            }
            _ => problem_at(error.masked_with("it").to_string()),
        }
    }

    fn wrong_type(
        &self,
        pointer: &str,
        found: &Value,
        expected: impl IntoIterator<Item = JsonType>,
    ) -> Problem {
        // `null` is always permitted for an optional value and needs no mention.
        let mut names = expected
            .into_iter()
            .filter(|t| *t != JsonType::Null)
            .map(type_name)
            .collect::<Vec<_>>();
        names.dedup();
        let typed = type_name(JsonType::from(found));
        let message = format!("expected {}, found {typed}", names.join(" or "));
        let problem = self.document.problem(pointer, Spot::Value, message);
        match names.as_slice() {
            [wanted] => problem.hint(retyped(wanted, found)),
            _ => problem,
        }
    }

    /// Hint for a missing member: its name and the description of its type.
    fn wanted(&self, error: &ValidationError<'_>, name: &str) -> String {
        let path = error.schema_path().as_str();
        let object = path
            .rsplit_once('/')
            .and_then(|(object, _)| self.schema.pointer(object));
        let about = object.and_then(|object| {
            object
                .pointer(&child("/properties", name))?
                .get("description")?
                .as_str()
        });
        // Only the first sentence; the schema has the full description.
        let about = about
            .and_then(|about| about.split(['.', ';']).next())
            .map(|about| about.replace('\n', " "));
        match about {
            Some(about) => format!("write `\"{name}\": …` ({})", about.trim()),
            None => format!("write `\"{name}\": …`"),
        }
    }

    fn unknown_value(&self, pointer: &str, typed: &str, options: &[String]) -> Problem {
        let found = self.document.value.pointer(pointer);
        let message = match found.filter(|found| !found.is_string()) {
            Some(found) => format!(
                "expected a word, found {}",
                type_name(JsonType::from(found))
            ),
            None => format!("unknown value `{typed}`"),
        };
        let problem = self.document.problem(pointer, Spot::Value, message);
        problem.did_you_mean(typed, options.iter().map(String::as_str))
    }

    /// The permitted keys of the object of an `additionalProperties` error.
    fn known_keys(&self, error: &ValidationError<'_>) -> Vec<&str> {
        let path = error.schema_path().as_str();
        let object = path
            .rsplit_once('/')
            .and_then(|(object, _)| self.schema.pointer(object));
        let properties = object
            .and_then(|object| object.get("properties"))
            .and_then(Value::as_object);
        properties
            .into_iter()
            .flat_map(|p| p.keys())
            .map(String::as_str)
            .filter(|k| *k != "$schema")
            .collect()
    }
}

/// Hint with the value rewritten in the wanted type, as far as it can be derived.
fn retyped(wanted: &str, found: &Value) -> String {
    let shown = found.to_string();
    let text = found.as_str().unwrap_or_default().trim();
    match wanted {
        "a list" if !found.is_object() && shown.len() <= SHOWN_CHARS_MAX => {
            format!("write `[{shown}]`")
        }
        "a list" => "write `[…]`".to_owned(),
        "an object" => "write `{…}`".to_owned(),
        "true or false" => "write `true` or `false`, without quotation marks".to_owned(),
        "a whole number" | "a number" if text.parse::<f64>().is_ok() => {
            format!("write `{text}`, without quotation marks")
        }
        "a whole number" | "a number" => match bytes_of(text) {
            Some(bytes) => format!("write `{bytes}`, without unit and quotation marks"),
            None => "write digits such as `10`, without unit and quotation marks".to_owned(),
        },
        "a string" if shown.len() <= SHOWN_CHARS_MAX && !found.is_object() && !found.is_array() => {
            format!("write `\"{shown}\"`")
        }
        _ => "write it between quotation marks".to_owned(),
    }
}

/// Maximum characters of a value that a hint repeats.
const SHOWN_CHARS_MAX: usize = 60;

/// Parses `25MB` and `25 MiB` as bytes, in powers of 1024 like every limit here.
fn bytes_of(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let power = match unit.trim().to_ascii_lowercase().as_str() {
        "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << power)
}

fn options(error: &ValidationError<'_>) -> Vec<String> {
    let texts = |value: &Value| match value {
        Value::Array(all) => all
            .iter()
            .filter_map(|v| v.as_str().map(str::to_owned))
            .collect(),
        Value::String(one) => vec![one.clone()],
        _ => Vec::new(),
    };
    match error.kind() {
        ValidationErrorKind::Enum { options } => texts(options),
        ValidationErrorKind::Constant { expected_value } => texts(expected_value),
        _ => Vec::new(),
    }
}

fn expected_types(error: &ValidationError<'_>) -> Vec<JsonType> {
    match error.kind() {
        ValidationErrorKind::Type {
            kind: TypeKind::Single(one),
        } => vec![*one],
        ValidationErrorKind::Type {
            kind: TypeKind::Multiple(set),
        } => set.iter().collect(),
        _ => Vec::new(),
    }
}

fn type_name(json_type: JsonType) -> &'static str {
    match json_type {
        JsonType::Array => "a list",
        JsonType::Boolean => "true or false",
        JsonType::Integer => "a whole number",
        JsonType::Null => "null",
        JsonType::Number => "a number",
        JsonType::Object => "an object",
        JsonType::String => "a string",
    }
}

/// Removes the member at `pointer` and reports whether it existed. A faulty item removes its whole
/// list, because removing it alone would shift the other items.
fn cut_out(value: &mut Value, pointer: &str) -> bool {
    let is_index = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let parts = pointer
        .split('/')
        .skip(1)
        .take_while(|part| !is_index(part))
        .collect::<Vec<_>>();
    let Some((last, parents)) = parts.split_last() else {
        return false;
    };
    let parent = parents
        .iter()
        .map(|part| format!("/{part}"))
        .collect::<String>();
    match value.pointer_mut(&parent) {
        Some(Value::Object(members)) => members.shift_remove(&last_key(last)).is_some(),
        _ => false,
    }
}

fn pointer_of(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    path.iter()
        .fold(String::new(), |pointer, segment| match segment {
            Segment::Seq { index } => child(&pointer, index),
            Segment::Map { key } => child(&pointer, key),
            Segment::Enum { .. } | Segment::Unknown => pointer,
        })
}
