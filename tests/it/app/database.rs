//! The database of a new workspace, copied from one that a first start has made: making it anew for each test was a third of
//! what most tests compute. What opening makes of no database is tested through the binary.
//!
//! It is a file of SQLite; or, with `ATTACHE_TEST_STORE=postgres`, a database in the cluster that `ATTACHE_TEST_POSTGRES`
//! names, which the workspace's `.secrets` tells the engine. One goes when its workspace has gone, or with the next
//! program of tests.

use super::db::{self, Connection};
use attache::clock::ManualClock;
use attache::domain::Timestamp;
use attache::store::Store;
use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection as _, Executor};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;

/// The line of `.secrets` that names a database.
const URL_KEY: &str = "ATTACHE_DATABASE_URL=";
/// What the names of our databases begin with; the number of the process follows.
const PREFIX: &str = "attache_test_";

static MADE: OnceCell<Vec<u8>> = OnceCell::const_new();
/// The name of the database that others are copied from.
static TEMPLATE: OnceCell<String> = OnceCell::const_new();
/// What earlier programs of tests left is dropped once.
static SWEPT: OnceCell<()> = OnceCell::const_new();
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Workspaces with databases in the cluster.
static GIVEN: Mutex<Vec<(PathBuf, String)>> = Mutex::new(Vec::new());

/// Whether the workspaces of this program have databases of PostgreSQL.
pub fn is_postgres() -> bool {
    match std::env::var("ATTACHE_TEST_STORE").as_deref() {
        Err(_) | Ok("sqlite") => false,
        Ok("postgres") => true,
        Ok(other) => panic!("ATTACHE_TEST_STORE is `{other}`; set it to `sqlite` or `postgres`"),
    }
}

/// Tells a test that is about SQLite to return, when the databases are PostgreSQL's. `tests/README.md` lists them.
pub fn is_sqlite_only(reason: &str) -> bool {
    let skipped = is_postgres();
    if skipped {
        eprintln!("SKIPPED on PostgreSQL: {reason}");
    }
    skipped
}

/// The URL of a workspace's database, where it is no file.
pub fn url_of(workspace: &Path) -> Option<String> {
    let secrets = std::fs::read_to_string(workspace.join(".secrets")).ok()?;
    url_in(&secrets).map(str::to_owned)
}

fn url_in(secrets: &str) -> Option<&str> {
    secrets.lines().find_map(|line| line.strip_prefix(URL_KEY))
}

/// The text of a `.secrets` that takes the place of the one that is there: it goes on naming the database.
pub fn kept(workspace: &Path, secrets: &str) -> String {
    match url_of(workspace) {
        Some(url) if url_in(secrets).is_none() => with_url(secrets, &url),
        _ => secrets.to_owned(),
    }
}

/// The text of a `.secrets` that names a database besides.
fn with_url(secrets: &str, url: &str) -> String {
    let end = if secrets.is_empty() || secrets.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    format!("{secrets}{end}{URL_KEY}{url}\n")
}

async fn made() -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let clock = ManualClock::at(Timestamp::parse(super::START).expect("an instant"));
    let store = Store::open(folder.path(), Arc::new(clock)).await;
    store.expect("a database").close().await;
    std::fs::read(folder.path().join("data/attache.db")).expect("a database")
}

/// Gives a workspace without `data` a database that no engine has worked on.
pub async fn provide(workspace: &Path) {
    // One with the folder has a database, or is to make its own.
    if workspace.join("data").exists() {
        return;
    }
    if is_postgres() {
        std::fs::create_dir_all(workspace.join("data")).expect("a folder");
        return provide_postgres(workspace).await;
    }
    let path = workspace.join("data/attache.db");
    let bytes = MADE.get_or_init(made).await;
    std::fs::create_dir_all(workspace.join("data")).expect("a folder");
    std::fs::write(&path, bytes).expect("a database");
    restrict(&path);
    let options = SqliteConnectOptions::new()
        .filename(&path)
        .synchronous(SqliteSynchronous::Off);
    let mut database = options.connect().await.expect("a database");
    // Each has a key of its own, as if it had been made here.
    let own = "UPDATE engine SET epoch = 0, loop_key = randomblob(32)";
    database.execute(own).await.expect("a row");
    database.close().await.expect("closed");
}

/// The same for a folder that a test opens a store of its own in.
pub async fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    provide(folder.path()).await;
    folder
}

/// A database as it was when nobody had it open, for workspaces that begin with it.
pub enum Kept {
    File(Vec<u8>),
    /// The name of a copy in the cluster.
    Copy(String),
}

/// Keeps the database of a workspace, which nobody has open.
pub async fn keep(workspace: &Path) -> Kept {
    let Some(url) = url_of(workspace) else {
        assert!(
            !workspace.join("data/attache.db-wal").exists(),
            "all is in one file"
        );
        return Kept::File(std::fs::read(workspace.join("data/attache.db")).expect("a database"));
    };
    let (_, name) = url.rsplit_once('/').expect("a URL with a database");
    let copy = fresh_name();
    let mut cluster = Connection::at(&cluster()).await;
    run(
        &mut cluster,
        format!("CREATE DATABASE {copy} TEMPLATE {name}"),
    )
    .await;
    Kept::Copy(copy)
}

/// Gives a workspace without a database one that was kept.
pub async fn put(kept: &Kept, workspace: &Path) {
    std::fs::create_dir_all(workspace.join("data")).expect("a folder");
    match kept {
        Kept::File(bytes) => {
            std::fs::write(workspace.join("data/attache.db"), bytes).expect("a database");
        }
        Kept::Copy(name) => copy_to(workspace, name).await,
    }
}

/// Gives a workspace that the binary is to start in a database in the cluster, where tests use one; without, the binary
/// makes the file itself.
pub fn provide_to_binary(workspace: &Path) {
    if !is_postgres() {
        return;
    }
    let providing = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime");
        runtime.block_on(provide_postgres(workspace));
    };
    // The caller may be in a runtime, which lets nobody block.
    std::thread::scope(|scope| scope.spawn(providing).join().expect("a database"));
}

/// Gives a workspace a database in the cluster, unless it names one, and tells it so.
async fn provide_postgres(workspace: &Path) {
    if url_of(workspace).is_some() {
        return;
    }
    let template = TEMPLATE.get_or_init(made_in_cluster).await;
    copy_to(workspace, template).await;
    let url = url_of(workspace).expect("its database");
    let mut database = Connection::at(&url).await;
    let own = "UPDATE engine SET epoch = 0, loop_key = decode(md5(random()::text) || md5(random()::text), 'hex')";
    database.execute(own).await.expect("a row");
    database.close().await.expect("closed");
}

/// Makes a copy of a database, for a workspace.
async fn copy_to(workspace: &Path, template: &str) {
    let mut cluster = Connection::at(&cluster()).await;
    drop_forsaken(&mut cluster).await;
    let name = fresh_name();
    let sql = format!("CREATE DATABASE {name} TEMPLATE {template}");
    run(&mut cluster, sql).await;
    GIVEN
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push((workspace.to_owned(), name.clone()));
    tell(workspace, &name);
}

/// Adds a database in the cluster to a workspace's `.secrets`.
pub fn tell(workspace: &Path, name: &str) {
    let path = workspace.join(".secrets");
    let secrets = std::fs::read_to_string(&path).unwrap_or_default();
    std::fs::write(&path, with_url(&secrets, &url_to(name))).expect("a file");
    restrict(&path);
}

fn restrict(path: &Path) {
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(path, private).expect("its mode");
}

/// Makes the database that others are copied from, as a first start does.
async fn made_in_cluster() -> String {
    let mut cluster = Connection::at(&cluster()).await;
    drop_of_ended_programs(&mut cluster).await;
    let name = fresh_name();
    run(&mut cluster, format!("CREATE DATABASE {name}")).await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    tell(folder.path(), &name);
    let clock = ManualClock::at(Timestamp::parse(super::START).expect("an instant"));
    let store = Store::open(folder.path(), Arc::new(clock)).await;
    store.expect("a database").close().await;
    let mut database = Connection::at(&url_to(&name)).await;
    let functions = include_str!("db/functions.sql");
    database.execute(functions).await.expect("functions");
    database.close().await.expect("closed");
    name
}

/// Gives a workspace an empty database of another locale.
pub async fn provide_of_locale(workspace: &Path, locale: &str) {
    let mut cluster = Connection::at(&cluster()).await;
    let name = fresh_name();
    let sql =
        format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LOCALE '{locale}'");
    run(&mut cluster, sql).await;
    GIVEN
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push((workspace.to_owned(), name.clone()));
    tell(workspace, &name);
}

/// Makes an empty database in the cluster, which goes with the workspace; `None` without a cluster. The workspace is not told.
pub async fn empty_on_server(workspace: &Path) -> Option<String> {
    std::env::var("ATTACHE_TEST_POSTGRES").ok()?;
    let mut cluster = Connection::at(&cluster()).await;
    SWEPT
        .get_or_init(async || drop_of_ended_programs(&mut cluster).await)
        .await;
    drop_forsaken(&mut cluster).await;
    let name = fresh_name();
    let sql = format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'");
    run(&mut cluster, sql).await;
    GIVEN
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push((workspace.to_owned(), name.clone()));
    Some(url_to(&name))
}

/// The URL of a cluster in which databases may be made.
fn cluster() -> String {
    std::env::var("ATTACHE_TEST_POSTGRES").expect(
        "ATTACHE_TEST_POSTGRES must name a database of a role that may make others, such as \
         postgres://postgres@127.0.0.1:5432/postgres",
    )
}

fn url_to(name: &str) -> String {
    let cluster = cluster();
    let (server, _) = cluster.rsplit_once('/').expect("a URL with a database");
    format!("{server}/{name}")
}

fn fresh_name() -> String {
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{PREFIX}{}_{number}", std::process::id())
}

async fn run(cluster: &mut Connection, sql: String) {
    let done = cluster.execute(AssertSqlSafe(sql.clone())).await;
    done.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// Drops the databases of workspaces that are there no more.
async fn drop_forsaken(cluster: &mut Connection) {
    let gone: Vec<_> = {
        let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
        given
            .extract_if(.., |(workspace, _)| !workspace.exists())
            .collect()
    };
    for (_, name) in gone {
        run(
            cluster,
            format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"),
        )
        .await;
    }
}

/// Drops what programs of tests have left that run no more.
async fn drop_of_ended_programs(cluster: &mut Connection) {
    let names = db::query_scalar::<String>("SELECT datname FROM pg_database WHERE datname LIKE $1");
    let names = names.bind(format!("{PREFIX}%")).fetch_all(cluster).await;
    for name in names.expect("the databases") {
        let process = name[PREFIX.len()..].split('_').next().unwrap_or_default();
        if !Path::new("/proc").join(process).exists() {
            run(
                cluster,
                format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"),
            )
            .await;
        }
    }
}
