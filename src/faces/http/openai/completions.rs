//! `POST /v1/chat/completions`.

use super::ask::{self, ClientQuestion};
use super::conversation::RequestForm;
use super::error::ClientError;
use super::fields::RequestFields;
use super::models::record;
use super::outcome::{ClientAnswer, Extension};
use super::stream::{self, EventForm, event};
use crate::domain::TokenUsage;
use crate::http::call::Call;
use crate::http::failure::PageError;
use axum::response::Response;
use serde::Serialize;

#[derive(Serialize)]
struct Completion<'a> {
    id: &'a str,
    object: &'static str,
    created: i64,
    model: &'a str,
    choices: Vec<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<CompletionUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attache: Option<&'a Extension>,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u32,
    /// Member `message` of a whole answer, `delta` of a piece.
    #[serde(flatten)]
    said: ChoiceText<'a>,
    logprobs: Option<()>,
    finish_reason: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum ChoiceText<'a> {
    Message(ChoiceMessage<'a>),
    Delta(ChoiceMessage<'a>),
}

#[derive(Serialize, Default)]
struct ChoiceMessage<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct CompletionUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
}

impl From<TokenUsage> for CompletionUsage {
    fn from(usage: TokenUsage) -> Self {
        let read = usage
            .cache_read_tokens
            .saturating_add(usage.cache_write_tokens);
        let prompt_tokens = usage.input_tokens.saturating_add(read);
        Self {
            prompt_tokens,
            completion_tokens: usage.output_tokens,
            total_tokens: prompt_tokens.saturating_add(usage.output_tokens),
        }
    }
}

fn finish_reason(answer: &ClientAnswer) -> &'static str {
    match answer.is_cut {
        true => "length",
        false => "stop",
    }
}

/// What all pieces of an answer have in common.
struct CompletionForm {
    id: String,
    model: String,
    created: i64,
    /// `true`: the client wants a last piece with the usage.
    has_usage: bool,
    extension: Option<Extension>,
}

pub(in crate::http) async fn complete(mut call: Call) -> Result<Response, PageError> {
    let mut fields = match RequestFields::read(&call.body) {
        Ok(fields) => fields,
        Err(error) => return Ok(error.response()),
    };
    let answered = answered(&mut call, &mut fields).await;
    Ok(ask::or_refused(answered, &fields))
}

async fn answered(call: &mut Call, fields: &mut RequestFields) -> Result<Response, ClientError> {
    let options = fields.get("stream_options");
    let mut form = CompletionForm {
        id: call.context.store.clock().new_id(),
        model: fields.text("model").to_owned(),
        created: call.context.now().as_millis() / 1000,
        has_usage: options.is_some_and(|options| options["include_usage"] == true),
        extension: None,
    };
    let is_stream = fields.is_true("stream");
    match ask::understood(call, fields, RequestForm::Completions).await? {
        ClientQuestion::Titles(text) => {
            let answer = ClientAnswer::of_no_model(text);
            let response = match is_stream {
                true => stream::at_once(form, &answer),
                false => form.whole(&answer)?,
            };
            Ok(ask::marked(response, fields))
        }
        ClientQuestion::Persona(question) => {
            let mut asked = ask::ask(call, *question).await?;
            // The question is stored: others may have its room while it waits for its answer.
            call.forget_body();
            fields.forget_texts();
            form.id = asked.run.to_string();
            form.created = asked.created;
            form.extension = Some(asked.extension());
            let headed = asked.headers(fields);
            if is_stream {
                return Ok(headed.on(stream::response(asked, form)));
            }
            let answer = asked.answer().await;
            Ok(headed.on(match answer {
                Ok(answer) => form.whole(&answer)?,
                Err(error) => error.response(),
            }))
        }
    }
}

impl CompletionForm {
    fn whole(&mut self, answer: &ClientAnswer) -> Result<Response, ClientError> {
        self.note(answer);
        let message = ChoiceMessage {
            role: Some("assistant"),
            content: Some(&answer.text),
        };
        let choice = Choice {
            index: 0,
            said: ChoiceText::Message(message),
            logprobs: None,
            finish_reason: Some(finish_reason(answer)),
        };
        let usage = Some(answer.usage.into());
        Ok(record(&self.object("chat.completion", vec![choice], usage)))
    }

    fn note(&mut self, answer: &ClientAnswer) {
        if let Some(extension) = &mut self.extension {
            extension.state = answer.state;
        }
    }

    fn object<'a>(
        &'a self,
        object: &'static str,
        choices: Vec<Choice<'a>>,
        usage: Option<CompletionUsage>,
    ) -> Completion<'a> {
        Completion {
            id: &self.id,
            object,
            created: self.created,
            model: &self.model,
            choices,
            usage,
            attache: self.extension.as_ref(),
        }
    }

    fn chunk(&self, delta: ChoiceMessage<'_>, finish_reason: Option<&'static str>) -> String {
        let choice = Choice {
            index: 0,
            said: ChoiceText::Delta(delta),
            logprobs: None,
            finish_reason,
        };
        event(
            None,
            &self.object("chat.completion.chunk", vec![choice], None),
        )
    }
}

impl EventForm for CompletionForm {
    fn begin(&mut self) -> String {
        let delta = ChoiceMessage {
            role: Some("assistant"),
            content: Some(""),
        };
        self.chunk(delta, None)
    }

    fn text(&mut self, delta: &str) -> String {
        let delta = ChoiceMessage {
            role: None,
            content: Some(delta),
        };
        self.chunk(delta, None)
    }

    fn end(&mut self, answer: &ClientAnswer) -> String {
        self.note(answer);
        let mut events = self.chunk(ChoiceMessage::default(), Some(finish_reason(answer)));
        if self.has_usage {
            let usage = Some(answer.usage.into());
            events.push_str(&event(
                None,
                &self.object("chat.completion.chunk", Vec::new(), usage),
            ));
        }
        events.push_str("data: [DONE]\n\n");
        events
    }

    fn fail(&mut self, error: &ClientError) -> String {
        format!("data: {}\n\ndata: [DONE]\n\n", error.body())
    }
}
