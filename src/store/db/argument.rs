//! Values that are bound to the parameters of a statement.

use super::row::Cell;
use crate::domain::Timestamp;
use serde_json::Value;
use sqlx::Arguments as _;
use sqlx::postgres::PgArguments;
use sqlx::sqlite::SqliteArguments;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// A value for a parameter. `None` is NULL of that type: a database with types wants to know it.
#[derive(Debug, Clone)]
pub enum Argument {
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

    /// Returns the type of PostgreSQL that the value is bound as.
    pub(super) fn postgres_type(&self) -> &'static str {
        match self {
            Argument::Integer(_) | Argument::Bool(_) => "INT8",
            Argument::Real(_) => "FLOAT8",
            Argument::Text(_) | Argument::SharedText(_) | Argument::TextPair(_) => "TEXT",
            Argument::Bytes(_) => "BYTEA",
        }
    }
}

/// Replaces what a text of PostgreSQL cannot hold, the character NUL
/// (postgresql.org/docs/current/datatype-character.html), and its escape in JSON, which cannot be
/// read back as a text.
pub fn without_nul(text: &str) -> Cow<'_, str> {
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
pub struct TextPair {
    pub sqlite: String,
    pub postgres: String,
}

/// A Rust type that can be bound: a span as its milliseconds, a value of JSON as its text.
pub trait IntoArgument {
    const NULL: Argument;

    fn to_argument(&self) -> Argument;

    fn into_argument(self) -> Argument
    where
        Self: Sized,
    {
        self.to_argument()
    }
}

/// Binds types that are copied as a variant of [`Argument`].
macro_rules! bound {
    ($($type:ty as $variant:ident by $convert:expr;)+) => {$(
        impl IntoArgument for $type {
            const NULL: Argument = Argument::$variant(None);

            fn to_argument(&self) -> Argument {
                Argument::$variant(Some($convert(self)))
            }
        }
    )+};
}

bound! {
    i64 as Integer by |n: &i64| *n;
    i32 as Integer by |n: &i32| i64::from(*n);
    u64 as Integer by |n: &u64| i64::try_from(*n).unwrap_or(i64::MAX);
    usize as Integer by |n: &usize| i64::try_from(*n).unwrap_or(i64::MAX);
    Duration as Integer by |span: &Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    u32 as Integer by |n: &u32| i64::from(*n);
    u16 as Integer by |n: &u16| i64::from(*n);
    u8 as Integer by |n: &u8| i64::from(*n);
    f64 as Real by |n: &f64| *n;
    bool as Bool by |n: &bool| *n;
    str as Text by str::to_owned;
    [u8] as Bytes by <[u8]>::to_vec;
    Value as Text by Value::to_string;
    Timestamp as Text by Timestamp::to_string;
}

impl IntoArgument for String {
    const NULL: Argument = Argument::Text(None);

    fn to_argument(&self) -> Argument {
        self.as_str().to_argument()
    }

    fn into_argument(self) -> Argument {
        Argument::Text(Some(self))
    }
}

impl IntoArgument for Vec<u8> {
    const NULL: Argument = Argument::Bytes(None);

    fn to_argument(&self) -> Argument {
        self.as_slice().to_argument()
    }

    fn into_argument(self) -> Argument {
        Argument::Bytes(Some(self))
    }
}

impl IntoArgument for Cell {
    const NULL: Argument = Argument::Text(None);

    fn to_argument(&self) -> Argument {
        match self {
            Cell::Null => Self::NULL,
            Cell::Integer(value) => value.to_argument(),
            Cell::Real(value) => value.to_argument(),
            Cell::Text(value) => value.to_argument(),
            Cell::Bytes(value) => value.to_argument(),
        }
    }
}

impl IntoArgument for TextPair {
    const NULL: Argument = Argument::Text(None);

    fn to_argument(&self) -> Argument {
        Argument::TextPair(self.clone())
    }
}

impl IntoArgument for Arc<str> {
    const NULL: Argument = Argument::Text(None);

    fn to_argument(&self) -> Argument {
        Argument::SharedText(self.clone())
    }
}

impl<T: IntoArgument + ?Sized> IntoArgument for &T {
    const NULL: Argument = T::NULL;

    fn to_argument(&self) -> Argument {
        (**self).to_argument()
    }
}

impl<T: IntoArgument> IntoArgument for Option<T> {
    const NULL: Argument = T::NULL;

    fn to_argument(&self) -> Argument {
        self.as_ref().map_or(T::NULL, T::to_argument)
    }

    fn into_argument(self) -> Argument {
        self.map_or(T::NULL, T::into_argument)
    }
}

/// Values of the parameters of a statement, in the order of their numbers: one, a tuple of them, or a tuple of such
/// tuples.
pub trait ArgumentList {
    fn add_to(self, list: &mut Vec<Argument>);
}

impl<T: IntoArgument> ArgumentList for T {
    fn add_to(self, list: &mut Vec<Argument>) {
        list.push(self.into_argument());
    }
}

macro_rules! tuples {
    ($($($name:ident)*;)+) => {$(
        impl<$($name: ArgumentList),*> ArgumentList for ($($name,)*) {
            #[expect(non_snake_case, reason = "a value goes by the name of its type")]
            fn add_to(self, list: &mut Vec<Argument>) {
                let ($($name,)*) = self;
                $($name.add_to(list);)*
            }
        }
    )+};
}

tuples! {
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
    A B C D E F G H I;
    A B C D E F G H I J;
    A B C D E F G H I J K;
    A B C D E F G H I J K L;
    A B C D E F G H I J K L M;
    A B C D E F G H I J K L M N;
    A B C D E F G H I J K L M N O;
    A B C D E F G H I J K L M N O P;
}

impl ArgumentList for () {
    fn add_to(self, _list: &mut Vec<Argument>) {}
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
