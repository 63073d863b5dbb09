//! Suggestions for misspelt names.

use super::cron::shortened;

/// Maximum number of names that an error lists when none is near.
const NAMES_LISTED_MAX: usize = 16;

/// Formats `; did you mean …` for the nearest name, if one is near; else the existing names.
pub(super) fn hint<N: AsRef<str>>(typed: &str, names: &[N]) -> String {
    match did_you_mean(typed, names.iter().map(AsRef::as_ref)) {
        meant if !meant.is_empty() => meant,
        _ if names.is_empty() => "; there is none".to_owned(),
        _ => {
            let listed: Vec<&str> = names
                .iter()
                .map(AsRef::as_ref)
                .take(NAMES_LISTED_MAX)
                .collect();
            let more = if names.len() > NAMES_LISTED_MAX {
                ", …"
            } else {
                ""
            };
            format!("; there are: {}{more}", listed.join(", "))
        }
    }
}

/// Formats `; did you mean …` for the nearest name; empty when none is near.
pub(super) fn did_you_mean<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> String {
    let folded = shortened(typed.trim()).to_lowercase();
    let closest = names
        .map(|name| {
            (
                strsim::damerau_levenshtein(&folded, &name.to_lowercase()),
                name,
            )
        })
        .min_by_key(|(distance, _)| *distance);
    match closest {
        Some((distance, name)) if distance * 2 <= name.len() => format!("; did you mean `{name}`?"),
        _ => String::new(),
    }
}
