//! Twenty zones, ten years, two hundred random expressions: every slot that is found, against a look at every minute.

use crate::oracle::{self, Dice};
use std::time::Instant;

const EXPRESSIONS: usize = 200;

/// Ends the process with an error at the first zone in which anything differs.
pub fn cron() {
    let expressions = oracle::expressions(Dice(20_261_123), EXPRESSIONS);
    let (mut slots, mut minutes_walked) = (0, 0);
    let began = Instant::now();
    for zone in oracle::ZONES {
        let minutes = oracle::decade(zone);
        let judged: Vec<_> = expressions
            .iter()
            .map(|text| oracle::agree(text, zone, &minutes))
            .collect();
        let differing: Vec<&String> = judged
            .iter()
            .filter_map(|judged| judged.as_ref().err())
            .collect();
        assert!(
            differing.is_empty(),
            "{} of {EXPRESSIONS} differ in {zone}: {differing:#?}",
            differing.len()
        );
        let of_zone: usize = judged.into_iter().flatten().sum();
        println!("  {zone}: {of_zone} slots agree");
        slots += of_zone;
        minutes_walked += minutes.len() * EXPRESSIONS;
    }
    println!(
        "  {} zones, {EXPRESSIONS} expressions: {slots} slots agree with {minutes_walked} minutes looked at, in {:.0} s",
        oracle::ZONES.len(),
        began.elapsed().as_secs_f64()
    );
}
