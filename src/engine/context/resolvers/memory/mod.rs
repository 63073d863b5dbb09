//! Memory beside the input: `active_memory`, the owner's page; `contact_memory`, entries about the people around the run;
//! `recall`, those of them that the letter is about.

pub mod active_memory;
pub mod contact_memory;
pub mod recall;
