//! Letters and mails: their bytes and messages, what is held or filed, reports of other servers.
//!
//! - `messages`: a row of `messages`, in either direction.
//! - `inbound`: an incoming letter as a value.
//! - `arrivals`: the storing of incoming letters, those that wait together in one batch.
//! - `arrival_facts`: facts of letters before they are stored.
//! - `letter_rows`: rows of a letter.
//! - `together`: waiting letters that one run answers.
//! - `synthetic`: prompts of schedules, of chat and of manual runs.
//! - `audit_log`: policy decisions.
//! - `filed`: letters without a run, and the notice of them.
//! - `held`: letters whose sender cannot be verified yet.
//! - `reports`: reports on our mail.
//! - `imports`: mail brought from an archive.
//! - `letters`: raw bytes of a stored letter. `attachment_bytes`: attachments as ranges of them.
//! - `inbox`: the newest letters of a persona.
//!
//! Not here: the thread of a message (`threads`), its delivery (`deliveries`), the search over letters (`search`).

pub mod messages;
pub mod inbound;
pub mod arrivals;
pub mod arrival_facts;
pub mod letter_rows;
pub mod together;
pub mod synthetic;
pub mod audit_log;
pub mod filed;
pub mod held;
pub mod reports;
pub mod imports;
pub mod letters;
pub mod attachment_bytes;
pub mod inbox;
