//! Money: what calls cost, which bounds are in force, and that nobody spends more than a budget account has.

mod prices;
mod cascade;
mod accounts;
mod waiting;
mod leftovers;
mod kills;
