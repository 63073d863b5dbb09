//! Values of a letter: addresses, the letter itself, its sender, reports, and mail of our own.
//!
//! - `address`: addresses and display names. `email`: a letter, before and after it is parsed.
//! - `identity`: what its sender proved. `label`: what a text is worth, and who may read it.
//! - `command`: commands of an owner in the first line. `filed`: rules that store a letter without a run.
//! - `mail_providers`: domains at which everybody may have a mailbox.
//! - `report`: bounces and their addresses. `loop_token`: mail of our own that comes back. `robots`: names and subjects of
//!   machines.

pub mod address;
pub mod command;
pub mod email;
pub mod filed;
pub mod identity;
pub mod label;
pub mod loop_token;
pub mod mail_providers;
pub mod report;
pub mod robots;
