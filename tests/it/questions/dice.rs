//! Chance that can be repeated: the same seed gives the same cases.

/// SplitMix64.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("a size");
        usize::try_from(self.roll() % end).expect("a size")
    }

    pub fn of<'v, T: ?Sized>(&mut self, values: &[&'v T]) -> &'v T {
        values[self.below(values.len())]
    }
}

/// How many cases a variable asks for.
pub fn many(variable: &str, default: usize) -> usize {
    let asked = std::env::var(variable).ok();
    asked.map_or(default, |text| text.parse().expect("a number"))
}
