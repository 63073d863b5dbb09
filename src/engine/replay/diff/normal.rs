//! Replaces in a record what two runs of one subject must differ in: ids become `<id 1>`, `<id 2>`,
//! … in the order of their appearance, instants become `<time>`, the day of the run `<day>`. Pure.

use crate::domain::Timestamp;
use crate::replay::RunRecord;
use serde_json::Value;

/// Pattern: `h` is a hexadecimal digit, `9` a decimal one, `Z` an offset from UTC; any other
/// character is itself.
const UUID: &str = "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh";
const INSTANTS: &[&str] = &[
    "9999-99-99T99:99:99.999Z",
    "9999-99-99T99:99:99Z",
    "9999-99-99 99:99:99",
    "9999-99-99 99:99",
];

/// Patterns that may follow a day, in this order.
const CLOCK_TIMES: &[&str] = &[" 99:99", ":99", " +9999", " -9999"];

/// Normaliser of one run; it remembers the ids that it has met.
pub(super) struct Normal {
    exact: bool,
    ids: Vec<String>,
    /// Formats of the day on which the run began.
    days: Vec<String>,
}

impl Normal {
    pub(super) fn of(record: &RunRecord, exact: bool) -> Self {
        // A fork has the context of its run, whenever it is made.
        let began = record
            .turns
            .first()
            .map_or(&record.run.created_at, |turn| &turn.started_at);
        let began = [began, &record.trigger.received_at];
        let spell = |at: Timestamp| {
            let at = at.to_utc();
            [
                "%Y-%m-%d",
                "%a, %d %b %Y",
                "%A, %-d %B %Y",
                "%A, %d %B %Y",
                "%-d %B %Y",
            ]
            .map(|form| at.format(form).to_string())
            .to_vec()
        };
        Self {
            exact,
            ids: Vec::new(),
            days: began
                .into_iter()
                .filter_map(|at| Timestamp::parse(at))
                .flat_map(spell)
                .collect(),
        }
    }

    pub(super) fn value(&mut self, value: Value) -> Value {
        match value {
            _ if self.exact => value,
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(members) => members
                .into_iter()
                .map(|(key, member)| (key, self.value(member)))
                .collect(),
            other => other,
        }
    }

    pub(super) fn text(&mut self, text: &str) -> String {
        if self.exact {
            return text.to_owned();
        }
        let (mut out, mut rest) = (String::with_capacity(text.len()), text);
        while let Some(c) = rest.chars().next() {
            let (length, word) = match self.found(rest) {
                Some(found) => found,
                None => (c.len_utf8(), c.to_string()),
            };
            out.push_str(&word);
            rest = &rest[length..];
        }
        out
    }

    /// Returns the length and the replacement of what the text begins with.
    fn found(&mut self, text: &str) -> Option<(usize, String)> {
        // Every pattern begins with one of these, and most of a text does not.
        if !text.starts_with(|c: char| c.is_ascii_hexdigit() || c.is_ascii_uppercase()) {
            return None;
        }
        if let Some(id) = text
            .get(..UUID.len())
            .filter(|piece| has_shape(piece, UUID))
        {
            let known = self.ids.iter().position(|known| known == id);
            let place = known.unwrap_or_else(|| {
                self.ids.push(id.to_owned());
                self.ids.len() - 1
            });
            return Some((UUID.len(), format!("<id {}>", place + 1)));
        }
        let instant = INSTANTS.iter().find(|shape| {
            text.get(..shape.len())
                .is_some_and(|piece| has_shape(piece, shape))
        });
        if let Some(shape) = instant {
            return Some((shape.len(), "<time>".to_owned()));
        }
        let day = self
            .days
            .iter()
            .find(|day| text.starts_with(day.as_str()))?;
        let mut length = day.len();
        for shape in CLOCK_TIMES {
            let rest = &text[length..];
            if rest
                .get(..shape.len())
                .is_some_and(|piece| has_shape(piece, shape))
            {
                length += shape.len();
            }
        }
        Some((length, "<day>".to_owned()))
    }
}

fn has_shape(piece: &str, shape: &str) -> bool {
    piece.chars().zip(shape.chars()).all(|(c, s)| match s {
        'h' => c.is_ascii_hexdigit(),
        '9' => c.is_ascii_digit(),
        same => c == same,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_keep_who_is_who_and_instants_go() {
        let days = vec!["Fri, 20 Nov 2026".into()];
        let mut of_letter = Normal {
            exact: false,
            ids: Vec::new(),
            days,
        };
        assert_eq!(
            of_letter.text("date: Fri, 20 Nov 2026 09:00 +0000\nx"),
            "date: <day>\nx"
        );
        let mut normal = Normal {
            exact: false,
            ids: Vec::new(),
            days: vec!["2026-11-20".into()],
        };
        let (a, b) = (
            "019a0000-0000-7000-8000-00000000000a",
            "019a0000-0000-7000-8000-00000000000b",
        );
        assert_eq!(
            normal.text(&format!("{a} {b} ü{a}")),
            "<id 1> <id 2> ü<id 1>"
        );
        assert_eq!(
            normal.text("at 2026-11-20T09:00:00.000Z or 2026-11-20 09:00, on 2026-11-20"),
            "at <time> or <time>, on <day>"
        );
        assert_eq!(
            normal.text("2019-01-01 is another day; face c0ffee"),
            "2019-01-01 is another day; face c0ffee"
        );
        let mut exact = Normal {
            exact: true,
            ids: Vec::new(),
            days: vec!["2026-11-20".into()],
        };
        assert_eq!(exact.text(a), a);
    }
}
