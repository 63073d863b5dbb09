//! Sources of letters: one folder or file per source. Each calls
//! [`crate::gateway::intake_contract::LetterIntake`].

pub mod archive;
pub mod certificate;
pub mod in_flight;
pub mod folder;
pub mod imap;
pub mod listen_socket;
pub mod smtp;
