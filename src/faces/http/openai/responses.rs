//! `POST /v1/responses` and `GET /v1/responses/{id}`: the id of a response is that of its run, so it can be read for as long as the
//! run is kept.

use super::ask::{self, ClientQuestion};
use super::conversation::RequestForm;
use super::error::ClientError;
use super::fields::RequestFields;
use super::models::record;
use super::outcome::{ClientAnswer, Extension};
use super::response_object::{OutputItem, ResponseError, ResponseObject, TextPart};
use super::stream::{self, EventForm, event};
use crate::domain::{ErrorClass, RunState};
use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::runs::chat::outcome::AskedRun;
use crate::runs::chat::program_message::waiting_text;
use crate::store::RunSummary;
use axum::response::Response;
use serde::Serialize;

pub(in crate::http) async fn respond(mut call: Call) -> Result<Response, PageError> {
    let mut fields = match RequestFields::read(&call.body) {
        Ok(fields) => fields,
        Err(error) => return Ok(error.response()),
    };
    let answered = answered(&mut call, &mut fields).await;
    Ok(ask::or_refused(answered, &fields))
}

async fn answered(call: &mut Call, fields: &mut RequestFields) -> Result<Response, ClientError> {
    let created = call.context.now().as_millis() / 1000;
    let previous = fields.text("previous_response_id").to_owned();
    let model = fields.text("model").to_owned();
    let object =
        |id: String, created: i64| ResponseObject::new(id, created, &model).after(&previous);
    let is_stream = fields.is_true("stream");
    match ask::understood(call, fields, RequestForm::Responses).await? {
        ClientQuestion::Titles(text) => {
            let answer = ClientAnswer::of_no_model(text);
            let object = object(call.context.store.clock().new_id(), created);
            let response = match is_stream {
                true => stream::at_once(ResponseForm::of(object), &answer),
                false => record(&object.answered(&answer)),
            };
            Ok(ask::marked(response, fields))
        }
        ClientQuestion::Persona(question) => {
            let mut asked = ask::ask(call, *question).await?;
            // The question is stored: others may have its room while it waits for its answer.
            call.forget_body();
            fields.forget_texts();
            let headers = asked.headers(fields);
            let object = object(asked.run.to_string(), asked.created);
            let object = object.with(asked.extension());
            if is_stream {
                let form = ResponseForm::of(object);
                return Ok(headers.on(stream::response(asked, form)));
            }
            if fields.is_true("background") {
                return Ok(headers.on(record(&object.in_state(asked.state))));
            }
            Ok(headers.on(match asked.answer().await {
                Ok(answer) => record(&object.answered(&answer)),
                Err(error) => error.response(),
            }))
        }
    }
}

/// Reads a response again, by the id of its run.
pub(in crate::http) async fn response(call: Call) -> Result<Response, PageError> {
    match stored(&call).await {
        Ok(response) => Ok(response),
        Err(error) => Ok(error.response()),
    }
}

async fn stored(call: &Call) -> Result<Response, ClientError> {
    let run = ask::run_of_key(call, call.param("id")).await?;
    let missing = || ask::not_found("id", "response_not_found", "no such response of this key");
    let run: RunSummary = run.ok_or_else(missing)?;
    let asked = AskedRun::of(&call.context.store, &run.id).await?;
    let created = run.created_at.as_millis() / 1000;
    let object = ResponseObject::new(run.id.to_string(), created, run.persona.as_str());
    let object = object.with(Extension {
        run_id: run.id.to_string(),
        thread_id: run.thread.to_string(),
        state: run.state,
    });
    let text = match run.state {
        RunState::Succeeded => asked.answer.clone().unwrap_or_default(),
        RunState::WaitingApproval => waiting_text(&run.id),
        RunState::Failed => {
            let class = run.error_class.map_or("failed", ErrorClass::as_str);
            return Ok(record(&object.failed(ResponseError {
                code: "run_failed",
                message: format!("no answer: {class}"),
            })));
        }
        state => return Ok(record(&object.in_state(state))),
    };
    Ok(record(&object.answered(&ClientAnswer {
        text,
        usage: run.usage,
        state: run.state,
        is_cut: asked.is_cut,
    })))
}

/// Events of a response that is made.
struct ResponseForm {
    object: ResponseObject,
    text: String,
    number: u64,
}

/// Place of a text in a response.
#[derive(Serialize)]
struct TextPlace<'a> {
    item_id: &'a str,
    output_index: u32,
    content_index: u32,
}

#[derive(Serialize)]
struct ResponseEvent<'a, T: Serialize> {
    #[serde(rename = "type")]
    kind: &'static str,
    sequence_number: u64,
    #[serde(flatten)]
    rest: T,
    #[serde(flatten)]
    place: Option<TextPlace<'a>>,
}

#[derive(Serialize)]
struct WithResponse<'a> {
    response: &'a ResponseObject,
}

#[derive(Serialize)]
struct WithItem<'a> {
    output_index: u32,
    item: &'a OutputItem,
}

#[derive(Serialize)]
struct WithPart<'a> {
    part: &'a TextPart,
}

#[derive(Serialize)]
struct WithDelta<'a> {
    delta: &'a str,
    logprobs: [(); 0],
}

#[derive(Serialize)]
struct WithText<'a> {
    text: &'a str,
    logprobs: [(); 0],
}

impl ResponseForm {
    fn of(object: ResponseObject) -> Self {
        Self {
            object,
            text: String::new(),
            number: 0,
        }
    }

    fn event(&mut self, kind: &'static str, rest: impl Serialize, in_text: bool) -> String {
        let item_id = self.object.item_id();
        let place = in_text.then_some(TextPlace {
            item_id: &item_id,
            output_index: 0,
            content_index: 0,
        });
        let number = self.number;
        self.number += 1;
        let data = ResponseEvent {
            kind,
            sequence_number: number,
            rest,
            place,
        };
        event(Some(kind), &data)
    }

    fn with_object(&mut self, kind: &'static str) -> String {
        let object = self.object.clone();
        self.event(kind, WithResponse { response: &object }, false)
    }
}

impl EventForm for ResponseForm {
    fn begin(&mut self) -> String {
        let mut events = self.with_object("response.created");
        events.push_str(&self.with_object("response.in_progress"));
        let item = self.object.item("", "in_progress");
        let rest = WithItem {
            output_index: 0,
            item: &item,
        };
        events.push_str(&self.event("response.output_item.added", rest, false));
        let part = TextPart::of("");
        let rest = WithPart { part: &part };
        events.push_str(&self.event("response.content_part.added", rest, true));
        events
    }

    fn text(&mut self, delta: &str) -> String {
        self.text.push_str(delta);
        let rest = WithDelta {
            delta,
            logprobs: [],
        };
        self.event("response.output_text.delta", rest, true)
    }

    fn end(&mut self, answer: &ClientAnswer) -> String {
        let text = std::mem::take(&mut self.text);
        let rest = WithText {
            text: &text,
            logprobs: [],
        };
        let mut events = self.event("response.output_text.done", rest, true);
        let part = TextPart::of(&text);
        let rest = WithPart { part: &part };
        events.push_str(&self.event("response.content_part.done", rest, true));
        let item = self.object.item(&text, "completed");
        let rest = WithItem {
            output_index: 0,
            item: &item,
        };
        events.push_str(&self.event("response.output_item.done", rest, false));
        self.object = self.object.clone().answered(answer);
        let kind = match answer.is_cut {
            true => "response.incomplete",
            false => "response.completed",
        };
        events.push_str(&self.with_object(kind));
        events
    }

    fn fail(&mut self, error: &ClientError) -> String {
        self.object = self.object.clone().failed(ResponseError {
            code: error.code,
            message: error.message.clone(),
        });
        self.with_object("response.failed")
    }
}
