//! Child processes: started, bounded, ended.

pub mod marker;
pub mod orphans;
pub mod process;
