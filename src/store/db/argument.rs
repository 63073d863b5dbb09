//! Values that are bound to the parameters of a statement.

use super::row::Cell;
use sqlx::Arguments;
use sqlx::postgres::PgArguments;
use sqlx::sqlite::SqliteArguments;
use std::borrow::Cow;
use std::sync::Arc;

/// A value for a parameter. `None` is NULL of that type: a database with types wants to know it.
#[derive(Debug, Clone)]
pub(in crate::store) enum Argument {
    Integer(Option<i64>),
    Real(Option<f64>),
    Bool(Option<bool>),
    Text(Option<String>),
    SharedText(Arc<str>),
    TextPair(TextPair),
    Bytes(Option<Vec<u8>>),
}

impl Argument {
    /// Appends the value to the arguments of a statement of SQLite.
    pub(super) fn add_to(self, arguments: &mut SqliteArguments) -> Result<(), sqlx::Error> {
        let added = match self {
            Argument::Integer(value) => arguments.add(value),
            Argument::Real(value) => arguments.add(value),
            Argument::Bool(value) => arguments.add(value),
            Argument::Text(value) => arguments.add(value),
            Argument::SharedText(value) => arguments.add(value),
            Argument::TextPair(pair) => arguments.add(pair.sqlite),
            Argument::Bytes(value) => arguments.add(value),
        };
        added.map_err(sqlx::Error::Encode)
    }

    /// Appends the value to the arguments of a statement of PostgreSQL, where truth is 0 or 1 as in
    /// SQLite.
    pub(super) fn add_to_postgres(&self, arguments: &mut PgArguments) -> Result<(), sqlx::Error> {
        let added = match self {
            Argument::Integer(value) => arguments.add(value),
            Argument::Real(value) => arguments.add(value),
            Argument::Bool(value) => arguments.add(value.map(i64::from)),
            Argument::Text(value) => arguments.add(value.as_deref().map(without_nul)),
            Argument::SharedText(value) => arguments.add(without_nul(value)),
            Argument::TextPair(pair) => arguments.add(without_nul(&pair.postgres)),
            Argument::Bytes(value) => arguments.add(value),
        };
        added.map_err(sqlx::Error::Encode)
    }
}

/// Replaces what a text of PostgreSQL cannot hold, the character NUL
/// (postgresql.org/docs/current/datatype-character.html), and its escape in JSON, which cannot be
/// read back as a text.
pub(in crate::store) fn without_nul(text: &str) -> Cow<'_, str> {
    if !text.contains('\0') && !text.contains(ESCAPED_NUL) {
        return Cow::Borrowed(text);
    }
    let text = text.replace('\0', REPLACEMENT);
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find(ESCAPED_NUL) {
        let (before, found) = rest.split_at(at);
        let marks = before.len() - before.trim_end_matches('\\').len();
        clean.push_str(before);
        // After an odd number of marks this one is quoted itself.
        clean.push_str(match marks % 2 {
            0 => REPLACEMENT,
            _ => ESCAPED_NUL,
        });
        rest = &found[ESCAPED_NUL.len()..];
    }
    clean.push_str(rest);
    Cow::Owned(clean)
}

static ESCAPED_NUL: &str = r"\u0000";
/// REPLACEMENT CHARACTER, of the Unicode Standard.
static REPLACEMENT: &str = "\u{fffd}";

/// A text in a language that each database has in its own way, such as that of its full-text search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct TextPair {
    pub sqlite: String,
    pub postgres: String,
}

/// A Rust type that can be bound.
pub(in crate::store) trait IntoArgument {
    fn into_argument(self) -> Argument;
}

/// Binds a type and its `Option` as a variant of [`Argument`].
macro_rules! bound {
    ($($type:ty as $variant:ident by $convert:expr;)+) => {$(
        impl IntoArgument for $type {
            fn into_argument(self) -> Argument {
                Argument::$variant(Some($convert(self)))
            }
        }

        impl IntoArgument for Option<$type> {
            fn into_argument(self) -> Argument {
                Argument::$variant(self.map($convert))
            }
        }
    )+};
}

bound! {
    i64 as Integer by i64::from;
    i32 as Integer by i64::from;
    u32 as Integer by i64::from;
    u16 as Integer by i64::from;
    u8 as Integer by i64::from;
    f64 as Real by f64::from;
    bool as Bool by bool::from;
    &str as Text by str::to_owned;
    String as Text by String::from;
    &[u8] as Bytes by <[u8]>::to_vec;
    Vec<u8> as Bytes by Vec::from;
}

impl<T: IntoArgument + Clone> IntoArgument for &T {
    fn into_argument(self) -> Argument {
        self.clone().into_argument()
    }
}

impl IntoArgument for Option<&String> {
    fn into_argument(self) -> Argument {
        Argument::Text(self.cloned())
    }
}

impl IntoArgument for Cell {
    fn into_argument(self) -> Argument {
        match self {
            Cell::Null => Argument::Text(None),
            Cell::Integer(value) => value.into_argument(),
            Cell::Real(value) => value.into_argument(),
            Cell::Text(value) => value.into_argument(),
            Cell::Bytes(value) => value.into_argument(),
        }
    }
}

impl IntoArgument for TextPair {
    fn into_argument(self) -> Argument {
        Argument::TextPair(self)
    }
}

impl IntoArgument for Option<TextPair> {
    fn into_argument(self) -> Argument {
        self.map_or(Argument::Text(None), Argument::TextPair)
    }
}

impl IntoArgument for Arc<str> {
    fn into_argument(self) -> Argument {
        Argument::SharedText(self)
    }
}

#[cfg(test)]
mod tests {
    use super::without_nul;

    #[test]
    fn nul_and_its_escape_are_replaced_and_a_quoted_escape_is_not() {
        for (text, clean) in [
            ("plain \\ text", "plain \\ text"),
            ("a\0b", "a\u{fffd}b"),
            (r#"["a\u0000b"]"#, "[\"a\u{fffd}b\"]"),
            (r#"["a\\u0000b"]"#, r#"["a\\u0000b"]"#),
            (r#"["\u0000\u0000"]"#, "[\"\u{fffd}\u{fffd}\"]"),
        ] {
            assert_eq!(without_nul(text), clean, "{text:?}");
        }
    }
}
