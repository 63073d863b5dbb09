//! How letters come in: one folder or file per way. Each ends at [`crate::gateway::door::Door`].

pub mod archive;
pub mod doorstep;
pub mod folder;
pub mod imap;
pub mod smtp;
