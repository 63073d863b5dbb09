//! Texts of several statements as functions of a connection to PostgreSQL, so that one message executes all of them.
//!
//! The driver asks for one statement at a time and waits for its answer, which costs the server more than a small statement itself.
//! So a text that was executed once becomes a function in PL/pgSQL, in the temporary schema of each connection that writes. It is
//! made between two transactions: nothing of it stays in the database, and a connection that may not make one executes statements
//! as before. The statements are those of the text, in its order, and each sees what the one before it wrote.
//!
//! A pool in front of the server may give each transaction of a connection another session: the number of its process tells, and
//! then the connection does without functions.

use super::argument::Argument;
use super::json_rows::text_of_postgres;
use super::sql_text::SqlText;
use super::statements::{KnownTexts, SqlStatement, kept, take_apart};
use crate::domain::sha256_hex;
use sqlx::postgres::{PgConnection, PgTypeInfo};
use sqlx::{AssertSqlSafe, Column, Executor, Row, SqlSafeStr, SqlStr, Statement, TypeInfo};
use std::fmt::Write;
use std::sync::{Arc, LazyLock, OnceLock, PoisonError, RwLock};

static TEXTS: KnownTexts<Arc<PostgresText>> = LazyLock::new(RwLock::default);
/// Functions that connections make, by their numbers.
static KNOWN: RwLock<Vec<Arc<TextFunction>>> = RwLock::new(Vec::new());

/// Statements of a text, as they are executed.
#[derive(Debug)]
pub(super) struct PostgresText {
    /// For the number of rows.
    pub counted: StatementGroup,
    /// For the rows.
    pub by_rows: Vec<StatementGroup>,
    /// `true`: it lives as long as the program.
    pub is_kept: bool,
    /// `true`: it may write texts that are searched by their words.
    pub writes_texts: bool,
}

/// Returns the statements of a text as PostgreSQL executes them.
pub(super) fn statements_of_postgres(text: &SqlText) -> Arc<PostgresText> {
    kept(&TEXTS, text, |text, is_kept| {
        PostgresText::new(take_apart(text), is_kept).into()
    })
}

impl PostgresText {
    fn new(mut statements: Vec<SqlStatement>, is_kept: bool) -> Self {
        for statement in &mut statements {
            statement.sql = AssertSqlSafe(text_of_postgres(statement.sql.as_str())).into_sql_str();
            statement.text = text_of_postgres(&statement.text);
        }
        Self {
            counted: StatementGroup::counted(&statements),
            by_rows: StatementGroup::by_rows(&statements),
            is_kept,
            writes_texts: statements.iter().any(SqlStatement::writes_texts),
        }
    }
}

/// Statements of a text that one message can execute: up to the first that gives rows, or all that give none.
#[derive(Debug)]
pub(super) struct StatementGroup {
    pub statements: Arc<[SqlStatement]>,
    /// What it returns as a function; `None`: it stays a list of statements.
    returned: Option<FunctionResult>,
    function: OnceLock<Arc<TextFunction>>,
}

/// Result of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FunctionResult {
    /// The number of rows that all statements wrote or read.
    Count,
    /// The rows of the last statement.
    Rows,
}

/// A text as a function.
#[derive(Debug)]
struct TextFunction {
    number: usize,
    statements: Arc<[SqlStatement]>,
    types: Vec<&'static str>,
    returned: FunctionResult,
    /// The statement that calls it, once a connection has made it.
    call: OnceLock<SqlStr>,
}

/// The function by which transactions begin, and how it is called.
pub struct BeginFunction {
    /// Makes it, in a transaction.
    pub definition: String,
}

/// Functions that a session of the server has, for a connection.
#[derive(Debug, Clone, Default)]
pub(super) struct FunctionsMade {
    /// Number of the session's process; `None`: nothing was made yet.
    session: Option<i32>,
    /// `true`: the one by which transactions begin is there.
    can_begin: bool,
    /// `true`: none is made any more, because a pool gives the connection one session and then another.
    is_over: bool,
    /// By their numbers: `false` for one that the server did not take.
    made: Arc<Vec<bool>>,
}

impl StatementGroup {
    /// Groups all statements of a text, for the number of rows.
    pub fn counted(statements: &[SqlStatement]) -> Self {
        let can_be = statements.len() > 1
            && statements
                .iter()
                .all(|one| one.gives() != Gives::Returning && one.gives() != Gives::Other);
        Self {
            statements: statements.into(),
            returned: can_be.then_some(FunctionResult::Count),
            function: OnceLock::new(),
        }
    }

    /// Groups the statements of a text, each group up to one that gives rows.
    pub fn by_rows(statements: &[SqlStatement]) -> Vec<Self> {
        let is_last = |one: &SqlStatement| one.gives() != Gives::Nothing;
        let groups = statements.split_inclusive(is_last);
        groups
            .map(|group| {
                let last = group.last().map_or(Gives::Other, SqlStatement::gives);
                let returned = match last {
                    _ if group.len() == 1 => None,
                    Gives::Nothing => Some(FunctionResult::Count),
                    Gives::Select | Gives::Returning => Some(FunctionResult::Rows),
                    Gives::Other => None,
                };
                Self {
                    statements: group.into(),
                    returned,
                    function: OnceLock::new(),
                }
            })
            .collect()
    }

    /// Reports whether its function returns rows.
    pub fn gives_rows(&self) -> bool {
        self.returned == Some(FunctionResult::Rows)
    }

    /// Returns the call of its function, where the connection has made it. One that is not known yet is from now on.
    pub fn call(&self, made: &FunctionsMade, arguments: &[Argument]) -> Option<SqlStr> {
        let returned = self.returned?;
        let function = self.function.get_or_init(|| {
            let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
            let function = Arc::new(TextFunction {
                number: known.len(),
                statements: self.statements.clone(),
                types: arguments.iter().map(Argument::postgres_type).collect(),
                returned,
                call: OnceLock::new(),
            });
            known.push(function.clone());
            function
        });
        let is_made = made.made.get(function.number).copied().unwrap_or_default();
        function.call.get().filter(|_| is_made).cloned()
    }
}

impl FunctionsMade {
    /// Makes the function by which transactions begin, and those of texts that were executed since the last time. Called between
    /// two transactions, and has one of its own: a pool gives a transaction one session.
    ///
    /// Errors: the connection is lost.
    pub async fn make(
        &mut self,
        conn: &mut PgConnection,
        begin: &'static BeginFunction,
    ) -> Result<(), sqlx::Error> {
        let new: Vec<_> = {
            let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
            known.iter().skip(self.made.len()).cloned().collect()
        };
        if self.is_over || (new.is_empty() && self.session.is_some()) {
            return Ok(());
        }
        execute_raw(conn, "BEGIN").await?;
        let session = sqlx::query("SELECT pg_backend_pid() AS session");
        let session: i32 = session.fetch_one(&mut *conn).await?.try_get("session")?;
        if self.session.is_some_and(|before| before != session) {
            self.forgo();
            return execute_raw(conn, "ROLLBACK").await;
        }
        if self.session.is_none() {
            execute_raw(conn, "SAVEPOINT function").await?;
            let text = AssertSqlSafe(begin.definition.clone()).into_sql_str();
            let made = conn.execute(sqlx::raw_sql(text)).await.map(|_done| ());
            self.can_begin = is_made(conn, made).await?;
        }
        // Without it, nothing would tell of another session.
        if !self.can_begin {
            self.forgo();
            return execute_raw(conn, "ROLLBACK").await;
        }
        for function in new {
            execute_raw(conn, "SAVEPOINT function").await?;
            let made = function.make(conn).await;
            let made = is_made(conn, made).await?;
            Arc::make_mut(&mut self.made).push(made);
        }
        self.session = Some(session);
        // Which is a commit; `COMMIT` is the word of a write, which tests cut off and count.
        execute_raw(conn, "END").await
    }

    pub fn can_begin(&self) -> bool {
        self.can_begin
    }

    /// Notes in which session a transaction has begun: in another one than the functions, it does without them.
    pub fn note_session(&mut self, session: i32) {
        if self.session != Some(session) {
            self.forgo();
        }
    }

    /// Does without functions from now on.
    pub fn forgo(&mut self) {
        *self = Self {
            is_over: true,
            ..Self::default()
        };
    }
}

async fn execute_raw(conn: &mut PgConnection, text: &'static str) -> Result<(), sqlx::Error> {
    conn.execute(sqlx::raw_sql(SqlStr::from_static(text)))
        .await
        .map(|_done| ())
}

/// Reports whether the server took a function, and goes on behind the savepoint. Errors: the connection is lost.
async fn is_made(
    conn: &mut PgConnection,
    made: Result<(), sqlx::Error>,
) -> Result<bool, sqlx::Error> {
    match made {
        Ok(()) => execute_raw(conn, "RELEASE function").await.map(|()| true),
        Err(sqlx::Error::Database(error)) => {
            tracing::debug!(%error, "statements are executed one by one");
            let undone = execute_raw(conn, "ROLLBACK TO function; RELEASE function").await;
            undone.map(|()| false)
        }
        Err(error) => Err(error),
    }
}

impl TextFunction {
    async fn make(&self, conn: &mut PgConnection) -> Result<(), sqlx::Error> {
        let columns = match self.returned {
            FunctionResult::Count => Vec::new(),
            FunctionResult::Rows => self.columns(conn).await?,
        };
        let definition = self.definition(&columns);
        let name = named_by(&definition);
        let text = format!("CREATE OR REPLACE FUNCTION pg_temp.{name}{definition}");
        let text = AssertSqlSafe(text).into_sql_str();
        conn.execute(sqlx::raw_sql(text)).await?;
        let call = AssertSqlSafe(self.written_call(&name, &columns)).into_sql_str();
        let _made_before = self.call.set(call);
        Ok(())
    }

    /// Returns names and types of the columns of the last statement.
    async fn columns(&self, conn: &mut PgConnection) -> Result<Vec<(String, String)>, sqlx::Error> {
        let Some(last) = self.statements.last() else {
            return Ok(Vec::new());
        };
        let types: Vec<_> = last
            .values
            .iter()
            .map(|place| PgTypeInfo::with_name(self.types[*place]))
            .collect();
        let prepared = (&mut *conn).prepare_with(last.sql.clone(), &types).await?;
        let columns = prepared.columns().iter();
        Ok(columns
            .map(|column| {
                let name = column.name().replace('"', "\"\"");
                (name, column.type_info().name().to_owned())
            })
            .collect())
    }

    /// Returns its definition behind its name.
    fn definition(&self, columns: &[(String, String)]) -> String {
        let parameters = self.types.join(", ");
        let (returns, declared, end) = match self.returned {
            FunctionResult::Count => (
                "BIGINT".to_owned(),
                "DECLARE attache_rows BIGINT; attache_all BIGINT := 0;",
                "RETURN attache_all;",
            ),
            FunctionResult::Rows => {
                // Other names than those of columns, which a statement would mean.
                let named = columns.iter().enumerate();
                let named: Vec<_> = named
                    .map(|(at, (_, kind))| format!("attache_{at} {kind}"))
                    .collect();
                (format!("TABLE ({})", named.join(", ")), "", "RETURN;")
            }
        };
        let mut body = String::new();
        for (at, statement) in self.statements.iter().enumerate() {
            let is_last = at + 1 == self.statements.len();
            let text = statement.text.trim();
            let _infallible = match (self.returned, statement.gives()) {
                (FunctionResult::Rows, _) if is_last => writeln!(body, "RETURN QUERY {text};"),
                (_, Gives::Select) => writeln!(body, "PERFORM * FROM ({text}\n) AS attache_read;"),
                _ => writeln!(body, "{text};"),
            };
            if self.returned == FunctionResult::Count {
                body.push_str(
                    "GET DIAGNOSTICS attache_rows = ROW_COUNT; attache_all := attache_all + attache_rows;\n",
                );
            }
        }
        format!(
            "({parameters}) RETURNS {returns} LANGUAGE plpgsql AS $attache$\n\
             #variable_conflict use_column\n{declared}\nBEGIN\n{body}{end}\nEND $attache$"
        )
    }

    fn written_call(&self, name: &str, columns: &[(String, String)]) -> String {
        let values: Vec<_> = (1..=self.types.len()).map(|at| format!("${at}")).collect();
        let call = format!("pg_temp.{name}({})", values.join(", "));
        if columns.is_empty() {
            return format!("SELECT {call} AS count");
        }
        let named = columns.iter().enumerate();
        let named: Vec<_> = named
            .map(|(at, (name, _))| format!("attache_{at} AS \"{name}\""))
            .collect();
        format!("SELECT {} FROM {call}", named.join(", "))
    }
}

/// Returns a name that no other definition has, not even that of another program in one session of a pool.
pub fn named_by(definition: &str) -> String {
    let digest = sha256_hex(&[definition.as_bytes()]);
    format!("attache_{}", digest.get(..24).unwrap_or(&digest))
}

/// What a statement gives, by its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gives {
    Nothing,
    Select,
    /// Rows that it has written.
    Returning,
    /// It controls a transaction, or reads after it wrote.
    Other,
}

/// Tables whose triggers name rows of the index of words, and those of the index itself.
const TEXT_TABLES: &[&str] = &[
    "messages",
    "knowledge_chunks",
    "letter_words",
    "letter_parts_pending",
    "knowledge_fts",
];

impl SqlStatement {
    /// Reports whether it writes and names such a table.
    fn writes_texts(&self) -> bool {
        let text = self.text.as_str();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        self.gives() != Gives::Select && words.into_iter().any(|word| TEXT_TABLES.contains(&word))
    }

    pub fn gives(&self) -> Gives {
        let text = without_comments(&self.text);
        let words = || text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let first = text.split(|c: char| !c.is_ascii_alphabetic());
        match first.into_iter().next().unwrap_or_default() {
            "SELECT" => Gives::Select,
            "INSERT" | "UPDATE" | "DELETE" if words().any(|word| word == "RETURNING") => {
                Gives::Returning
            }
            "INSERT" | "UPDATE" | "DELETE" => Gives::Nothing,
            _ => Gives::Other,
        }
    }
}

/// Returns a text without the comments before its first word.
fn without_comments(text: &str) -> &str {
    let mut text = text.trim_start();
    while text.starts_with("--") {
        text = text
            .split_once('\n')
            .map_or("", |(_, rest)| rest.trim_start());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &'static str) -> Arc<PostgresText> {
        statements_of_postgres(&SqlText::Static(text))
    }

    fn made(text: &PostgresText) -> Vec<(usize, Option<FunctionResult>)> {
        let groups = text.by_rows.iter();
        groups
            .map(|group| (group.statements.len(), group.returned))
            .collect()
    }

    #[test]
    fn statements_up_to_one_that_gives_rows_are_a_function() {
        let several = text(
            "INSERT INTO t VALUES ($1); -- a note\nUPDATE t SET a = $2; SELECT a FROM t; DELETE FROM t; DELETE FROM u RETURNING a",
        );
        let rows = Some(FunctionResult::Rows);
        assert_eq!(made(&several), [(3, rows), (2, rows)]);
        // Rows that were written are not counted by a function.
        assert_eq!(several.counted.returned, None);
        let counted = text("SELECT a FROM t FOR UPDATE; UPDATE t SET a = $1; DELETE FROM t");
        assert_eq!(counted.counted.returned, Some(FunctionResult::Count));
        for alone in [
            "SELECT a FROM t",
            "SAVEPOINT a; DELETE FROM t WHERE a = $1; RELEASE a",
        ] {
            let alone = text(alone);
            assert_eq!(alone.counted.returned, None);
            assert!(made(&alone).iter().all(|(_, returned)| returned.is_none()));
        }
    }

    #[test]
    fn a_function_has_the_statements_of_its_text() {
        let several =
            text("UPDATE t SET a = $2 WHERE id = $1; SELECT a AS \"sum\" FROM t WHERE id = $1");
        let function = TextFunction {
            number: 7,
            statements: several.by_rows[0].statements.clone(),
            types: vec!["TEXT", "INT8"],
            returned: FunctionResult::Rows,
            call: OnceLock::new(),
        };
        let columns = [("sum".to_owned(), "INT8".to_owned())];
        assert_eq!(
            function.definition(&columns),
            "(TEXT, INT8) RETURNS TABLE (attache_0 INT8) LANGUAGE plpgsql AS $attache$\n\
             #variable_conflict use_column\n\nBEGIN\nUPDATE t SET a = $2 WHERE id = $1;\n\
             RETURN QUERY SELECT a AS \"sum\" FROM t WHERE id = $1;\nRETURN;\nEND $attache$"
        );
        assert_eq!(
            function.written_call("attache_7", &columns),
            "SELECT attache_0 AS \"sum\" FROM pg_temp.attache_7($1, $2)"
        );
    }

    #[test]
    fn a_text_that_writes_a_message_is_looked_at_for_words() {
        assert!(text("UPDATE messages SET subject = $1 WHERE id = $2").writes_texts);
        assert!(text("INSERT INTO knowledge_chunks (seq) VALUES ($1)").writes_texts);
        assert!(!text("UPDATE runs SET state = $1 WHERE id = $2").writes_texts);
        assert!(!text("SELECT id FROM messages WHERE id = $1").writes_texts);
    }

    /// What a trigger writes there, a statement on the trigger's table causes.
    #[test]
    fn every_table_whose_triggers_name_words_is_known() {
        let triggers = include_str!("../../../migrations/postgres/0201_words_and_triggers.sql");
        let functions = triggers.split("CREATE FUNCTION ").skip(1);
        let mut found = 0;
        for function in functions {
            let (name, body) = function.split_once('(').expect("a name");
            let is_of_words = [
                "INSERT INTO letter_words",
                "INSERT INTO letter_parts_pending",
                "INSERT INTO knowledge_fts",
                "SET words = NULL",
            ]
            .iter()
            .any(|write| body.contains(write));
            if !is_of_words {
                continue;
            }
            let (before, _) = body
                .split_once(&format!("EXECUTE FUNCTION {name}()"))
                .expect("its trigger");
            let (_, on) = before.rsplit_once(" ON ").expect("its table");
            let table = on.split_whitespace().next().expect("its table");
            assert!(TEXT_TABLES.contains(&table), "{table}, by {name}");
            found += 1;
        }
        assert!(found >= 4, "{found} triggers");
    }
}
