//! Crash points: their names, and the sweep that dies at each of them.

mod names;
