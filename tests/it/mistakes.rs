//! What somebody does wrong, and what the program says to it: tables of mistakes, each made in a workspace that is right, by
//! the real binary. A message names the file, the place in it, the cause, and what to do.

mod anew;
mod newcomer;
mod place;
