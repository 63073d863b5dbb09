//! Black-box cases that no other module holds: what somebody who writes, configures or operates would try.

mod commands;
mod gone_texts;
mod letters;
mod runs;
