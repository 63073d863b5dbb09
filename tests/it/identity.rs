//! Who is it really: every attack on identity beside its honest twin, through a real name server on loopback.

mod attacks;
mod chains;
mod counts;
mod decisions;
mod held;
mod readings;
mod sealing;
mod spf;
mod suite;
mod threads;
pub mod world;
