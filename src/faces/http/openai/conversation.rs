//! Messages of a request, as the turns of a conversation and the instructions that stand before them.

use super::error::ClientError;
use super::fields::RequestFields;
use super::files;
use crate::runs::chat::program_message::{ProgramMessage, Speaker, SpokenFile, SpokenTurn};
use crate::text::{truncated, visible};
use serde_json::Value;

/// Longest new text, and longest instructions, in bytes.
const TEXT_BYTES_MAX: usize = 256 * 1024;
const INSTRUCTIONS_BYTES_MAX: usize = 32 * 1024;
/// Most files of a message.
const FILES_MAX: usize = 20;
/// Longest id that a client gives a conversation.
const CHAT_CHARS_MAX: usize = 200;

/// Where the messages of a request stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestForm {
    /// `messages` of a chat completion.
    Completions,
    /// `input` and `instructions` of a response.
    Responses,
}

/// Reads the conversation of a request. `chat`: id that the client gives it in a header field; empty: none.
pub(super) fn read(
    fields: &RequestFields,
    form: RequestForm,
    key: &str,
    chat: &str,
) -> Result<ProgramMessage, ClientError> {
    let mut conversation = Conversation::default();
    match form {
        RequestForm::Completions => {
            let messages = fields.get("messages").and_then(Value::as_array);
            let messages = messages.filter(|messages| !messages.is_empty());
            let messages = messages.ok_or_else(|| missing("messages"))?;
            conversation.add_all(messages, "messages")?;
        }
        RequestForm::Responses => {
            conversation.instruct(fields.text("instructions"));
            match fields.get("input") {
                Some(Value::String(text)) => {
                    let text = text.clone();
                    conversation.say(
                        Speaker::User,
                        SpokenContent {
                            text,
                            ..SpokenContent::default()
                        },
                    );
                }
                Some(Value::Array(items)) => conversation.add_all(items, "input")?,
                _ => return Err(missing("input")),
            }
        }
    }
    let named = [chat, fields.text("safety_identifier"), fields.text("user")];
    let chat = named.into_iter().find(|name| !name.is_empty());
    let message = ProgramMessage {
        key: key.to_owned(),
        chat: truncated(chat.unwrap_or_default(), CHAT_CHARS_MAX),
        instructions: conversation.instructions.join("\n\n"),
        turns: conversation.turns,
        output_tokens_max: fields.output_tokens_max()?,
        output_schema: fields.output_schema()?,
    };
    let param = form.param();
    let new = message.new_text();
    let files = message.new_files_count();
    if new.trim().is_empty() && files == 0 {
        let text = "the last message must be the user's, with text or a file";
        return Err(ClientError::invalid(param, "invalid_value", text));
    }
    if files > FILES_MAX {
        let text = format!("a message has {FILES_MAX} files at most");
        return Err(ClientError::invalid(param, "array_above_max_length", text));
    }
    if new.len() > TEXT_BYTES_MAX || message.instructions.len() > INSTRUCTIONS_BYTES_MAX {
        let text = format!(
            "a message has {TEXT_BYTES_MAX} bytes at most, and instructions have {INSTRUCTIONS_BYTES_MAX}"
        );
        return Err(ClientError::invalid(param, "string_above_max_length", text));
    }
    Ok(message)
}

impl RequestForm {
    pub fn param(self) -> &'static str {
        match self {
            Self::Completions => "messages",
            Self::Responses => "input",
        }
    }
}

fn missing(param: &str) -> ClientError {
    let message = format!("`{param}` is missing");
    ClientError::invalid(param, "missing_required_parameter", message)
}

#[derive(Default)]
struct Conversation {
    instructions: Vec<String>,
    turns: Vec<SpokenTurn>,
}

impl Conversation {
    fn instruct(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.instructions.push(text.to_owned());
        }
    }

    fn say(&mut self, speaker: Speaker, content: SpokenContent) {
        let SpokenContent { text, files } = content;
        self.turns.push(SpokenTurn {
            speaker,
            text,
            files,
        });
    }

    fn add_all(&mut self, messages: &[Value], param: &str) -> Result<(), ClientError> {
        for (at, message) in messages.iter().enumerate() {
            let param = format!("{param}[{at}]");
            // A response takes items of other kinds, too: those of tools are refused by their role, which they lack.
            let role = message["role"].as_str().unwrap_or_default();
            match role {
                "system" | "developer" => {
                    self.instruct(&content_of(&message["content"], role, &param)?.text);
                }
                "user" => {
                    let content = content_of(&message["content"], role, &param)?;
                    self.say(Speaker::User, content);
                }
                "assistant" => {
                    let content = content_of(&message["content"], role, &param)?;
                    self.say(Speaker::Assistant, content);
                }
                other => {
                    let other = visible(&truncated(other, 40));
                    let text = format!(
                        "messages of the role `{other}` are not supported; there are: system, developer, user, assistant"
                    );
                    return Err(ClientError::unsupported(&format!("{param}.role"), text));
                }
            }
        }
        Ok(())
    }
}

/// Text and files of a message.
#[derive(Default)]
struct SpokenContent {
    text: String,
    files: Vec<SpokenFile>,
}

/// Reads the content of a message: a string, or parts that are text, and of a user's message images and files.
fn content_of(content: &Value, role: &str, param: &str) -> Result<SpokenContent, ClientError> {
    let param = format!("{param}.content");
    let parts = match content {
        Value::String(text) => {
            let text = text.clone();
            return Ok(SpokenContent {
                text,
                ..SpokenContent::default()
            });
        }
        Value::Null => return Ok(SpokenContent::default()),
        Value::Array(parts) => parts,
        _ => {
            let text = "`content` is a text or a list of parts";
            return Err(ClientError::invalid(&param, "invalid_type", text));
        }
    };
    let mut texts = Vec::new();
    let mut files = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let param = format!("{param}[{at}]");
        match (part["type"].as_str(), part["text"].as_str()) {
            (Some("text" | "input_text" | "output_text"), Some(text)) => texts.push(text),
            (Some("refusal"), _) => {}
            (Some("image_url" | "input_image"), _) if role == "user" => {
                files.push(files::image(part, &param)?);
            }
            (Some("file" | "input_file"), _) if role == "user" => {
                files.push(files::file(part, &param)?);
            }
            (kind, _) => {
                let kind = visible(&truncated(kind.unwrap_or_default(), 40));
                let text = format!(
                    "parts of the type `{kind}` are not supported in a message of the role `{role}`; a user's has text, images and files"
                );
                return Err(ClientError::unsupported(&param, text));
            }
        }
    }
    let text = texts.join("\n");
    Ok(SpokenContent { text, files })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parsed(fields: &Value, form: RequestForm) -> Result<ProgramMessage, ClientError> {
        let fields = RequestFields::read(fields.to_string().as_bytes())?;
        read(&fields, form, "k", "")
    }

    #[test]
    fn messages_become_turns_and_instructions() {
        let parts = json!([{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }]);
        let messages = json!({ "user": "u", "messages": [{ "role": "system", "content": "Be brief." },
            { "role": "user", "content": parts }] });
        let message = parsed(&messages, RequestForm::Completions).expect("a message");
        assert_eq!(
            (message.instructions.as_str(), message.chat.as_str()),
            ("Be brief.", "u")
        );
        assert_eq!(message.new_text(), "a\nb");
        let input = json!({ "instructions": "Be brief.", "input": "Hello" });
        let message = parsed(&input, RequestForm::Responses).expect("a message");
        assert_eq!(
            (message.instructions.as_str(), message.new_text().as_str()),
            ("Be brief.", "Hello")
        );
    }

    #[test]
    fn what_is_no_text_of_a_user_is_refused() {
        let image =
            json!([{ "type": "image_url", "image_url": { "url": "https://evil.test/a.png" } }]);
        let sound = json!([{ "type": "input_audio", "input_audio": {} }]);
        for (messages, param, code) in [
            (json!([]), "messages", "missing_required_parameter"),
            (
                json!([{ "role": "user", "content": image }]),
                "messages[0].content[0].image_url.url",
                "invalid_image_url",
            ),
            (
                json!([{ "role": "user", "content": sound }]),
                "messages[0].content[0]",
                "unsupported_parameter",
            ),
            (
                json!([{ "role": "tool", "content": "x" }]),
                "messages[0].role",
                "unsupported_parameter",
            ),
            (
                json!([{ "role": "user", "content": "a" }, { "role": "assistant", "content": "b" }]),
                "messages",
                "invalid_value",
            ),
            (
                json!([{ "role": "user", "content": 7 }]),
                "messages[0].content",
                "invalid_type",
            ),
            (
                json!([{ "role": "user", "content": "x".repeat(TEXT_BYTES_MAX + 1) }]),
                "messages",
                "string_above_max_length",
            ),
        ] {
            let error = parsed(&json!({ "messages": messages }), RequestForm::Completions)
                .expect_err("an error");
            assert_eq!((error.param.as_deref(), error.code), (Some(param), code));
        }
    }
}
