//! Limits of automatic mail to one recipient, and the accounts in which it is counted, as values.

use crate::config::{Config, Limits};
use crate::domain::{Address, Timestamp, Trust, Withheld, is_mail_provider};
use crate::mutants::is_off;
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub const HOUR: Duration = Duration::from_secs(60 * 60);
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Limits of automatic mail to one recipient. Owners whose letter was authenticated have no limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailBounds {
    /// Mails to one address in an hour.
    pub per_hour_max: i64,
    /// Mails to one address in a day.
    pub per_day_max: i64,
    /// Changes of direction in one thread in a day, since its owner last wrote.
    pub alternations_max: i64,
    /// Mails of the persona in a day, to whoever.
    #[serde(default)]
    pub persona_day_max: Option<i64>,
}

/// Recent automatic mails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sent {
    pub in_hour: i64,
    pub in_day: i64,
    /// Answers in the thread within a day, since its owner last wrote.
    pub in_thread: i64,
    /// Mails of the persona today, where they are bounded.
    pub of_persona: i64,
}

impl Sent {
    /// Returns the counts with one answer added.
    pub fn one_more(self) -> Self {
        let Sent {
            in_hour,
            in_day,
            in_thread,
            of_persona,
        } = self;
        Sent {
            in_hour: in_hour + 1,
            in_day: in_day + 1,
            in_thread: in_thread + 1,
            of_persona: of_persona + 1,
        }
    }

    /// Returns the changes of direction. Letters and answers alternate: with the n-th answer a
    /// thread has changed its direction 2n - 1 times.
    fn alternations(self) -> i64 {
        (2 * self.in_thread - 1).max(0)
    }
}

impl MailBounds {
    /// No limits: the mail is counted, and never refused.
    pub const NONE: Self = Self {
        per_hour_max: i64::MAX,
        per_day_max: i64::MAX,
        alternations_max: i64::MAX,
        persona_day_max: None,
    };

    pub fn new(config: &Config) -> Self {
        let (limits, budgets) = (&config.limits, &config.inference.budgets);
        let whole = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        Self {
            per_hour_max: whole(limits.replies_per_hour_max),
            per_day_max: whole(limits.replies_per_day_max),
            alternations_max: whole(limits.alternations_max),
            persona_day_max: budgets.persona_day_mails_max.map(i64::from),
        }
    }

    /// Returns the bounds for letters of senders below `contact`, who leave a quarter of a persona's day to those whom its owner knows.
    #[must_use]
    pub fn of_strangers(self) -> Self {
        let share = |max: i64| max - max / 4;
        Self {
            persona_day_max: self.persona_day_max.map(share),
            ..self
        }
    }

    /// Returns the rule whose limit the counts exceed.
    pub fn exceeded_by(&self, sent: Sent) -> Option<Withheld> {
        if is_off("G6") {
            return None;
        }
        if sent.in_hour > self.per_hour_max || sent.in_day > self.per_day_max {
            return Some(Withheld::RateLimited);
        }
        if self
            .persona_day_max
            .is_some_and(|max| sent.of_persona > max)
        {
            return Some(Withheld::DayMails);
        }
        (sent.alternations() > self.alternations_max).then_some(Withheld::Alternations)
    }
}

/// Account in which mails are counted. Answers to unauthenticated letters are counted separately,
/// so that forged letters use up nothing of the sender whose name they bear; an address is sent at
/// most twice the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Account {
    Proven,
    Unproven,
}

impl Account {
    /// Returns the account for mails that a letter of that trust causes.
    pub fn of(trust: &str) -> Self {
        if trust == Trust::Unauthenticated.as_str() {
            Self::Unproven
        } else {
            Self::Proven
        }
    }

    /// Returns the key of the counter for mails to an address; tags of an address do not count.
    pub fn key(self, address: &Address) -> String {
        match self {
            Self::Proven => address.counted_key(),
            Self::Unproven => format!("unverified:{}", address.counted_key()),
        }
    }

    /// Returns the prefix of the counter key of a thread.
    pub(in crate::store) fn thread_prefix(self) -> &'static str {
        match self {
            Self::Proven => "thread:",
            Self::Unproven => "unverified:thread:",
        }
    }
}

/// Counter key of a persona's mails of a day, whose minute is the day's first.
pub static OF_PERSONA: &str = "day";

/// A provider of mailboxes is as many organisations: its customers do not know each other, and two of them would use up the day of
/// all others.
const PROVIDER_IS_WORTH: i64 = 10;

/// Bound on the letters of one organisation that are answered in a day, of senders below `contact`.
#[derive(Debug, Clone)]
pub struct DomainLimit {
    pub domain: String,
    account: Account,
    per_day_max: i64,
}

impl DomainLimit {
    pub fn of(account: Account, sender: &Address, limits: &Limits) -> Self {
        let domain = sender.organisation().to_owned();
        let per_day_max = i64::try_from(limits.domain_runs_per_day_max).unwrap_or(i64::MAX);
        let organisations = match is_mail_provider(&domain) {
            true => PROVIDER_IS_WORTH,
            false => 1,
        };
        Self {
            domain,
            account,
            per_day_max: per_day_max.saturating_mul(organisations),
        }
    }

    /// Returns the key of its counter.
    pub(in crate::store) fn key(&self) -> String {
        match self.account {
            Account::Proven => format!("domain:{}", self.domain),
            Account::Unproven => format!("unverified:domain:{}", self.domain),
        }
    }

    /// Returns the rule by which a letter is filed after so many that were answered.
    pub(in crate::store) fn exceeded_by(&self, answered: i64) -> Option<Withheld> {
        let is_over = answered >= self.per_day_max && !is_off("G6");
        is_over.then_some(Withheld::DomainLimited)
    }
}

/// Limits of an answer to one letter.
#[derive(Debug, Clone)]
pub struct ReplyLimits {
    /// Counter key of the sender, from [`Account::key`].
    pub counterparty: String,
    /// `None`: its sender is a contact.
    pub domain: Option<DomainLimit>,
    pub bounds: MailBounds,
}

/// Change of the counters by one queued mail.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MailReservation {
    pub account: Account,
    /// Counter keys of all counted recipients, from [`Account::key`].
    pub counterparties: Vec<String>,
    /// `true`: the mail counts in its thread, because it does not go to an owner alone.
    pub counts_in_thread: bool,
    pub bounds: MailBounds,
    /// Most mails that its run may send, this one included; `None` for the answer, which every run
    /// may send.
    pub mails_of_run_max: Option<u32>,
}

/// Returns the first minute of the window that ends at `now`, in the format of the table.
pub fn since(now: Timestamp, window: Duration) -> String {
    minute_of(now.minus(window))
}

/// Returns the first minute of the day, in the format of the table.
pub fn day_of(at: Timestamp) -> String {
    Timestamp::from_millis(at.as_millis().div_euclid(86_400_000) * 86_400_000).to_string()
}

pub fn minute_of(at: Timestamp) -> String {
    Timestamp::from_millis(at.as_millis().div_euclid(60_000) * 60_000).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_leave_a_quarter_of_the_day_to_others() {
        for (max, share) in [(200, 150), (4, 3), (3, 3), (2, 2), (1, 1)] {
            let bounds = MailBounds {
                persona_day_max: Some(max),
                ..MailBounds::NONE
            };
            assert_eq!(bounds.of_strangers().persona_day_max, Some(share), "{max}");
        }
        assert_eq!(MailBounds::NONE.of_strangers().persona_day_max, None);
    }
}
