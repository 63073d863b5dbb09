//! Handlers of the pages: each reads values from the store and renders one template.
//!
//! - `login`: one-time codes; `files`: style and script; `inbox`, `thread` (with `strip`), `run`, `context`, `letter`: from a letter to the bytes that the model saw
//! - `approvals`, `outbox`, `memory` (with `erasure`): what an owner decides
//! - `notices`, `usage`, `search`, `workspace`: what an owner looks at

pub(super) mod files;
pub(super) mod inbox;
pub(super) mod login;
pub(super) mod strip;
pub(super) mod thread;
pub(super) mod run;
pub(super) mod context;
pub(super) mod letter;
pub(super) mod approvals;
pub(super) mod outbox;
pub(super) mod notices;
pub(super) mod usage;
pub(super) mod memory;
pub(super) mod erasure;
pub(super) mod search;
pub(super) mod workspace;
