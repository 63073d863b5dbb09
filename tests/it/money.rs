//! Money: what calls cost, which bounds are in force, and that nobody spends more than a purse has.

mod prices;
mod cascade;
mod purses;
mod waiting;
mod leftovers;
mod kills;
