//! What a letter says about itself, as far as anything can be proven about it.

use super::from;
use crate::domain::{Address, Coverage, Timestamp};
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

    /// Whether another reader, who found fields of these names, has read the same header.
    pub fn is_read_as(&self, names: &[&[u8]]) -> bool {
        // A name with a blank behind it (RFC 5322 section 4.5) is a field to us and covered by nobody's signature.
        let same = |((own, _), name): ((&str, _), &&[u8])| own.as_bytes().eq_ignore_ascii_case(name);
        self.header.fields().count() == names.len() && self.header.fields().zip(names).all(same)
    }

    /// Whether an instant is near enough to the arrival to be of this sending.
    pub fn is_fresh(&self, instant: Timestamp) -> bool {
        self.arrived.since(instant).max(instant.since(self.arrived)) <= DATE_SKEW_MAX
    }

    /// How often each field is there.
    fn present(&self) -> BTreeMap<&str, usize> {
        let mut present = BTreeMap::new();
        for (name, _) in self.header.fields() {
            *present.entry(name).or_default() += 1;
        }
        present
    }

    /// Which fields a signature that covers these (`h=`) speaks for. One that occurs more often than it is signed may have
    /// been put in front by anybody; one that is absent says nothing, and there is nothing to cover.
    pub fn coverage(&self, covered: &[String]) -> Coverage {
        let present = self.present();
        let is_whole = |name: &str| present.get(name).is_none_or(|found| *found <= times(covered, name));
        Coverage {
            to: is_whole("to"),
            cc: is_whole("cc"),
            reply_to: is_whole("reply-to"),
            // A letter is found in its conversation by its own id as well as by those that it mentions.
            threading: ["message-id", "in-reply-to", "references"].into_iter().all(is_whole),
        }
    }

    /// Why a signature that covers these fields (`h=`, any case) and was made at `made` (`t=`, seconds since the epoch,
    /// 0 when absent) proves nothing about the letter as it is read here; `None` when it does.
    pub fn uncovered(&self, covered: &[String], made: u64) -> Option<Gap> {
        let times = |name: &str| times(covered, name);
        let present = self.present();
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

/// How often `h=` names a field.
fn times(covered: &[String], name: &str) -> usize {
    covered.iter().filter(|field| field.trim().eq_ignore_ascii_case(name)).count()
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
