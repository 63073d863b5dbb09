//! Pages of the web: what is fetched, what is refused before anybody is asked, and what a page can do to its reader.

mod guard;
mod letters;
mod searching;
pub mod servers;
