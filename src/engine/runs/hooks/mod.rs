//! Hooks: programs of the owner that are asked before and after what a run does. A hook that gives no usable answer counts as
//! a no.
//!
//! - `program`: one program, from its start to its answer
//! - `occasion`: what a program is given to read
//! - `panel`: asks every hook of an occasion, and records their answers
//! - `of_run`: before and after a run; `of_call`: before and after a call, and before a mail
//!
//! Not here: hooks of mail that the engine writes in its own name, such as notices. There are none.

pub mod program;
pub mod occasion;
pub mod panel;
pub mod of_run;
pub mod of_call;
