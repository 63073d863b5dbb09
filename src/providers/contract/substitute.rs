//! Sentences in place of the parts of a message that a provider does not take.
//!
//! Applied to every request above the adapters ([`RequestEncoder::encode_request`]): an adapter
//! sees no part that it has not declared.
//!
//! [`RequestEncoder::encode_request`]: crate::providers::RequestEncoder::encode_request

use crate::providers::contract::content::{ContentKinds, FileReference};
use crate::providers::contract::message::{Block, Message, Role};
use crate::providers::contract::request::Request;
use std::borrow::Cow;

/// Characters of a file name in a sentence; its sender chose it.
const NAME_CHARS_MAX: usize = 100;

/// Returns the request with a sentence instead of each part that is not among `kinds`. No vendor
/// takes a picture or a file in an answer, so there every such part is replaced.
pub fn request(request: &Request, kinds: ContentKinds) -> Cow<'_, Request> {
    let is_text = |message: &Message| {
        let mut blocks = message.blocks.iter();
        blocks.all(|block| {
            !matches!(
                block,
                Block::Image(_) | Block::Pdf(_) | Block::FileReference(_)
            )
        })
    };
    if request.messages.iter().all(is_text) {
        return Cow::Borrowed(request);
    }
    let messages = request.messages.iter().map(|message| {
        let kinds = match message.role {
            Role::User => kinds,
            Role::Assistant => ContentKinds::TEXT,
        };
        Message {
            role: message.role,
            blocks: message
                .blocks
                .iter()
                .map(|part| block(part, kinds))
                .collect(),
        }
    });
    Cow::Owned(Request {
        messages: messages.collect(),
        ..request.clone()
    })
}

fn block(block: &Block, kinds: ContentKinds) -> Block {
    match block {
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
