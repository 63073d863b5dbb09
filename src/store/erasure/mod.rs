//! Erasure of what one person wrote, from every row that holds it.
//!
//! - `scope`: the letters, threads, runs and mails that hold it.
//! - `quotes`: records and letters elsewhere that quote it.
//! - `statements`: what is emptied, in which order.
//! - `erase`: the transaction. `progress`: the row by which an interrupted erasure is finished.
//! - `remains`: where words still stand.
//!
//! Rows stay where threads, counts and audits need them: a letter keeps its number, instant, sender and digest, and loses its
//! words. What becomes of each column is in `catalogue.rs`. Not here: files, and the erasure of single entries of memory (`memory/erase.rs`), which this uses.

pub mod scope;
pub mod quotes;
pub mod statements;
pub mod erase;
pub mod progress;
pub mod remains;
