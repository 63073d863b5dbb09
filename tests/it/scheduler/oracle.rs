//! An oracle for cron in time zones: it looks at every minute of ten years, and shares no code with what it judges.

use attache::domain::Timestamp;
use attache::schedule_file::cron::{CronSchedule, next_after};
use chrono::{Datelike, NaiveDate, Offset, TimeZone, Utc};
use chrono_tz::Tz;

/// Twenty, the usual ones first: gaps at midnight, of half an hour and of two, changes at one minute past, a skipped day,
/// clocks that change twice for Ramadan, zones that gave it up.
pub const ZONES: [Tz; 20] = [
    Tz::UTC,
    Tz::Europe__Berlin,
    Tz::Europe__London,
    Tz::Europe__Istanbul,
    Tz::America__New_York,
    Tz::America__Los_Angeles,
    Tz::America__Sao_Paulo,
    Tz::Asia__Kolkata,
    Tz::Asia__Tehran,
    Tz::Australia__Sydney,
    Tz::Africa__Casablanca,
    Tz::Africa__Cairo,
    Tz::America__Havana,
    Tz::America__St_Johns,
    Tz::America__Caracas,
    Tz::Antarctica__Troll,
    Tz::Asia__Gaza,
    Tz::Australia__Lord_Howe,
    Tz::Pacific__Apia,
    Tz::Pacific__Chatham,
];

/// Every UTC minute of ten years with its local time.
pub fn decade(zone: Tz) -> Vec<(i64, Local)> {
    let year = |year: i32| {
        Utc.with_ymd_and_hms(year, 1, 1, 0, 0, 0)
            .unwrap()
            .timestamp()
            / 60
    };
    let offset = |minute: i64| {
        let instant = chrono::DateTime::from_timestamp(minute * 60, 0)
            .unwrap()
            .naive_utc();
        i64::from(
            zone.offset_from_utc_datetime(&instant)
                .fix()
                .local_minus_utc(),
        ) / 60
    };
    let mut minutes = Vec::with_capacity(5_300_000);
    for hour in (year(2009)..year(2019)).step_by(60) {
        let (first, last) = (offset(hour), offset(hour + 59));
        let of = |minute: i64| if first == last { first } else { offset(minute) };
        minutes.extend((hour..hour + 60).map(|minute| (minute, Local(minute + of(minute)))));
    }
    minutes
}

/// Random expressions that come due.
pub fn expressions(mut dice: Dice, count: usize) -> Vec<String> {
    let random = std::iter::repeat_with(|| dice.expression());
    random
        .filter(|text| CronSchedule::parse(text).is_ok())
        .take(count)
        .collect()
}

/// The minutes at which an expression is due, by looking at all of them.
pub fn slots(expression: &str, minutes: &[(i64, Local)]) -> Vec<i64> {
    Oracle::read(expression).walk(minutes)
}

/// Compares what is found with what is due, and gives the number of slots; the error names the first difference.
pub fn agree(expression: &str, zone: Tz, minutes: &[(i64, Local)]) -> Result<usize, String> {
    let schedule =
        CronSchedule::parse(expression).map_err(|error| format!("{expression}: {error}"))?;
    let expected = slots(expression, minutes);
    let (first, last) = (minutes[0].0, minutes[minutes.len() - 1].0);
    let mut found = Vec::new();
    let mut after = Timestamp::from_millis(first * 60_000 - 1);
    while let Some(slot) =
        next_after(&schedule, zone, after).filter(|slot| slot.as_millis() <= last * 60_000)
    {
        if slot <= after || slot.as_millis() % 60_000 != 0 {
            return Err(format!("{expression} {zone}: {slot} after {after}"));
        }
        found.push(slot.as_millis() / 60_000);
        after = slot;
    }
    let differs = (0..expected.len().max(found.len())).find(|i| expected.get(*i) != found.get(*i));
    let Some(at) = differs else {
        return Ok(found.len());
    };
    let instant = |list: &[i64]| {
        list.get(at)
            .map(|m| Timestamp::from_millis(m * 60_000).to_string())
    };
    Err(format!(
        "{expression} {zone}: found {:?}, expected {:?}",
        instant(&found),
        instant(&expected)
    ))
}

/// An independent reading of an expression: tables of booleans.
struct Oracle {
    minute: Vec<bool>,
    hour: Vec<bool>,
    day: Vec<bool>,
    month: Vec<bool>,
    weekday: Vec<bool>,
    any_day: bool,
    fixed: bool,
}

impl Oracle {
    fn read(expression: &str) -> Self {
        let fields: Vec<&str> = expression.split(' ').collect();
        let table = |field: &str, low: usize, high: usize| {
            let mut table = vec![false; high + 1];
            for item in field.split(',') {
                let (range, step) = item.split_once('/').unwrap_or((item, "1"));
                let (first, last) = match range.split_once('-') {
                    Some((first, last)) => (first.parse().unwrap(), last.parse().unwrap()),
                    None if range == "*" => (low, high),
                    None => (range.parse().unwrap(), range.parse().unwrap()),
                };
                (first..=last)
                    .step_by(step.parse().unwrap())
                    .for_each(|value: usize| table[value] = true);
            }
            table
        };
        Self {
            minute: table(fields[0], 0, 59),
            hour: table(fields[1], 0, 23),
            day: table(fields[2], 1, 31),
            month: table(fields[3], 1, 12),
            weekday: table(fields[4], 0, 6),
            any_day: !fields[2].starts_with('*') && !fields[4].starts_with('*'),
            fixed: !fields[0].contains(['*', '/']) && !fields[1].contains(['*', '/']),
        }
    }

    fn matches(&self, local: Local) -> bool {
        let of_day = local.0.rem_euclid(1440) as usize;
        if !self.minute[of_day % 60] || !self.hour[of_day / 60] {
            return false;
        }
        let date = NaiveDate::default() + chrono::Duration::days(local.0.div_euclid(1440));
        let day = self.day[date.day() as usize];
        let weekday = self.weekday[date.weekday().num_days_from_sunday() as usize];
        self.month[date.month() as usize]
            && if self.any_day {
                day || weekday
            } else {
                day && weekday
            }
    }

    /// Walks the UTC minutes as a daemon would that looks at the wall clock every minute.
    fn walk(&self, minutes: &[(i64, Local)]) -> Vec<i64> {
        let mut fired = Vec::new();
        let mut latest = Local(minutes[0].1.0 - 1);
        for (utc, local) in minutes {
            let jumped = local.0 - latest.0;
            let due = if !self.fixed {
                self.matches(*local)
            } else if jumped <= 0 {
                false // The second pass of an hour: fixed times had their turn.
            } else if jumped <= 181 {
                (0..jumped).any(|back| self.matches(Local(local.0 - back)))
            } else {
                self.matches(*local)
            };
            if due {
                fired.push(*utc);
            }
            latest = latest.max(*local);
        }
        fired
    }
}

/// Minutes of local time since 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Local(pub i64);

/// A small deterministic generator (SplitMix64).
pub struct Dice(pub u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
    pub fn value(&mut self, low: u64, high: u64) -> u64 {
        low + self.roll(high - low + 1)
    }
    fn field(&mut self, low: u64, high: u64) -> String {
        match self.roll(7) {
            0 | 1 => "*".to_owned(),
            2 => format!("*/{}", self.value(2, 7)),
            3 => {
                let first = self.value(low, high);
                format!("{first}-{}", self.value(first, high))
            }
            4 => {
                let first = self.value(low, high);
                format!("{first}-{}/{}", self.value(first, high), self.value(1, 4))
            }
            5 => format!("{},{}", self.value(low, high), self.value(low, high)),
            _ => self.value(low, high).to_string(),
        }
    }
    fn expression(&mut self) -> String {
        // Hours near the night are where clocks change.
        let hour = if self.roll(2) == 0 {
            self.field(0, 4)
        } else {
            self.field(0, 23)
        };
        let month = if self.roll(3) == 0 {
            self.field(1, 12)
        } else {
            "*".to_owned()
        };
        let (day, weekday) = (self.field(1, 28), self.field(0, 6));
        let minute = self.field(0, 59);
        format!("{minute} {hour} {day} {month} {weekday}")
    }
}
