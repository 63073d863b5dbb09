//! What a row is read as, types as columns, and transactions, in short.

/// Reads a struct from a row: a field from the column of its name, from a column of another name, or by an expression in
/// braces.
macro_rules! from_row {
    ($name:ident { $($field:ident $(: $from:tt)?),+ $(,)? }) => {
        from_row!(|row| $name { $($field $(: $from)?),+ });
    };
    (|$row:ident| $name:ident { $($field:ident $(: $from:tt)?),+ $(,)? }) => {
        impl $crate::store::db::FromRow for $name {
            fn from_row($row: &$crate::store::db::Row) -> $crate::store::Result<Self> {
                Ok(Self { $($field: from_row!(@ $row $field $($from)?)),+ })
            }
        }
    };
    (@ $row:ident $field:ident) => { $row.try_get(stringify!($field))? };
    (@ $row:ident $field:ident $column:literal) => { $row.try_get($column)? };
    (@ $row:ident $field:ident $value:block) => { $value };
}

/// Stores types by their `as_str`, and reads those with a name for messages by their `parse`, or by another function of the
/// text that gives an `Option`.
macro_rules! text_column {
    ($($type:ty $(: $what:literal $(by $parse:expr)?)?;)+) => {$(
        impl $crate::store::db::IntoArgument for $type {
            const NULL: $crate::store::db::Argument = $crate::store::db::Argument::Text(None);

            fn to_argument(&self) -> $crate::store::db::Argument {
                $crate::store::db::IntoArgument::to_argument(self.as_str())
            }
        }

        $(text_column!(@ $type, $what $(, $parse)?);)?
    )+};
    (@ $type:ty, $what:literal) => { text_column!(@ $type, $what, <$type>::parse); };
    (@ $type:ty, $what:literal, $parse:expr) => {
        impl<'r> $crate::store::db::FromColumn<'r> for $type {
            fn from_column(
                row: &'r $crate::store::db::Row,
                at: $crate::store::db::At<'_>,
            ) -> $crate::store::Result<Self> {
                let text = <&str as $crate::store::db::FromColumn>::from_column(row, at)?;
                $parse(text).ok_or($crate::store::StoreError::Unreadable { what: $what })
            }
        }
    };
}

/// Runs a transaction on the rows of a scope, or of a persona; its statements see the connection.
macro_rules! transact {
    ($store:expr, |$conn:ident| $work:expr) => {
        $store.write(move |$conn| Box::pin(async move { $work }))
    };
    ($store:expr, $scope:expr, |$conn:ident| $work:expr) => {
        $store.write($scope, move |$conn| Box::pin(async move { $work }))
    };
}

/// Reads the rows of a statement with arguments, by [`Query`](crate::store::db::Query), on what has a connection.
macro_rules! statements {
    ($type:ty, ($($on:tt)+), $source:expr) => {
        statements!(@ $type, ($($on)+), $source, rows -> Vec<$crate::store::db::Row>);
        statements!(@ $type, ($($on)+), $source, row -> $crate::store::db::Row);
        statements!(@ $type, ($($on)+), $source, maybe_row -> Option<$crate::store::db::Row>);
        statements!(@ $type, ($($on)+), $source, all<T> -> Vec<T>);
        statements!(@ $type, ($($on)+), $source, one<T> -> T);
        statements!(@ $type, ($($on)+), $source, maybe<T> -> Option<T>);
    };
    (@ $type:ty, ($($on:tt)+), $source:expr, $name:ident$(<$read:ident>)? -> $result:ty) => {
        impl $type {
            pub(in crate::store) fn $name<'c$(, $read: $crate::store::db::FromRow + 'c)?>(
                $($on)+,
                sql: impl Into<$crate::store::db::Sql>,
                values: impl $crate::store::db::ArgumentList,
            ) -> $crate::store::db::Executed<'c, $result> {
                $crate::store::db::query(sql).bind(values).$name($source)
            }
        }
    };
}
