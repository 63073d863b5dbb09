//! What comes back: bounces read, matched with what was sent, and never answered.

mod oracle;
