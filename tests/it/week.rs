//! Days of the real binary in seconds: the clock is set on, letters come in, and the engine keeps itself. Each day has its
//! backup, its retention, another certificate, another log, and a kill in the middle of work. On the last day all is as large
//! as when the ages first had their effect; without retention it is not.
//!
//! `ATTACHE_WEEK_LETTERS=50` is the long form: a week with so many letters a day, in which the workers look at the clock by
//! themselves, where the short form wakes them by a restart each night.

mod clock;
mod house;
mod letters;
mod measures;

use crate::app::audit;
use crate::maintenance::workspace::attache;
use house::House;
use letters::Letter;
use measures::{Day, WorkMeter};
use std::collections::BTreeSet;

const VARIABLE: &str = "ATTACHE_WEEK_LETTERS";
const LETTERS_A_DAY: usize = 6;
/// Days of the short form and of the long one, and the day of each with which its last is compared: ages are a day, so from
/// the third on as much goes as comes.
const DAYS: [(usize, usize); 2] = [(5, 3), (7, 4)];
/// How many times as much of the processor a letter may take on the last day of a week as on its second. The time until its answer
/// is only told: what else the machine does decides it.
const DEARER_MAX: u32 = 2;
/// Letters that have their yes and no answer when the engine is killed.
const LETTERS_AT_NOON: usize = 3;

/// How a week is played.
#[derive(Clone, Copy)]
pub struct Plan {
    pub letters_a_day: usize,
    pub days: usize,
    /// The day with which the last is compared.
    steady: usize,
    /// Whether it is the long form, whose workers are waited for.
    pub is_long: bool,
    /// Whether what is old is thrown away.
    pub keeps_little: bool,
}

impl Plan {
    fn new(keeps_little: bool) -> Self {
        let letters = std::env::var(VARIABLE).ok();
        let letters = letters.map(|many| many.parse().expect("a number"));
        let is_long = letters.is_some() && keeps_little;
        let (days, steady) = DAYS[usize::from(is_long)];
        Self {
            letters_a_day: letters.filter(|_| is_long).unwrap_or(LETTERS_A_DAY),
            days,
            steady,
            is_long,
            keeps_little,
        }
    }
}

/// What came of a week.
struct Week {
    house: House,
    days: Vec<Day>,
    taken: Vec<String>,
    refused: usize,
}

impl Week {
    /// Plays it; `None`: there is no clock that can be set.
    async fn of(plan: Plan) -> Option<Self> {
        let mut week = Self {
            house: House::build(plan).await?,
            days: Vec::new(),
            taken: Vec::new(),
            refused: 0,
        };
        for day in 0..plan.days {
            week.house.night(day).await;
            week.day(day).await;
        }
        Some(week)
    }

    /// Letters from four in the morning to ten at night, a kill between them, and another certificate and log.
    async fn day(&mut self, day: usize) {
        let count = self.house.plan.letters_a_day;
        let noon = count / 2;
        let (mut took, mut work) = (Vec::new(), WorkMeter::default());
        for number in 0..count {
            self.house.clock.set(day, 240 + 18 * 60 * number / count);
            let letter = Letter::of(day, number);
            let began = std::time::Instant::now();
            if !self.house.brings(&letter).await {
                self.refused += 1;
                continue;
            }
            self.taken.push(letter.id.clone());
            if number == 1 {
                self.house.rotate_logs();
            }
            if (noon..noon + LETTERS_AT_NOON).contains(&number) {
                if number + 1 == noon + LETTERS_AT_NOON {
                    self.house.is_killed_and_comes_again().await;
                }
                continue;
            }
            self.house.answered(&letter.id).await;
            took.push(began.elapsed());
            if number > noon + LETTERS_AT_NOON {
                work.answered(self.house.pid());
            }
        }
        for id in self.taken.iter().rev().take(count) {
            self.house.answered(id).await;
        }
        self.house.evening(day).await;
        self.days.push(Day::of(&mut self.house, took, work).await);
    }
}

/// The measures that are larger on the last day than they may be.
fn growing(week: &Week) -> BTreeSet<String> {
    let Plan {
        days,
        steady,
        letters_a_day,
        ..
    } = week.house.plan;
    let letters = u64::try_from((days - steady) * letters_a_day).expect("a number");
    let [before, after] = [steady, days].map(|day| week.days[day - 1].all(letters));
    let grew = before.iter().filter(|(name, measure)| {
        let now = after.get(*name).map_or(0, |measure| measure.now);
        now > measure.now * measure.hundredths_max / 100 + measure.slack
    });
    grew.map(|(name, _)| (*name).to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn the_last_day_is_as_large_as_those_before_whatever_dies_and_changes() {
    let Some(mut week) = Week::of(Plan::new(true)).await else {
        return;
    };
    week.days.iter().for_each(Day::print);
    let twice = week.house.answers_that_came_twice(&week.taken).await;
    let slots = week
        .house
        .number("SELECT count(*) FROM responsibility_slots")
        .await;
    let cron = week.house.number(house::SLOTS_SUCCEEDED).await;
    assert_eq!((cron, cron), (slots, week.house.slots_due()));
    let newest = week.house.logs_all().await;
    week.house.stop().await;
    audit(&mut week.house.rows().await).await;
    // Its end is an event, too, which the next engine would log.
    let logged = week.house.events_logged();
    let each_once: Vec<i64> = (1..).take(logged.len()).collect();
    assert_eq!(logged, each_once, "the log of sizes");
    assert!(logged.last() >= Some(&newest));
    let backup = week.house.newest_backup();
    let (code, out, error) = attache(week.house.folder(), &["backup", "verify", &backup]).await;
    assert_eq!(code, 0, "{out}{error}");
    let [early, late] = [1, week.days.len() - 1].map(|day| &week.days[day]);
    println!(
        "{} letters taken and answered, {twice} of them twice and flagged; {} refused, {slots} slots, {} kills; an answer took \
         {:?} on day 2 and {:?} on the last, and of the processor {:?} and {:?}",
        week.taken.len(),
        week.refused,
        week.days.len(),
        early.median,
        late.median,
        early.work,
        late.work
    );
    assert_eq!(growing(&week), BTreeSet::new());
    // A few letters measure nothing.
    assert!(!week.house.plan.is_long || late.work < early.work * DEARER_MAX);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn the_control_without_retention_what_is_kept_grows_day_by_day() {
    let Some(week) = Week::of(Plan::new(false)).await else {
        return;
    };
    week.days.iter().for_each(Day::print);
    let grew = growing(&week);
    for name in [
        "pages",
        "backups",
        "newest_backup",
        "turns",
        "letters",
        "attachments",
        "mails",
        "feed",
    ] {
        assert!(grew.contains(name), "{name} does not grow: {grew:?}");
    }
}
