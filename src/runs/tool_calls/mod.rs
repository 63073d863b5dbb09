//! Tool calls: the policy that permits them, their execution, their results.

pub mod verdict;
pub mod execution;
pub mod context;
pub mod policy;
pub mod dispatch;
