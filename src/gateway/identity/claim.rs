//! What a letter says about itself, as far as anything can be proven about it.

use super::from;
use crate::domain::{Address, Timestamp};
use crate::mime::Header;
use std::collections::BTreeMap;
use std::time::Duration;

/// A letter dated further from its arrival proves nothing: somebody may have kept it (attack ID11).
pub const DATE_SKEW_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// A letter before it is verified.
pub struct Claim<'a> {
    /// The one strict address of the one `From` field.
    pub from: Address,
    /// `Date`, if it can be read.
    pub date: Option<Timestamp>,
    /// When the letter reached us, or the mailbox that it was fetched from.
    pub arrived: Timestamp,
    pub header: Header<'a>,
}

impl<'a> Claim<'a> {
    /// `None` when the header names nobody, more than one, or somebody in a way that two readers may read differently.
    pub fn read(
        bytes: &'a [u8],
        parsed: Option<&Address>,
        date: Option<Timestamp>,
        arrived: Timestamp,
    ) -> Option<Self> {
        let header = Header::read(bytes);
        let from = {
            let mut values = header.fields().filter(|(name, _)| *name == "from").map(|(_, value)| value);
            let (first, second) = (values.next()?, values.next());
            second.is_none().then(|| from::only_address(first)).flatten()?
        };
        // What the persona answers to must be what is verified here.
        (Some(&from) == parsed).then_some(Self { from, date, arrived, header })
    }

    pub fn has(&self, name: &str) -> bool {
        self.header.has(name)
    }

    pub fn field_count(&self) -> usize {
        self.header.fields().count()
    }

    /// Whether an instant is near enough to the arrival to be of this sending.
    pub fn is_fresh(&self, instant: Timestamp) -> bool {
        self.arrived.since(instant).max(instant.since(self.arrived)) <= DATE_SKEW_MAX
    }

    /// Why a signature that covers these fields (`h=`, any case) and was made at `made` (`t=`, seconds since the epoch,
    /// 0 when absent) proves nothing about the letter as it is read here; `None` when it does.
    pub fn uncovered(&self, covered: &[String], made: u64) -> Option<Gap> {
        let times =
            |name: &str| covered.iter().filter(|field| field.trim().eq_ignore_ascii_case(name)).count();
        let mut present: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, _) in self.header.fields() {
            *present.entry(name).or_default() += 1;
        }
        let found = |name: &str| present.get(name).copied().unwrap_or(0);
        if times("from") == 0 {
            return Some(Gap::FromUnsigned);
        }
        // What a reader takes for the sender's words must be signed if it is there at all.
        if found("subject") > 0 && times("subject") == 0 {
            return Some(Gap::FieldAdded);
        }
        // A second field of a kind that may occur once: readers differ in which one counts (RFC 6376 section 8.15).
        if ONCE.iter().any(|name| found(name) > 1 && found(name) > times(name)) {
            return Some(Gap::FieldAdded);
        }
        let made = i64::try_from(made).ok().filter(|made| *made > 0);
        let made = made.map(|seconds| Timestamp::from_millis(seconds.saturating_mul(1000)));
        let dated = self.date.filter(|_| times("date") > 0);
        if made.is_none() && dated.is_none() {
            return Some(Gap::Undated);
        }
        (!made.into_iter().chain(dated).all(|instant| self.is_fresh(instant))).then_some(Gap::Stale)
    }
}

/// Fields that RFC 5322 section 3.6 and RFC 2045 allow once.
const ONCE: [&str; 14] = [
    "from",
    "sender",
    "reply-to",
    "to",
    "cc",
    "date",
    "subject",
    "message-id",
    "in-reply-to",
    "references",
    "mime-version",
    "content-type",
    "content-transfer-encoding",
    "list-id",
];

/// Why a good signature does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    FromUnsigned,
    FieldAdded,
    Undated,
    Stale,
}

impl Gap {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FromUnsigned => "From is not signed",
            Self::FieldAdded => "a field was added beside the signed ones",
            Self::Undated => "neither Date nor a time is signed",
            Self::Stale => "dated too far from its arrival",
        }
    }
}
