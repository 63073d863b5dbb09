//! Rows of a JSON array, as PostgreSQL reads them fast.
//!
//! Statements have SQLite's `jsonb_each(…)` and `value ->> 'name'` in one text for both databases. PostgreSQL has them as functions
//! (`migrations/postgres/0200_functions.sql`), each of which parses the JSON of a row anew: the statements of an answered letter
//! spent half of their time there. Where a text only reads members of its rows, or only the rows themselves, it gets functions of
//! PostgreSQL that parse an array once.
//!
//! What else a text does with such rows (their `type`, a row as JSON) it keeps, with the functions. So does what reads a column: it
//! may hold anything, and an audit says so, while PostgreSQL's functions fail where there is no array.

use std::fmt::Write;
use std::ops::Range;

/// Returns the text of a statement with the rows of arrays as PostgreSQL reads them fast.
pub fn text_of_postgres(sql: &str) -> String {
    let text = TextPieces::of(sql);
    let sources = text.sources();
    if sources.is_empty() {
        return sql.to_owned();
    }
    let uses = text.uses(&sources);
    let mut edits = Vec::new();
    for source in &sources {
        let Some(reading) = reading(source, &uses, &text) else {
            continue;
        };
        edits.push((source.place.clone(), source.written(reading, &text)));
    }
    for one in &uses {
        let is_object = sources.iter().any(|source| {
            source.alias == one.of && reading(source, &uses, &text) == Some(Reading::Members)
        });
        if let (true, Some(edit)) = (is_object, text.member(one)) {
            edits.push(edit);
        }
    }
    // From the last to the first, so that no place moves.
    edits.sort_by_key(|(place, _)| std::cmp::Reverse(place.start));
    let mut written = sql.to_owned();
    for (place, edit) in edits {
        // What lies within another edit was written with it.
        if !sources
            .iter()
            .any(|source| source.place.contains(&place.start) && source.place != place)
        {
            written.replace_range(place, &edit);
        }
    }
    written
}

/// What a statement reads of the rows of an array.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Members of objects.
    Members,
    /// The rows, as texts.
    Rows,
}

/// Returns what a statement reads of a source; `None`: what only the functions give.
fn reading(source: &ArraySource, uses: &[Use], text: &TextPieces<'_>) -> Option<Reading> {
    let own = |one: &&Use| one.of == source.alias;
    let may_be_own = |one: &Use| one.of.is_none() || one.of == source.alias;
    let is_typed = text.has_name("type", source.alias.as_deref());
    if is_typed || source.has_columns || !source.is_of_ours(text) {
        return None;
    }
    if uses.iter().filter(own).any(|one| one.is_member) {
        let is_whole = uses.iter().any(|one| may_be_own(one) && !one.is_member);
        return (!is_whole).then_some(Reading::Members);
    }
    let has_own = uses.iter().any(|one| own(&one)) && source.is_of_parameter;
    has_own.then_some(Reading::Rows)
}

/// A call of `json_each` or `jsonb_each`.
struct ArraySource {
    /// From its name to its alias.
    place: Range<usize>,
    argument: Range<usize>,
    /// Path below the argument.
    path: Option<String>,
    alias: Option<String>,
    has_columns: bool,
    is_of_parameter: bool,
}

impl ArraySource {
    /// Reports whether the array is a parameter, or a member of a row of one: an array, for we made it.
    fn is_of_ours(&self, text: &TextPieces<'_>) -> bool {
        let row = text.sql[self.argument.clone()].strip_suffix(".value");
        let row = row.filter(|_| self.path.is_some());
        let mut sources = text.sources().into_iter();
        self.is_of_parameter
            || row.is_some_and(|row| {
                sources.any(|one| one.is_of_parameter && one.alias.as_deref() == Some(row))
            })
    }

    fn written(&self, reading: Reading, text: &TextPieces<'_>) -> String {
        let argument = &text.sql[self.argument.clone()];
        let array = match argument.ends_with(".value") && self.path.is_some() {
            true => argument.to_owned(),
            false => format!("CAST(CAST({argument} AS TEXT) AS JSONB)"),
        };
        let array = match &self.path {
            Some(path) => format!("{array} #> {path}"),
            None => array,
        };
        let name = self.alias.as_deref().unwrap_or("row_of_array");
        let elements = match reading {
            Reading::Members => "jsonb_array_elements",
            Reading::Rows => "jsonb_array_elements_text",
        };
        match text.has_name("key", self.alias.as_deref()) {
            false => format!("{elements}({array}) AS {name} (value)"),
            true => format!(
                "LATERAL (SELECT e.place - 1 AS key, e.value FROM {elements}({array}) WITH ORDINALITY AS e (value, place)) AS {name}"
            ),
        }
    }
}

/// A word `value`, with or without the name of its row.
struct Use {
    of: Option<String>,
    /// Places of the first and last piece.
    pieces: Range<usize>,
    /// `true`: a member of it is read, or rows of a member.
    is_member: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PieceKind {
    Word,
    Quoted,
    Sign,
}

/// A text, and its pieces.
struct TextPieces<'a> {
    sql: &'a str,
    pieces: Vec<(PieceKind, Range<usize>)>,
}

/// Words that follow a source and are no alias.
const NO_ALIAS: &[&str] = &[
    "WHERE",
    "JOIN",
    "CROSS",
    "LEFT",
    "INNER",
    "ON",
    "GROUP",
    "ORDER",
    "UNION",
    "LIMIT",
    "RETURNING",
    "SET",
    "AND",
    "OR",
    "EXCEPT",
    "INTERSECT",
    "FOR",
    "HAVING",
];

impl<'a> TextPieces<'a> {
    fn of(sql: &'a str) -> Self {
        let mut pieces = Vec::new();
        let mut at = 0;
        while let Some(first) = sql[at..].chars().next() {
            let rest = &sql[at..];
            let is_of_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
            let (kind, length) = match first {
                '\'' | '"' => {
                    let end = rest[1..].find(first).map_or(rest.len(), |end| end + 2);
                    (Some(PieceKind::Quoted), end)
                }
                '-' if rest.starts_with("--") => (None, rest.find('\n').unwrap_or(rest.len())),
                '-' if rest.starts_with("->>") => (Some(PieceKind::Sign), 3),
                '-' if rest.starts_with("->") => (Some(PieceKind::Sign), 2),
                c if c.is_whitespace() => (None, c.len_utf8()),
                c if is_of_word(c) => {
                    let end = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
                    (Some(PieceKind::Word), end)
                }
                c => (Some(PieceKind::Sign), c.len_utf8()),
            };
            pieces.extend(kind.map(|kind| (kind, at..at + length)));
            at += length;
        }
        Self { sql, pieces }
    }

    fn piece(&self, at: usize) -> &str {
        self.pieces
            .get(at)
            .map_or("", |(_, place)| &self.sql[place.clone()])
    }

    fn is(&self, at: usize, kind: PieceKind) -> bool {
        self.pieces.get(at).is_some_and(|(own, _)| *own == kind)
    }

    fn place(&self, pieces: Range<usize>) -> Range<usize> {
        self.pieces[pieces.start].1.start..self.pieces[pieces.end - 1].1.end
    }

    fn sources(&self) -> Vec<ArraySource> {
        let calls = (0..self.pieces.len())
            .filter(|at| matches!(self.piece(*at), "json_each" | "jsonb_each"));
        calls.filter_map(|at| self.source(at)).collect()
    }

    fn source(&self, at: usize) -> Option<ArraySource> {
        let (mut depth, mut comma, mut end) = (0, None, at + 1);
        loop {
            match self.piece(end) {
                "(" => depth += 1,
                ")" if depth == 1 => break,
                ")" => depth -= 1,
                "," if depth == 1 => comma = Some(end),
                "" => return None,
                _ => {}
            }
            end += 1;
        }
        let argument = self.place(at + 2..comma.unwrap_or(end));
        let path = comma.map(|comma| steps(self.piece(comma + 1)));
        let named = end + 1 + usize::from(self.piece(end + 1).eq_ignore_ascii_case("AS"));
        let alias = self.is(named, PieceKind::Word)
            && !NO_ALIAS.contains(&self.piece(named).to_uppercase().as_str());
        let last = if alias { named } else { end };
        Some(ArraySource {
            place: self.place(at..last + 1),
            is_of_parameter: self.sql[argument.clone()].starts_with('$'),
            argument,
            path,
            alias: alias.then(|| self.piece(named).to_owned()),
            has_columns: alias && self.piece(named + 1) == "(",
        })
    }

    fn uses(&self, sources: &[ArraySource]) -> Vec<Use> {
        let values = (0..self.pieces.len())
            .filter(|at| self.piece(*at) == "value" && self.piece(at + 1) != "(");
        values
            .map(|at| {
                let is_named = at > 1 && self.piece(at - 1) == ".";
                let first = if is_named { at - 2 } else { at };
                let is_of_path = sources.iter().any(|source| {
                    source.path.is_some() && source.argument == self.place(first..at + 1)
                });
                let reads = self.piece(at + 1) == "->>";
                Use {
                    of: is_named.then(|| self.piece(at - 2).to_owned()),
                    pieces: first..at + 1,
                    is_member: reads || is_of_path,
                }
            })
            .collect()
    }

    /// Reports whether a column of that name is read, of a row of that name or without one.
    fn has_name(&self, column: &str, of: Option<&str>) -> bool {
        (0..self.pieces.len()).any(|at| {
            let is_named = at > 1 && self.piece(at - 1) == ".";
            self.piece(at) == column
                && match is_named {
                    true => Some(self.piece(at - 2)) == of,
                    false => of.is_none(),
                }
        })
    }

    /// Returns a read member with its place, where it is written in another way: one by a path, and a number, which may be a
    /// truth.
    fn member(&self, one: &Use) -> Option<(Range<usize>, String)> {
        let after = one.pieces.end;
        if self.piece(after) != "->>" {
            return None;
        }
        let row = &self.sql[self.place(one.pieces.clone())];
        let place = self.place(one.pieces.start..after + 2);
        let name = self.piece(after + 1);
        if name.starts_with("'$") {
            return Some((place, format!("{row} #>> {}", steps(name))));
        }
        let first = one.pieces.start;
        let is_number = first > 1
            && self.piece(first - 1) == "("
            && self.piece(first - 2) == "CAST"
            && self.piece(after + 3) == "BIGINT";
        is_number.then(|| {
            let truth = format!(
                "CASE {row} -> {name} WHEN 'true' THEN '1' WHEN 'false' THEN '0' ELSE {row} ->> {name} END"
            );
            (place, truth)
        })
    }
}

/// Returns the steps of a quoted path such as `'$.reads[0].name'`, as PostgreSQL writes them.
fn steps(path: &str) -> String {
    let mut steps = String::from("'{");
    let path = path.trim_matches('\'').trim_start_matches('$');
    for step in path.split(['.', '[', ']']).filter(|step| !step.is_empty()) {
        let comma = if steps.ends_with('{') { "" } else { "," };
        let _infallible = write!(steps, "{comma}{step}");
    }
    steps + "}'"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_rows_are_read_by_functions_of_postgresql() {
        for (text, fast) in [
            (
                "SELECT value ->> 'a', CAST(value ->> 'b' AS BIGINT), value ->> '$.c[0]' FROM jsonb_each($1) WHERE true",
                "SELECT value ->> 'a', CAST(CASE value -> 'b' WHEN 'true' THEN '1' WHEN 'false' THEN '0' ELSE value ->> 'b' END \
                 AS BIGINT), value #>> '{c,0}' FROM jsonb_array_elements(CAST(CAST($1 AS TEXT) AS JSONB)) AS row_of_array (value) \
                 WHERE true",
            ),
            (
                "DELETE FROM t WHERE id IN (SELECT value FROM jsonb_each($1)) AND b = 'value'",
                "DELETE FROM t WHERE id IN (SELECT value FROM jsonb_array_elements_text(CAST(CAST($1 AS TEXT) AS JSONB)) AS \
                 row_of_array (value)) AND b = 'value'",
            ),
            (
                "SELECT l.value ->> 'a', j.value FROM jsonb_each($1) l, json_each(l.value ->> 'ids') j",
                "SELECT l.value ->> 'a', j.value FROM jsonb_array_elements(CAST(CAST($1 AS TEXT) AS JSONB)) AS l (value), \
                 json_each(l.value ->> 'ids') j",
            ),
            (
                "SELECT v.value ->> 'a', o.value ->> 'b' FROM jsonb_each($1) AS o, json_each(o.value, '$.all') AS v",
                "SELECT v.value ->> 'a', o.value ->> 'b' FROM jsonb_array_elements(CAST(CAST($1 AS TEXT) AS JSONB)) AS o (value), \
                 jsonb_array_elements(o.value #> '{all}') AS v (value)",
            ),
            (
                "SELECT w.value ->> 0 FROM jsonb_each($1) w ORDER BY w.key",
                "SELECT w.value ->> 0 FROM LATERAL (SELECT e.place - 1 AS key, e.value FROM \
                 jsonb_array_elements(CAST(CAST($1 AS TEXT) AS JSONB)) WITH ORDINALITY AS e (value, place)) AS w ORDER BY w.key",
            ),
        ] {
            assert_eq!(text_of_postgres(text), fast);
        }
    }

    #[test]
    fn what_needs_the_functions_keeps_them() {
        for text in [
            "SELECT json_set(value, '$.a', value ->> 'b') FROM jsonb_each($1)",
            "SELECT value, type FROM json_each($1)",
            "SELECT n.value FROM t, json_each(t.named) n",
            "SELECT n.value ->> 'a', m.value ->> 'b' FROM t, json_each(t.named) n, json_each(n.value, '$.all') m",
            "SELECT 'jsonb_each(' || value FROM t",
        ] {
            assert_eq!(text_of_postgres(text), text);
        }
    }
}
