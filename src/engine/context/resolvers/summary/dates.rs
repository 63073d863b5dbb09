//! Days and months as texts write them.

pub const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// Returns the number of a month from 0, by its name or the first three letters of it.
pub fn month_of(text: &str) -> Option<usize> {
    let lower = text.to_lowercase();
    let is_short = |month: &str| lower.len() == 3 && month.starts_with(&lower);
    let is_named = |month: &&str| **month == lower || is_short(month);
    MONTHS.iter().position(is_named)
}

/// Returns the day of a month that a word such as `3` or `3rd` says.
pub fn day_of(text: &str) -> Option<u32> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let day = digits.parse().ok();
    day.filter(|day| (1..=31).contains(day))
}

/// Returns the key of a day; `month` counts from 0.
pub fn day_key(day: u32, month: usize) -> String {
    format!("day {day} of {month}")
}

/// Returns year, month from 0 and day of a date such as `2026-11-03`.
pub fn iso_date(text: &str) -> Option<(u32, usize, u32)> {
    let mut parts = text.split('-');
    let mut number = |digits: usize| {
        let part = parts.next().filter(|part| part.len() == digits)?;
        part.parse::<u32>().ok()
    };
    let (year, month, day) = (number(4)?, number(2)?, number(2)?);
    let is_date = (1..=12).contains(&month) && (1..=31).contains(&day) && parts.next().is_none();
    is_date.then_some((year, month as usize - 1, day))
}

/// Returns the words in which the dates of a text such as `2026-11-03` can be said otherwise.
pub fn words_of_dates(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !(c.is_ascii_digit() || c == '-'));
    words.filter_map(iso_date).flat_map(|(year, month, day)| {
        [year.to_string(), MONTHS[month].to_owned(), day.to_string()]
    })
}
