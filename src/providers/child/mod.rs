//! Child processes: found (`program`), started, bounded and ended (`process`).

pub mod marker;
pub mod orphans;
pub mod process;
pub mod program;
