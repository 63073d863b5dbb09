//! Cells with databases of either kind, and a persona that has lived in one.

use crate::app::db::{self, Connection};
use crate::app::{TestApp, Workspace, database, proven_note};
use crate::run_options::{fire, ready};
use crate::verify::kinds;
use attache::cli::name_catalog;
use attache::clock::ManualClock;
use attache::domain::PersonaId;
use attache::store::{PersonaMove, PersonaMoveError, PersonaMoveReport};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use std::os::unix::fs::PermissionsExt;

/// Where the rows of a cell are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    File,
    Server,
}

/// Asks the owner whether it may write to somebody new.
fn script() -> Value {
    let mut script = kinds::script();
    let asks = json!({ "when": { "contains": "kind-ask", "turn": 0 }, "call": [{ "tool": "send_email", "args":
        { "to": ["eve@new.test"], "subject": "The plan", "body": "We meet on Tuesday." } }] });
    let report = json!({ "when": { "contains": "What came in?" }, "say": "Nothing new." });
    let rules = script["rules"].as_array_mut().expect("rules");
    rules.insert(0, asks);
    rules.insert(1, report);
    script
}

/// A cell in which this persona lives; `None`, loudly, where it needs a cluster and there is none.
pub async fn cell(rows: Rows, persona: &str) -> Option<Workspace> {
    let workspace = kinds::house();
    workspace.write("configs/script.json", &script().to_string());
    if persona != "ada" {
        std::fs::remove_dir_all(workspace.path().join("personas/ada")).expect("gone");
        workspace.persona(persona, persona);
    }
    std::fs::create_dir_all(workspace.path().join("data")).expect("a folder");
    if rows == Rows::Server {
        let Some(url) = database::empty_on_server(workspace.path()).await else {
            eprintln!("SKIPPED: ATTACHE_TEST_POSTGRES names no cluster of PostgreSQL");
            return None;
        };
        let line = format!("ATTACHE_DATABASE_URL={url}\n");
        let secrets = workspace.path().join(".secrets");
        std::fs::write(&secrets, line).expect("a file");
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(secrets, private).expect("its mode");
    }
    Some(workspace)
}

/// The other cell, with a persona that has answered a letter, at the time of the first.
pub async fn other(rows: Rows, persona: &str, first: &Workspace) -> Option<Workspace> {
    let mut workspace = cell(rows, persona).await?;
    workspace.clock = first.clock.clone();
    let app = workspace.start().await;
    app.run_of(&to(
        persona,
        &proven_note(&format!("0@{persona}.example"), "", "Hello, kind-plain."),
    ))
    .await;
    app.drain().await;
    Some(closed(app).await)
}

pub fn to(persona: &str, eml: &str) -> String {
    eml.replace("ada@engine.test", &format!("{persona}@engine.test"))
}

pub async fn closed(app: TestApp) -> Workspace {
    let TestApp { workspace, engine } = app;
    engine.store.close().await;
    workspace
}

/// A cell in which ada has answered letters, asked her owner, has had a slot, and has a queued run; and eve lives there too.
pub async fn lived(rows: Rows) -> Option<Workspace> {
    let workspace = cell(rows, "ada").await?;
    workspace.persona("eve", "Eve");
    let app = ready(workspace, &json!({})).await;
    for (n, kind) in ["plain", "tools", "road", "flaky", "plain"]
        .iter()
        .enumerate()
    {
        app.run_of(&kinds::letter(n, kind)).await;
        app.drain().await;
    }
    app.run_of(&to(
        "eve",
        &proven_note("eve@guest.example", "", "For Eve, kind-tools."),
    ))
    .await;
    let plan = proven_note(
        "plan@guest.example",
        "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n",
        "--b\nContent-Type: text/plain\n\nA plan, kind-plain 4711AB.\n--b\nContent-Type: text/csv\n\
         Content-Disposition: attachment; filename=\"plan.csv\"\n\nroom,1\n--b--",
    );
    app.run_of(&plan).await;
    fire(&app).await;
    app.drain().await;
    app.run_of(&proven_note(
        "ask@guest.example",
        "",
        "Write to Eve, kind-ask.",
    ))
    .await;
    app.drain().await;
    app.run_of(&proven_note(
        "last@guest.example",
        "",
        "Queued, kind-plain.",
    ))
    .await;
    Some(closed(app).await)
}

pub fn ada() -> PersonaId {
    PersonaId::parse("ada").expect("an id")
}

pub async fn moved(
    from: &Workspace,
    to: &Workspace,
) -> Result<PersonaMoveReport, PersonaMoveError> {
    moved_by(&from.clock, from, to).await
}

/// The ids of a test's clock are its own, so one clock gives those of several moves.
pub async fn moved_by(
    clock: &ManualClock,
    from: &Workspace,
    to: &Workspace,
) -> Result<PersonaMoveReport, PersonaMoveError> {
    let places = (from.path(), to.path());
    PersonaMove::carry_out(places, &ada(), &name_catalog(), clock).await
}

pub async fn count(workspace: &Workspace, sql: &'static str) -> i64 {
    let mut rows = workspace.rows().await;
    let count = db::query_scalar(sql).fetch_one(&mut rows).await;
    count.expect("a count")
}

/// Columns whose values a move changes.
const NUMBERS: [&str; 9] = [
    "seq",
    "joined_after",
    "after_seq",
    "from_seq",
    "upto_seq",
    "inputs_json",
    "sources_json",
    "epoch",
    "rowid",
];

/// All rows of a table that this condition selects, each as a line without its numbers, sorted; the same from both databases.
pub async fn lines(rows: &mut Connection, table: &str, whose: &str) -> Vec<String> {
    let columns = rows.on(
        "SELECT name, CASE WHEN type = 'BLOB' THEN 'hex(\"' || name || '\")' ELSE 'CAST(\"' || name || '\" AS TEXT)' END
           FROM pragma_table_info($1) ORDER BY name",
        "SELECT column_name::TEXT, CASE WHEN data_type = 'bytea' THEN 'upper(encode(\"' || column_name || '\", ''hex''))'
           ELSE '\"' || column_name || '\"::TEXT' END
           FROM information_schema.columns WHERE table_schema = 'public' AND table_name = $1
           ORDER BY column_name COLLATE \"C\"",
    );
    let columns = db::query(columns).bind(table).fetch_all(rows).await;
    let columns = columns.expect("columns").into_iter();
    let columns = columns.map(|row| (row.get::<String>(0), row.get::<String>(1)));
    let mut values = vec!["''".to_owned()];
    values.extend(
        columns
            .filter(|(name, _)| !NUMBERS.contains(&name.as_str()))
            .map(|(_, value)| format!("coalesce({value}, 'NULL')")),
    );
    let sql = format!(
        "SELECT '{table}: ' || {} FROM \"{table}\" WHERE {whose}",
        values.join(" || ', ' || ")
    );
    let lines = db::query_scalar::<String>(AssertSqlSafe(sql)).fetch_all(rows);
    let mut lines = lines.await.expect("rows");
    lines.sort_unstable();
    lines
}
