//! Where the database of a workspace is, if it is not a file: one server or several, of which one takes writes.

use crate::config::{DATABASE_VARIABLE, is_stand_in, secret};
use crate::store::OpenError;
use crate::store::db::{Connection, ServerConnection, is_starting, unanswered};
use secrecy::ExposeSecret;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection as _};
use std::io;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// Prepared statements kept per connection; more than there are SQL constants.
const STATEMENTS_CACHED: usize = 1024;

/// Parameters of an address that the library reads (`sqlx::postgres::PgConnectOptions`).
const PARAMETERS: [&str; 18] = [
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
    "statement-cache-capacity",
];
/// Parameters that are read here: the first two as by libpq
/// (<https://www.postgresql.org/docs/15/libpq-connect.html#LIBPQ-PARAMKEYWORDS>).
const OURS: [&str; 3] = ["connect_timeout", "target_session_attrs", "answer_timeout"];
/// Seconds that a new connection may take, and an answer to a read, unless the address says others.
const CONNECT_SECONDS: u64 = 5;
const ANSWER_SECONDS: u64 = 10;
/// Bounds of both.
const SECONDS: std::ops::RangeInclusive<u64> = 1..=600;
/// Time for statements that read or change whole tables.
pub const UNHURRIED: Duration = Duration::from_secs(3600);

static IS_STANDBY: &str = "SELECT pg_is_in_recovery()";

/// Address of a database of PostgreSQL, as `postgres://user:password@host:port/name?sslmode=…`. Several hosts are separated by
/// commas, and tried in order.
#[derive(Clone)]
pub struct DatabaseUrl(Arc<UrlParts>);

struct UrlParts {
    servers: Vec<PgConnectOptions>,
    /// The server that took the last connection, by its place.
    good: AtomicUsize,
    /// `true`: a server that only reads is passed over.
    asks_role: bool,
    connect_max: Duration,
    answer_max: Duration,
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Session {
    Write,
    /// Of the node with this epoch: others find its sessions by their name.
    WriteAsNode(i64),
    /// Every write is an error.
    Read,
    /// Reads whole tables, however long that takes.
    ReadAll,
    /// Rewrites whole tables.
    WriteAll,
}

impl DatabaseUrl {
    /// Reads the address for a workspace; `None` where its database is a file.
    ///
    /// Errors: [`OpenError::DatabaseUrl`] for what is no address, [`OpenError::TwoDatabases`] where
    /// there is a file besides: its rows would seem to be gone.
    pub fn of(workspace: &Path) -> Result<Option<Self>, OpenError> {
        match Self::named(workspace)? {
            Some(url) if workspace.join("data/attache.db").exists() => {
                Err(OpenError::TwoDatabases { place: url.shown() })
            }
            named => Ok(named),
        }
    }

    /// Reads the address that a workspace names, whether there is a file besides or not.
    ///
    /// Errors: [`OpenError::DatabaseUrl`].
    pub fn named(workspace: &Path) -> Result<Option<Self>, OpenError> {
        let text = secret(workspace, DATABASE_VARIABLE);
        // What cannot be read is a problem of the configuration, without which no engine starts.
        let Some(text) = text.filter(|text| !is_stand_in(text)) else {
            return Ok(None);
        };
        Self::parse(text.expose_secret()).map(Some)
    }

    /// Errors: [`OpenError::DatabaseUrl`].
    pub fn parse(text: &str) -> Result<Self, OpenError> {
        let Some(rest) = ["postgres://", "postgresql://"]
            .iter()
            .find_map(|scheme| text.strip_prefix(scheme))
        else {
            return Err(OpenError::DatabaseUrl(
                "it does not begin with `postgres://`",
            ));
        };
        let (place, asked) = rest.split_once('?').unwrap_or((rest, ""));
        let asked: Vec<&str> = asked.split('&').filter(|one| !one.is_empty()).collect();
        let name = |one: &str| one.split('=').next().unwrap_or_default().to_owned();
        let (own, others): (Vec<&str>, Vec<&str>) = asked
            .iter()
            .partition(|one| OURS.contains(&name(one).as_str()));
        // The library only warns of what it does not know, which may be a misspelled `sslmode`.
        let is_known =
            |name: String| name.starts_with("options[") || PARAMETERS.contains(&name.as_str());
        if !others.iter().all(|one| is_known(name(one))) {
            return Err(OpenError::DatabaseUrl(
                "it has a parameter behind `?` that is not known here",
            ));
        }
        let value = |wanted: &str| {
            let mut found = own.iter().filter_map(|one| one.split_once('='));
            found.find_map(|(name, value)| (name == wanted).then_some(value))
        };
        let servers = one_by_one(place, &others)?;
        let asks_role = match value("target_session_attrs") {
            None => servers.len() > 1,
            Some("any") => false,
            Some("read-write" | "primary") => true,
            Some(_) => {
                return Err(OpenError::DatabaseUrl(
                    "its `target_session_attrs` may be `read-write`, `primary` or `any`: an engine writes",
                ));
            }
        };
        Ok(Self(Arc::new(UrlParts {
            servers,
            good: AtomicUsize::new(0),
            asks_role,
            connect_max: seconds(value("connect_timeout"), CONNECT_SECONDS)?,
            answer_max: seconds(value("answer_timeout"), ANSWER_SECONDS)?,
        })))
    }

    /// Returns words for an operator, without a password.
    pub fn shown(&self) -> String {
        let servers = &self.0.servers;
        let name = servers.first().and_then(PgConnectOptions::get_database);
        let places: Vec<String> = servers.iter().map(place_of).collect();
        format!("`{}` on {}", name.unwrap_or_default(), places.join(", "))
    }

    /// Names the server in an error of its.
    pub fn failed(&self, error: OpenError) -> OpenError {
        match error {
            OpenError::Sql(source) => OpenError::NoServer {
                place: self.shown(),
                source,
            },
            other => other,
        }
    }

    /// Returns how long a read waits for an answer.
    pub fn read_max(&self) -> Duration {
        self.0.answer_max
    }

    /// Returns how long a write waits for an answer, and for a server that is away.
    pub fn write_max(&self) -> Duration {
        self.0.answer_max * 2
    }

    /// Connects to the first server that takes writes, from the one on that took the last connection.
    ///
    /// Errors: none answers in time, or all refuse.
    pub async fn connect(&self, session: Session) -> Result<Connection, sqlx::Error> {
        let conn = self.connected(session).await?;
        let answer_max = match session {
            Session::Write | Session::WriteAsNode(_) => self.write_max(),
            Session::Read => self.read_max(),
            Session::ReadAll | Session::WriteAll => UNHURRIED,
        };
        Ok(ServerConnection::new(conn, answer_max).into())
    }

    /// [`Self::connect`], for a pool that waits for answers itself.
    pub async fn connected(&self, session: Session) -> Result<PgConnection, sqlx::Error> {
        let (servers, first) = (&self.0.servers, self.0.good.load(Ordering::Relaxed));
        let mut refused = Vec::new();
        for at in (first..servers.len()).chain(0..first) {
            let options = self.options(&servers[at], session);
            let connected = timeout(self.0.connect_max, self.connect_to(&options)).await;
            match connected {
                Ok(Ok(conn)) => {
                    self.0.good.store(at, Ordering::Relaxed);
                    return Ok(conn);
                }
                Ok(Err(error)) => refused.push(error),
                Err(_elapsed) => refused.push(unanswered(self.0.connect_max)),
            }
        }
        if refused.len() > 1 {
            let tried = (first..servers.len()).chain(0..first);
            let all: Vec<String> = tried
                .zip(&refused)
                .map(|(at, error)| format!("{}: {error}", place_of(&servers[at])))
                .collect();
            // One may take connections soon, such as a standby that is about to be the primary.
            let kind = match refused.iter().any(is_starting) {
                true => io::ErrorKind::ConnectionRefused,
                false => io::ErrorKind::Other,
            };
            return Err(io::Error::new(kind, all.join("; ")).into());
        }
        Err(refused
            .pop()
            .unwrap_or_else(|| unanswered(self.0.connect_max)))
    }

    async fn connect_to(&self, options: &PgConnectOptions) -> Result<PgConnection, sqlx::Error> {
        let mut conn = PgConnection::connect_with(options).await?;
        if self.0.asks_role {
            let is_standby = sqlx::query_scalar::<_, bool>(IS_STANDBY);
            if is_standby.fetch_one(&mut conn).await? {
                let why = "it is a standby, which only reads";
                return Err(io::Error::new(io::ErrorKind::ConnectionRefused, why).into());
            }
        }
        Ok(conn)
    }

    /// Returns options of a connection to the server that took the last one, for a listener, which connects itself.
    pub fn options_to_listen(&self, epoch: i64) -> PgConnectOptions {
        let good = self.0.good.load(Ordering::Relaxed);
        let at = good.min(self.0.servers.len() - 1);
        self.options(&self.0.servers[at], Session::WriteAsNode(epoch))
    }

    fn options(&self, server: &PgConnectOptions, session: Session) -> PgConnectOptions {
        let name = match session {
            Session::Write | Session::WriteAll => "attache".to_owned(),
            Session::WriteAsNode(epoch) => format!("attache node {epoch}"),
            Session::Read | Session::ReadAll => "attache (reads)".to_owned(),
        };
        let (read_ms, write_ms) = (ms(self.read_max()), ms(self.write_max()));
        // Ends what nobody here waits for any more.
        let (statement_ms, lock_ms) = match session {
            Session::ReadAll | Session::WriteAll => (0, read_ms * 3),
            _ => (read_ms * 3, write_ms * 9 / 10),
        };
        let options = server
            .clone()
            .application_name(&name)
            .statement_cache_capacity(STATEMENTS_CACHED)
            .options([
                // Compiling a plan took fifty times as long as executing it.
                ("jit", "off"),
                // Plans do not depend on values here, as in SQLite.
                ("plan_cache_mode", "force_generic_plan"),
                // A process that was stopped in a transaction holds its locks no longer than this.
                ("idle_in_transaction_session_timeout", "60s"),
                // The server finds out that the network to this machine is gone, and frees its locks.
                ("tcp_user_timeout", "15s"),
                ("tcp_keepalives_idle", "10"),
                ("tcp_keepalives_interval", "5"),
                ("tcp_keepalives_count", "3"),
            ])
            .options([
                ("statement_timeout", format!("{statement_ms}ms")),
                // A lock that is not had by then is a write that hangs elsewhere.
                ("lock_timeout", format!("{lock_ms}ms")),
            ])
            .disable_statement_logging();
        match session {
            Session::Read | Session::ReadAll => {
                options.options([("default_transaction_read_only", "on")])
            }
            _ => options,
        }
    }
}

/// Reads the address of each server on its own, as the library does.
fn one_by_one(place: &str, asked: &[&str]) -> Result<Vec<PgConnectOptions>, OpenError> {
    let (authority, name) = match place.split_once('/') {
        Some((authority, name)) => (authority, format!("/{name}")),
        None => (place, String::new()),
    };
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (format!("{user}@"), hosts),
        None => (String::new(), authority),
    };
    // A host in a parameter, such as the folder of a socket, stands in the place of the one before `/`.
    let (named, others): (Vec<&str>, Vec<&str>) = asked
        .iter()
        .partition(|one| one.starts_with("host=") || one.starts_with("port="));
    let list = |name: &str| {
        let found = named.iter().rev().find_map(|one| one.strip_prefix(name));
        found.map(|list| list.split(',').collect::<Vec<_>>())
    };
    let (in_parameter, ports) = (list("host="), list("port=").unwrap_or_default());
    let hosts: Vec<&str> = hosts.split(',').collect();
    let count = in_parameter.as_ref().map_or(hosts.len(), Vec::len);
    if count > 1 && (hosts.iter().any(|host| host.is_empty()) && in_parameter.is_none()) {
        return Err(OpenError::DatabaseUrl("one of its hosts is empty"));
    }
    if ports.len() > 1 && ports.len() != count {
        return Err(OpenError::DatabaseUrl(
            "its `port` lists as many ports as it has hosts, or one",
        ));
    }
    (0..count)
        .map(|at| {
            let host = match in_parameter {
                Some(_) => hosts[0],
                None => hosts[at],
            };
            let own = in_parameter
                .as_ref()
                .map(|list| format!("host={}", list[at]));
            let port = ports
                .get(at)
                .or(ports.first())
                .map(|port| format!("port={port}"));
            let asked: Vec<String> = others
                .iter()
                .map(ToString::to_string)
                .chain(own)
                .chain(port)
                .collect();
            let one = format!("postgres://{user}{host}{name}?{}", asked.join("&"));
            // The cause would repeat the password.
            PgConnectOptions::from_str(&one).map_err(|_| {
                OpenError::DatabaseUrl(
                    "it cannot be read as `postgres://USER:PASSWORD@HOST:PORT/NAME?sslmode=…`",
                )
            })
        })
        .collect()
}

fn place_of(server: &PgConnectOptions) -> String {
    format!("{}:{}", server.get_host(), server.get_port())
}

fn seconds(said: Option<&str>, default: u64) -> Result<Duration, OpenError> {
    let found = match said {
        None => Some(default),
        Some(said) => said.parse().ok(),
    };
    let found = found.filter(|found| SECONDS.contains(found));
    found.map(Duration::from_secs).ok_or(OpenError::DatabaseUrl(
        "its `connect_timeout` and `answer_timeout` are seconds, from 1 to 600",
    ))
}

fn ms(span: Duration) -> u128 {
    span.as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_of_postgresql_and_a_refusal_repeats_no_password() {
        for good in [
            "postgres://mail@127.0.0.1:21400/mail",
            "postgresql:///mail?host=/run/postgresql",
            "postgres://mail@db.test/mail?sslmode=verify-full&sslrootcert=/etc/ssl/db-ca.pem",
        ] {
            assert!(DatabaseUrl::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "mysql://mail:hunter2@db.test/mail",
            "hunter2",
            "postgres://mail:hunter2@[/mail",
            "postgres://mail:hunter2@db.test/mail?sslmood=require",
            "postgres://mail:hunter2@db.test/mail?sslmode=disabled",
            "postgres://mail:hunter2/x@db.test/mail",
            "postgres://mail:hunter2@db1.test,/mail",
            "postgres://mail:hunter2@db1.test,db2.test/mail?port=1,2,3",
            "postgres://mail:hunter2@db1.test,[/mail",
            "postgres://mail:hunter2@db.test/mail?connect_timeout=0",
            "postgres://mail:hunter2@db.test/mail?connect_timeout=5s",
            "postgres://mail:hunter2@db.test/mail?answer_timeout=601",
            "postgres://mail:hunter2@db.test/mail?target_session_attrs=standby",
        ] {
            let refusal = DatabaseUrl::parse(bad).map(|_| ()).expect_err(bad);
            assert!(!format!("{refusal:?} {refusal}").contains("hunter2"));
        }
    }

    #[test]
    fn an_address_of_several_servers_names_each_and_whom_it_looks_for() {
        #[rustfmt::skip]
        let cases = [
            ("postgres://mail@db1.test/mail", "`mail` on db1.test:5432", false, (5, 10)),
            ("postgres://mail@db1.test,db2.test/mail", "`mail` on db1.test:5432, db2.test:5432", true, (5, 10)),
            ("postgres://mail:a%2Cb@db1.test:6000,db2.test:6001,[::1]:6002/mail?connect_timeout=2",
                "`mail` on db1.test:6000, db2.test:6001, [::1]:6002", true, (2, 10)),
            ("postgres://mail@db1.test,db2.test/mail?target_session_attrs=any", "`mail` on db1.test:5432, db2.test:5432", false, (5, 10)),
            ("postgres://mail@db1.test/mail?target_session_attrs=read-write&answer_timeout=3", "`mail` on db1.test:5432", true, (5, 3)),
            ("postgres:///mail?user=mail&host=db1.test,db2.test&port=6000,6001", "`mail` on db1.test:6000, db2.test:6001", true, (5, 10)),
            ("postgres:///mail?user=mail&host=db1.test,db2.test&port=6000", "`mail` on db1.test:6000, db2.test:6000", true, (5, 10)),
        ];
        for (text, shown, asks_role, (connect, answer)) in cases {
            let url = DatabaseUrl::parse(text).expect(text);
            assert_eq!((url.shown().as_str(), url.0.asks_role), (shown, asks_role));
            let seconds = (url.0.connect_max.as_secs(), url.read_max().as_secs());
            assert_eq!(seconds, (connect, answer), "{text}");
        }
    }

    #[tokio::test]
    async fn several_servers_of_which_one_refuses_are_tried_again() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0");
        let closed = closed.and_then(|one| one.local_addr()).expect("a port");
        // It takes connections and never says a word.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let silent = silent.local_addr().map(|at| (silent, at)).expect("a port");
        let cases = [
            (format!("{closed}"), true),
            (format!("{closed},{closed}"), true),
            (format!("{closed},{}", silent.1), true),
            (format!("{},{closed}", silent.1), true),
            (format!("{0},{0}", silent.1), false),
        ];
        for (hosts, wanted) in cases {
            let url = format!("postgres://mail@{hosts}/mail?connect_timeout=1");
            let url = DatabaseUrl::parse(&url).expect("an address");
            let error = url.connected(Session::Read).await.expect_err("nobody");
            assert_eq!(is_starting(&error), wanted, "{hosts}: {error}");
        }
    }
}
