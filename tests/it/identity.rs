//! Who is it really: every attack on identity beside its honest twin, through a real name server on loopback.

mod spf;
mod suite;
