//! Header fields: their borders, their values, and the meaning of some.
//!
//! - `fields`: borders of fields, values in them; `encoded_words`: RFC 2047; `parameters`: RFC 2231; `sender`: a `From` that is
//!   not written by the rules
//! - `header`: the own header of a letter, before the letter is parsed
//! - `filename`: names of attachments; `threading`: references and subjects of replies
//! - `automatic`: signs that a machine wrote the letter
//! - `wire`: values in the form that is sent; `dkim`: signatures of our mail

pub mod fields;
pub mod encoded_words;
pub mod parameters;
pub mod sender;
pub mod filename;
pub mod header;
pub mod wire;
pub mod threading;
pub mod automatic;
pub mod dkim;
