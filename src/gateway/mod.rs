//! Mail in and mail out. Ingresses pass letters to the intake; outbound sends committed deliveries.
//!
//! - `intake_contract`: the interface of the intake. `ingress`: the ways in, all of which end there.
//! - `identity`: who sent a letter. `authentication`: why a TLS handshake with a server failed.
//! - `dns_records`: what the domains of personas should publish.
//! - `judge`: rules of who is answered. `intake`: a letter is judged, placed and stored.
//! - `engine_mail`: a mail that the engine writes itself. `engine_mail_worker`: calls those who write one.
//! - `commands`: commands of owners by mail. `notices`: what owners are told. `sender_notes`: what senders are told.
//! - `outbound`: committed deliveries are sent. `failing`: servers that fail now.

pub mod intake_contract;
pub mod identity;
pub mod dns_records;
pub mod ingress;
pub mod judge;
pub mod approvals;
pub mod intake;
pub mod commands;
pub mod sender_notes;
pub mod notices;
mod engine_mail;
pub mod engine_mail_worker;
pub mod outbound;
pub mod failing;
mod authentication;
