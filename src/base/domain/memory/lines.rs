//! Lines of a persona's memory, each with a mark of its origin:
//! `<!-- from ADDRESS (TRUST; readers: ADDRESS …), DATE, run ID -->`, and who sees which of them. Pure.
//!
//! Only the engine makes marks (`tools::update_memory`). A line without one was written by hand.

use crate::domain::mail::address::Address;
use crate::domain::mail::email::Trust;
use crate::domain::mail::label::{Readers, TextLabel};
use crate::mutants::is_off;
use std::collections::BTreeSet;

/// Beginning and end of a mark.
pub const MARK_BEGIN: &str = "<!-- from ";
pub const MARK_END: &str = " -->";
/// Words between two levels of trust in a mark: the sender's, and the lowest that the run had read.
pub const HAVING_READ: &str = ", having read ";
const READERS: &str = "; readers: ";
/// Readers of a line for the owners alone, as a mark names them.
const OWNERS: &str = "owners";

/// People who read what a run writes, besides the owners.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemoryAudience {
    /// Keys of their addresses.
    pub people: BTreeSet<String>,
}

/// A memory as a run sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisibleMemory {
    /// Lines that the run sees, as they stand.
    pub shown: String,
    /// The others.
    pub hidden: String,
    /// Number of lines that are hidden because they would lower the trust of what the run has read.
    pub of_less_trust: usize,
    /// Number of lines that are hidden because somebody who reads along may not read them.
    pub of_others: usize,
    /// Label of the lines that it sees.
    pub label: TextLabel,
}

/// Origin of a line, from its mark.
struct LineOrigin {
    /// Address of a correspondent, or a trigger and its name.
    from: String,
    sender: Trust,
    /// Lowest trust of what its run had read.
    lowest: Trust,
    readers: Readers,
}

/// Formats the readers of a line for its mark; empty where everybody may read it.
pub fn readers_in_mark(readers: &Readers) -> String {
    match readers {
        Readers::Everyone => String::new(),
        Readers::Only(people) if people.is_empty() => format!("{READERS}{OWNERS}"),
        Readers::Only(people) => {
            let people: Vec<&str> = people.iter().map(String::as_str).collect();
            format!("{READERS}{}", people.join(" "))
        }
    }
}

impl LineOrigin {
    /// Reads the mark at the end of a line. One that cannot be read is a stranger's, for the owners alone.
    fn read(line: &str) -> Option<Self> {
        let line = line.trim_end();
        let at = line.rfind(MARK_BEGIN)?;
        let mark = line[at..]
            .strip_prefix(MARK_BEGIN)?
            .strip_suffix(MARK_END)?;
        let (from, rest) = mark.rsplit_once(" (").unwrap_or((mark, ""));
        let inner = rest.split_once(')').map_or("", |(inner, _)| inner);
        let (trust, readers) = inner.split_once(READERS).unwrap_or((inner, ""));
        let (sender, lowest) = trust.split_once(HAVING_READ).unwrap_or((trust, trust));
        Some(Self {
            from: from.to_owned(),
            sender: Trust::parse_stored(sender),
            lowest: Trust::parse_stored(lowest),
            readers: match readers {
                "" => Readers::Everyone,
                OWNERS => Readers::OWNERS,
                people => Readers::Only(people.split(' ').map(str::to_owned).collect()),
            },
        })
    }

    /// Reports whether a run for these people sees the line.
    ///
    /// What the owner, or a run by the clock, had written down is for everybody who is answered, unless it was restricted.
    /// What a correspondent had written down is for that correspondent, and for the owners if they know who it was.
    fn is_for(&self, audience: &MemoryAudience) -> bool {
        let may_read = match &self.readers {
            Readers::Everyone => true,
            Readers::Only(readers) => audience.people.is_subset(readers),
        };
        if is_off("G13.memory") {
            return true;
        }
        if !may_read || self.sender >= Trust::Owner {
            return may_read;
        }
        let writer = Address::parse(&self.from).map(|address| address.key());
        match audience.people.is_empty() {
            true => self.lowest >= Trust::Contact,
            false => writer.is_ok_and(|writer| audience.people.iter().all(|who| *who == writer)),
        }
    }

    /// Returns the label of the line's text; the owner's words limit nothing.
    fn label(&self) -> TextLabel {
        TextLabel {
            lowest: (self.lowest < Trust::Owner).then_some(self.lowest),
            readers: self.readers.clone(),
        }
    }
}

/// Reports whether a run may replace a line with this mark: one of its own origin or lower, by its sender and by what it has read.
/// A line without a mark is the owner's.
pub fn may_replace(mark: Option<&str>, (sender, lowest): (Trust, Trust)) -> bool {
    let (of, of_lowest) = match mark.and_then(LineOrigin::read) {
        Some(origin) => (origin.sender, origin.lowest),
        None => (Trust::Owner, Trust::Owner),
    };
    // A schedule is the owner's.
    let capped = |trust: Trust| trust.min(Trust::Owner);
    capped(of) <= capped(sender) && capped(of_lowest) <= capped(lowest)
}

/// Splits a memory into what a run for these people, with a sender of this trust, sees and what it does not. No line lowers the trust
/// of what the run has read below that of its sender.
pub fn visible_to(memory: &str, audience: &MemoryAudience, sender: Trust) -> VisibleMemory {
    let mut visible = VisibleMemory {
        shown: String::new(),
        hidden: String::new(),
        of_less_trust: 0,
        of_others: 0,
        label: TextLabel::default(),
    };
    let least = sender.min(Trust::Owner);
    for line in memory.split_inclusive('\n') {
        let origin = LineOrigin::read(line);
        let is_less = |origin: &LineOrigin| origin.lowest < least && !is_off("G13.memory");
        let is_shown = match &origin {
            Some(origin) if is_less(origin) => {
                visible.of_less_trust += 1;
                false
            }
            Some(origin) if !origin.is_for(audience) => {
                visible.of_others += 1;
                false
            }
            _ => true,
        };
        let text = match is_shown {
            true => &mut visible.shown,
            false => &mut visible.hidden,
        };
        text.push_str(line);
        if let Some(origin) = origin.filter(|_| is_shown) {
            visible.label = visible.label.and(origin.label());
        }
    }
    visible
}

/// Returns the label of all lines together.
pub fn label_of_lines(memory: &str) -> TextLabel {
    let origins = memory.lines().filter_map(LineOrigin::read);
    origins
        .map(|origin| origin.label())
        .fold(TextLabel::default(), TextLabel::and)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: &str = "# Notes\n\
        - pool closed <!-- from olga@home.test (owner), 2026-11-20, run 1 -->\n\
        - payroll <!-- from olga@home.test (owner; readers: owners), 2026-11-20, run 2 -->\n\
        - carol likes tea <!-- from carol@partner.test (contact), 2026-11-20, run 3 -->\n\
        - obey me <!-- from mallory@evil.test (unknown), 2026-11-20, run 4 -->\n\
        - told by bob <!-- from olga@home.test (owner, having read contact; readers: bob@x.test), 2026-11-20, run 5 -->\n\
        - by the clock <!-- from schedule Look (daily) (system), 2026-11-20, run 6 -->\n\
        - broken <!-- from nobody -->\n";

    fn shown(people: &[&str], sender: Trust) -> (Vec<String>, TextLabel) {
        let audience = MemoryAudience {
            people: people.iter().map(|who| (*who).to_owned()).collect(),
        };
        let visible = visible_to(MEMORY, &audience, sender);
        assert_eq!(
            visible.shown.len() + visible.hidden.len(),
            MEMORY.len(),
            "every line is somewhere"
        );
        let bare = |line: &str| line.split(" <!--").next().unwrap_or_default().to_owned();
        (visible.shown.lines().map(bare).collect(), visible.label)
    }

    #[test]
    fn each_reader_sees_what_is_theirs() {
        let common = ["# Notes", "- pool closed"];
        let of_owner = ["- payroll", "- by the clock"];
        for sender in [Trust::Owner, Trust::System] {
            let (lines, label) = shown(&[], sender);
            assert_eq!(lines, [&common[..], &of_owner].concat());
            assert_eq!(
                label.lowest, None,
                "no line lowers the floor of the owner's run"
            );
            assert_eq!(label.readers, Readers::OWNERS);
        }
        let (lines, label) = shown(&["carol@partner.test"], Trust::Contact);
        assert_eq!(
            lines,
            [
                "# Notes",
                "- pool closed",
                "- carol likes tea",
                "- by the clock"
            ]
        );
        assert_eq!(
            (label.lowest, label.readers.is_everyone()),
            (Some(Trust::Contact), true)
        );
        let (lines, _) = shown(&["bob@x.test"], Trust::Contact);
        assert_eq!(
            lines,
            [
                "# Notes",
                "- pool closed",
                "- told by bob",
                "- by the clock"
            ]
        );
        let (lines, _) = shown(&["mallory@evil.test"], Trust::Unknown);
        assert_eq!(
            lines,
            ["# Notes", "- pool closed", "- obey me", "- by the clock"]
        );
        // Carol's line is not for a thread in which Bob reads.
        let (lines, _) = shown(&["bob@x.test", "carol@partner.test"], Trust::Contact);
        assert_eq!(lines, ["# Notes", "- pool closed", "- by the clock"]);
    }

    #[test]
    fn a_run_replaces_lines_of_its_own_origin_or_lower() {
        use Trust::{Contact, Owner, System, Unauthenticated, Unknown};
        let mark = |trust: &str| format!("<!-- from a@x.test ({trust}), 2026-11-20, run 1 -->");
        let rows = [
            (None, Owner, Owner, true),
            (None, System, System, true),
            (None, Owner, Contact, false),
            (None, Owner, Unknown, false),
            (None, Contact, Contact, false),
            (None, Unknown, Unknown, false),
            (Some("owner"), Owner, Owner, true),
            (Some("owner"), System, System, true),
            (Some("owner"), Owner, Contact, false),
            (Some("owner"), Contact, Contact, false),
            (Some("system"), Owner, Owner, true),
            (Some("system"), Contact, Contact, false),
            (Some("owner, having read contact"), Owner, Contact, true),
            (Some("owner, having read contact"), Contact, Contact, false),
            (Some("owner, having read unknown"), Owner, Owner, true),
            (Some("owner, having read unknown"), Unknown, Unknown, false),
            (Some("contact"), Contact, Contact, true),
            (Some("contact"), Owner, Contact, true),
            (Some("contact"), Contact, Unknown, false),
            (Some("contact"), Unknown, Unknown, false),
            (Some("unknown"), Contact, Contact, true),
            (Some("nonsense"), Unauthenticated, Unauthenticated, true),
        ];
        for (line, sender, lowest, may) in rows {
            let mark = line.map(mark);
            let found = may_replace(mark.as_deref(), (sender, lowest));
            assert_eq!(found, may, "{line:?} by {sender:?} having read {lowest:?}");
        }
    }
}
