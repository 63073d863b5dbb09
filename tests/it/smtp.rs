//! The SMTP server, spoken to by files, by hostile bytes, by crowds and by other people's clients.

pub mod client;
mod crowd;
mod dialogs;
mod floods;
mod limits;
mod lmtp;
mod login;
mod other_clients;
mod proxy;
mod secure;
mod slow;
mod smuggling;
mod tls;
