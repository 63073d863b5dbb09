//! Questions that are answered where they are asked, and not by mail: a question is a message and a queued run.

pub mod question;
