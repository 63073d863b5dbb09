//! The sender that a letter claims, as far as it can be verified.

use super::from;
use crate::domain::{Address, Coverage, Timestamp};
use crate::mime::{FixedFields, Header, has_one_reading};
use crate::mutants::is_off;
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum distance between a letter's `Date` and its arrival: an older letter may be a replay and
/// proves nothing (attack ID11).
pub const DATE_SKEW_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// A letter before its verification.
pub struct SenderClaim<'a> {
    /// The only address of the only `From` field, parsed strictly.
    pub from: Address,
    /// `Date`, if it can be parsed.
    pub date: Option<Timestamp>,
    /// Arrival at this engine, or at the mailbox from which the letter was fetched.
    pub arrived: Timestamp,
    pub header: Header<'a>,
    /// The whole letter.
    bytes: &'a [u8],
}

impl<'a> SenderClaim<'a> {
    /// Reads the header. `None` when `From` names no sender, more than one, or one that two readers
    /// may parse differently.
    pub fn read(
        bytes: &'a [u8],
        parsed: Option<&Address>,
        date: Option<Timestamp>,
        arrived: Timestamp,
    ) -> Option<Self> {
        let header = Header::read(bytes);
        let from = {
            let mut values = header
                .fields()
                .filter(|(name, _)| *name == "from")
                .map(|(_, value)| value);
            let (first, second) = (values.next()?, values.next());
            second
                .is_none()
                .then(|| from::only_address(first))
                .flatten()?
        };
        // The persona must answer the address that is verified here.
        (Some(&from) == parsed).then_some(Self {
            from,
            date,
            arrived,
            header,
            bytes,
        })
    }

    pub fn has(&self, name: &str) -> bool {
        self.header.has(name)
    }

    /// Reports whether another parser, which found fields of these names, read the same header.
    pub fn is_read_as(&self, names: &[&[u8]]) -> bool {
        // A name followed by a blank (RFC 5322 section 4.5) is a field to us, and no signature
        // covers it.
        let same =
            |((own, _), name): ((&str, _), &&[u8])| own.as_bytes().eq_ignore_ascii_case(name);
        self.header.fields().count() == names.len() && self.header.fields().zip(names).all(same)
    }

    /// Reports whether an instant is near enough to the arrival to belong to this sending.
    pub fn is_fresh(&self, instant: Timestamp) -> bool {
        self.arrived.since(instant).max(instant.since(self.arrived)) <= DATE_SKEW_MAX
    }

    /// Number of occurrences of each field.
    fn present(&self) -> BTreeMap<&str, usize> {
        let mut present = BTreeMap::new();
        for (name, _) in self.header.fields() {
            *present.entry(name).or_default() += 1;
        }
        present
    }

    /// Coverage by a signature of these fields (`h=`). A field that occurs more often than it is
    /// signed may have been prepended by any server; an absent field needs no coverage.
    pub fn coverage(&self, covered: &[String]) -> Coverage {
        let present = self.present();
        let is_whole = |name: &str| {
            present
                .get(name)
                .is_none_or(|found| *found <= times(covered, name))
        };
        // How the body is read is also said by the absence of a field, unless `h=` names it (RFC 6376 section 5.4.2).
        let is_fixed = |name: &str| is_whole(name) && times(covered, name) > 0;
        Coverage {
            to: is_whole("to"),
            cc: is_whole("cc"),
            reply_to: is_whole("reply-to"),
            // A letter is assigned to its thread by its own id as well as by those that it
            // references.
            threading: ["message-id", "in-reply-to", "references"]
                .into_iter()
                .all(is_whole),
            content: has_one_reading(
                self.bytes,
                FixedFields {
                    content_type: is_fixed("content-type"),
                    encoding: is_fixed("content-transfer-encoding"),
                    disposition: is_fixed("content-disposition"),
                },
            ) || is_off("G2.content"),
        }
    }

    /// Gap of a signature of these fields (`h=`, any case) made at `made` (`t=`, seconds since the
    /// epoch, 0 when absent) by which it proves nothing about the letter as parsed here; `None`
    /// when it counts.
    pub fn uncovered(&self, covered: &[String], made: u64) -> Option<Gap> {
        let times = |name: &str| times(covered, name);
        let present = self.present();
        let found = |name: &str| present.get(name).copied().unwrap_or(0);
        if times("from") == 0 {
            return Some(Gap::FromUnsigned);
        }
        // A subject, which a reader takes for the sender's words, must be signed if it is present.
        if found("subject") > 0 && times("subject") == 0 {
            return Some(Gap::FieldAdded);
        }
        // A second field of a kind that may occur once: readers differ in which one they use (RFC
        // 6376 section 8.15).
        if ONCE
            .iter()
            .any(|name| found(name) > 1 && found(name) > times(name))
        {
            return Some(Gap::FieldAdded);
        }
        let mut instants = self.instants(covered, made).peekable();
        if instants.peek().is_none() {
            return Some(Gap::Undated);
        }
        (!instants.all(|instant| self.is_fresh(instant))).then_some(Gap::Stale)
    }

    /// Earliest instant that a signature of these fields, made at `made`, bears: its own and a signed `Date`.
    pub fn signed_at(&self, covered: &[String], made: u64) -> Option<Timestamp> {
        self.instants(covered, made).min()
    }

    fn instants(&self, covered: &[String], made: u64) -> impl Iterator<Item = Timestamp> + use<> {
        let made = i64::try_from(made).ok().filter(|made| *made > 0);
        let made = made.map(|seconds| Timestamp::from_millis(seconds.saturating_mul(1000)));
        let dated = self.date.filter(|_| times(covered, "date") > 0);
        made.into_iter().chain(dated)
    }
}

/// Number of times that `h=` names a field.
fn times(covered: &[String], name: &str) -> usize {
    covered
        .iter()
        .filter(|field| field.trim().eq_ignore_ascii_case(name))
        .count()
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

/// Gap of a valid signature, by which it does not count.
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
            Self::Stale => "dated more than 7 days from its arrival",
        }
    }
}
