//! Hints for an unknown time zone.

/// Maximum cities of a region that a hint lists.
const CITIES_LISTED_MAX: usize = 8;

/// Hint for an unknown zone: the zone nearest to `typed` by spelling, or else the cities of its
/// region.
pub fn zone_hint(typed: &str) -> String {
    let folded = typed.trim().to_lowercase().replace([' ', '-'], "_");
    let (region, city) = folded.rsplit_once('/').unwrap_or(("", &folded));
    let names = chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name());
    let distance = |name: &str| {
        let name = name.to_lowercase();
        let (its_region, its_city) = name.rsplit_once('/').unwrap_or(("", &name));
        // Only the city's letters count: `Europe/Bonn` shares its region with fifty other zones and
        // is near none of them.
        let city_slips = strsim::damerau_levenshtein(city, its_city);
        let region_slips = if region.is_empty() {
            0
        } else {
            strsim::damerau_levenshtein(region, its_region)
        };
        // A city without a region must match nearly exactly: `Atlantis` is near no existing city.
        let slips_max = if region.is_empty() {
            1
        } else {
            city.chars().count() / 4
        };
        let is_near = city_slips <= slips_max && region_slips <= region.chars().count() / 2;
        is_near.then_some(city_slips + region_slips)
    };
    // Among zones with the same letters, such as `Europe/Berlin` and an old name of it, the one
    // with a region wins.
    let nearest = names
        .filter_map(|name| Some((distance(name)?, !name.contains('/'), name)))
        .min();
    if let Some((_, _, name)) = nearest {
        return format!("did you mean `{name}`?");
    }
    let names = chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name());
    let of_region = names.filter(|name| {
        !region.is_empty() && name.to_lowercase().starts_with(&format!("{region}/"))
    });
    let cities = of_region.collect::<Vec<_>>();
    match cities.get(..CITIES_LISTED_MAX) {
        Some(first) => {
            let more = cities.len() - first.len();
            format!(
                "not every city has one; take that of the capital: {}, and {more} more",
                first.join(", ")
            )
        }
        None => "write an IANA name such as `Europe/Berlin`".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_zone_finds_its_name_and_a_city_finds_its_region() {
        assert_eq!(zone_hint("Europe/Berlni"), "did you mean `Europe/Berlin`?");
        assert_eq!(zone_hint("Europa/Berlin"), "did you mean `Europe/Berlin`?");
        assert_eq!(zone_hint("berlin"), "did you mean `Europe/Berlin`?");
        assert_eq!(
            zone_hint("America/New York"),
            "did you mean `America/New_York`?"
        );
        assert!(
            zone_hint("Europe/Bonn")
                .starts_with("not every city has one; take that of the capital: Europe/")
        );
        assert_eq!(
            zone_hint("Mars/Olympus"),
            "write an IANA name such as `Europe/Berlin`"
        );
        assert_eq!(zone_hint(""), "write an IANA name such as `Europe/Berlin`");
    }
}
