//! Values that are bound to the parameters of a statement.

use sqlx::Arguments;
use sqlx::sqlite::SqliteArguments;
use std::sync::Arc;

/// A value for a parameter. `None` is NULL of that type: a database with types wants to know it.
#[derive(Debug, Clone)]
pub(in crate::store) enum Argument {
    Integer(Option<i64>),
    Real(Option<f64>),
    Bool(Option<bool>),
    Text(Option<String>),
    SharedText(Arc<str>),
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
            Argument::Bytes(value) => arguments.add(value),
        };
        added.map_err(sqlx::Error::Encode)
    }
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

impl IntoArgument for Arc<str> {
    fn into_argument(self) -> Argument {
        Argument::SharedText(self)
    }
}
