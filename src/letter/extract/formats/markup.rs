//! Text of XML, event by event. Entities of a document's own are not expanded, and nothing is fetched.

use crate::extract::document::DecodeError;
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

/// Deepest element; deeper ones are a bomb.
const DEPTH_MAX: usize = 256;

/// A step of a walk through XML.
pub enum Markup<'a> {
    /// An element begins; its local name. An empty element begins and ends.
    Begin(&'a str, &'a BytesStart<'a>),
    End(&'a str),
    Text(&'a str),
}

/// Walks through a document of XML.
pub fn walk(bytes: &[u8], mut step: impl FnMut(Markup<'_>)) -> Result<(), DecodeError> {
    let text = String::from_utf8_lossy(bytes);
    let mut reader = Reader::from_str(&text);
    reader.config_mut().check_end_names = false;
    let broken = |error: quick_xml::Error| DecodeError::Broken(error.to_string());
    let mut depth = 0_usize;
    loop {
        match reader.read_event().map_err(broken)? {
            Event::Eof => return Ok(()),
            Event::Start(element) => {
                depth += 1;
                if depth > DEPTH_MAX {
                    let why = format!("its elements are more than {DEPTH_MAX} deep");
                    return Err(DecodeError::TooLarge(why));
                }
                step(Markup::Begin(element.local_name().as_ref(), &element));
            }
            Event::Empty(element) => {
                let name = element.local_name();
                step(Markup::Begin(name.as_ref(), &element));
                step(Markup::End(name.as_ref()));
            }
            Event::End(element) => {
                depth = depth.saturating_sub(1);
                step(Markup::End(element.local_name().as_ref()));
            }
            Event::Text(text) => step(Markup::Text(&text.xml10_content())),
            Event::CData(text) => step(Markup::Text(&text.xml10_content())),
            Event::GeneralRef(entity) => {
                let named = match &*entity.xml10_content() {
                    "amp" => Some('&'),
                    "lt" => Some('<'),
                    "gt" => Some('>'),
                    "quot" => Some('"'),
                    "apos" => Some('\''),
                    _ => entity.resolve_char_ref().ok().flatten(),
                };
                if let Some(c) = named {
                    step(Markup::Text(c.encode_utf8(&mut [0; 4])));
                }
            }
            _ => {}
        }
    }
}

/// Returns an attribute by its local name.
pub fn attribute(element: &BytesStart<'_>, wanted: &str) -> Option<String> {
    element
        .attributes()
        .with_checks(false)
        .filter_map(Result::ok)
        .find(|attribute| attribute.key.local_name().as_ref() == wanted)
        .map(|attribute| attribute.value.to_string())
}
