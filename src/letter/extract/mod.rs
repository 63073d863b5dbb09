//! Text of documents: decoders, and the locked child process in which they work.
//!
//! A decoder is code that nobody here wrote, at work on bytes that a stranger wrote. It gets neither files nor sockets, a
//! bounded memory, and a process of its own, which may die (D-80). In reading order:
//!
//! - `limits`: bounds of one document
//! - `document`: what is read from a document, as a value
//! - `kind`: the type of a document by its first bytes
//! - `decode`: bytes to a document; `formats`: one file a format
//! - `confine`: the lock-down of the child's own process
//! - `worker`: the child; `extractor`: its parent
//!
//! Absent on purpose: storing what was read (`store`), and who may read it (`tools`).

mod limits;
mod document;
mod kind;
mod formats;
mod decode;
mod confine;
mod worker;
mod extractor;

pub use confine::{Attempts, attempts};
pub use decode::{decode, image_header};
pub use document::{DecodeError, DocumentKind, Extracted, ImageFacts};
pub use extractor::{ExtractError, Extractor};
pub use kind::found_kind;
pub use limits::{EXTRACTOR_VERSION, ExtractLimits};
pub use worker::{SELF_TEST, WORKER, work};
