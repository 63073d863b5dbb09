//! Sentences in place of the parts of a message that a provider does not take.
//!
//! A model that takes no tools is sent none, and the results of earlier calls as words: servers refuse both forms alike.
//!
//! Applied to every request above the adapters ([`RequestEncoder::encode_request`]): an adapter
//! sees no part that it has not declared.
//!
//! [`RequestEncoder::encode_request`]: crate::providers::RequestEncoder::encode_request

use crate::providers::contract::content::{ContentKinds, FileReference};
use crate::providers::contract::message::{Block, Message, Role};
use crate::providers::contract::request::{Parameter, Request};
use std::borrow::Cow;

/// Characters of a file name in a sentence; its sender chose it.
const NAME_CHARS_MAX: usize = 100;

/// Returns the request with a sentence instead of each part that is not among `kinds`. No vendor
/// takes a picture or a file in an answer, so there every such part is replaced.
pub fn request(request: &Request, kinds: ContentKinds) -> Cow<'_, Request> {
    let takes_tools = !request.without.contains(&Parameter::Tools);
    let is_text = |message: &Message| {
        let mut blocks = message.blocks.iter();
        blocks.all(|block| match block {
            Block::Image(_) | Block::Pdf(_) | Block::FileReference(_) => false,
            Block::ToolCall { .. } | Block::ToolResult { .. } => takes_tools,
            Block::Text { .. } | Block::Thinking { .. } => true,
        })
    };
    if takes_tools && request.messages.iter().all(is_text) {
        return Cow::Borrowed(request);
    }
    let messages = request.messages.iter().map(|message| {
        let kinds = match message.role {
            Role::User => kinds,
            Role::Assistant => ContentKinds::TEXT,
        };
        // A call in words would teach the model to write the next one so; its result says what was looked up.
        let parts = message
            .blocks
            .iter()
            .filter(|part| takes_tools || !matches!(part, Block::ToolCall { .. }));
        Message {
            role: message.role,
            blocks: parts.map(|part| block(part, kinds, takes_tools)).collect(),
        }
    });
    let messages = messages
        .filter(|message| takes_tools || !message.blocks.is_empty())
        .collect();
    let mut sent = Request {
        messages,
        ..request.clone()
    };
    if !takes_tools {
        sent.tools.clear();
    }
    Cow::Owned(sent)
}

fn block(block: &Block, kinds: ContentKinds, takes_tools: bool) -> Block {
    match block {
        Block::ToolResult { name, content, .. } if !takes_tools => {
            Block::text(format!("(Looked up with `{name}`: {content})"))
        }
        Block::Image(image) if !kinds.takes_image(image) => {
            Block::text(sentence("image", "see", &image.file))
        }
        Block::Pdf(pdf) if !kinds.takes_pdf(pdf) => {
            Block::text(sentence("PDF file", "see", &pdf.file))
        }
        Block::FileReference(file) if !kinds.files => Block::text(sentence("file", "open", file)),
        other => other.clone(),
    }
}

/// Describes a part in one line: no name can end it.
fn sentence(kind: &str, verb: &str, file: &FileReference) -> String {
    let plain = |text: &str| -> String {
        let printable = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        printable.take(NAME_CHARS_MAX).collect()
    };
    format!(
        "(Attached {kind}, which you cannot {verb}: `{}`, {}, {} bytes.)",
        plain(&file.name).replace('`', "'"),
        plain(&file.media_type),
        file.size_bytes
    )
}
