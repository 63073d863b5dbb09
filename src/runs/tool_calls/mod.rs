//! Tool calls: the policy that permits them, their execution, their results.

pub mod verdict;
pub mod execution;
pub mod context;
pub mod run_facts;
pub mod facts;
pub mod draft;
pub mod policy;
pub mod dispatch;
