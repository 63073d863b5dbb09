//! Who is it really: every attack on identity beside its honest twin, through a real name server on loopback.

mod attacks;
mod chains;
mod decisions;
mod sealing;
mod spf;
mod suite;
mod threads;
mod world;
