//! Entries of memory: from a letter to the next letter of the same person, and to nobody else; what may be written, and
//! what the owner does with it.

mod aliases;
mod bounds;
mod consolidation;
mod digest;
mod erasure;
mod erasure_at_work;
mod expiry;
mod gate;
mod interference;
mod laundering;
mod measured;
mod owner;
mod poison;
mod recalled;
mod road;
pub mod scene;
