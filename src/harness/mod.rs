//! Runs: claims one, assembles its context, loops model and tools, commits the outcome.

pub mod providers;
pub mod resolvers;
pub mod prompt;
pub mod context;
pub mod meter;
pub mod desk;
pub mod roster;
pub mod trial;
pub mod preflight;
pub mod route;
pub mod standings;
pub mod purse;
pub mod work;
pub mod sessions;
pub mod supervisor;
pub mod attempt;
pub mod trim;
pub mod turn;
pub mod gate;
pub mod calls;
pub mod quota;
pub mod reply;
pub mod structured;
pub mod execute;
pub mod worker;
