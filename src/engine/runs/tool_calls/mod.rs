//! Tool calls: the policy that permits them, their execution, their results. In reading order:
//!
//! - `verdict`: ends of a call, and how a call and its result are recorded
//! - `execution`: a permitted call with the persona's store and folder; `context`: the run of a call
//! - `run_facts`, `facts`: what the engine knows of a run and of a call, for the rules; `links`: of a URL in letters;
//!   `redirects`: of a host to which a page redirects
//! - `decide`: the decision by rules and table; `memory`: whose memory a call may use
//! - `draft`: what a call would do; `policy`: the decision on it
//! - `dispatch`: the calls of one answer, in order

pub mod verdict;
pub mod execution;
pub mod context;
pub mod run_facts;
pub mod facts;
pub mod links;
pub mod decide;
pub mod redirects;
pub mod memory;
pub mod draft;
pub mod policy;
pub mod dispatch;
