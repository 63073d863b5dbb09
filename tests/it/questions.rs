//! Questions to owners by the thousand: hostile answers, honest answers, many deciders, models that do their worst, long times.
//! Each prints one line with its figures.

mod dice;
mod languages;
mod letters;
mod hostile_words;
mod hostile_letters;
mod honest;
mod deciders;
mod fatigue;
mod model;
mod days;
mod frozen;
