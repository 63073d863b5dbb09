//! Values of a letter: addresses, the letter itself, its sender, reports, and mail of our own.

pub mod address;
pub mod email;
pub mod filed;
pub mod identity;
pub mod loop_token;
pub mod report;
