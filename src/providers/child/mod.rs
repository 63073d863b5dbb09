//! Child processes: started, bounded, ended.

pub mod orphans;
pub mod process;
