//! Text of a part, in both directions.
//!
//! - `charsets`: bytes to text; `flowed`: lines as they were meant; `text_file`: whether a file is text
//! - `entities`, `tags`, `links`: HTML to shallow, well-formed HTML
//! - `hosts`: hosts that a text names
//! - `html`: HTML to text
//! - `dialect`: what a letter's text means, and both alternatives of it
//! - `quotes`: what is new in a reply

pub mod charsets;
pub mod flowed;
pub mod entities;
pub mod tags;
pub mod links;
pub mod hosts;
pub mod html;
pub mod dialect;
pub mod quotes;
pub mod text_file;
