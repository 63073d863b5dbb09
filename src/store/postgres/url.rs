//! Where the database of a workspace is, if it is not a file.

use crate::config::{DATABASE_VARIABLE, is_stand_in, secret};
use crate::store::OpenError;
use secrecy::ExposeSecret;
use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;
use std::path::Path;
use std::str::FromStr;

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

/// Address of a database of PostgreSQL, as `postgres://user:password@host:port/name?sslmode=…`.
#[derive(Clone)]
pub(in crate::store) struct DatabaseUrl(PgConnectOptions);

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
        if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
            return Err(OpenError::DatabaseUrl(
                "it does not begin with `postgres://`",
            ));
        }
        // The library only warns of what it does not know, which may be a misspelled `sslmode`.
        let asked = text.split_once('?').map_or("", |(_, asked)| asked);
        let mut names = asked.split('&').filter_map(|one| one.split('=').next());
        let is_known = |name: &str| {
            name.is_empty() || name.starts_with("options[") || PARAMETERS.contains(&name)
        };
        if !names.all(is_known) {
            return Err(OpenError::DatabaseUrl(
                "it has a parameter behind `?` that is not known here",
            ));
        }
        // The cause would repeat the password.
        let options = PgConnectOptions::from_str(text).map_err(|_| {
            OpenError::DatabaseUrl(
                "it cannot be read as `postgres://USER:PASSWORD@HOST:PORT/NAME?sslmode=…`",
            )
        })?;
        Ok(Self(options))
    }

    /// Returns words for an operator, without a password.
    pub fn shown(&self) -> String {
        let name = self.0.get_database().unwrap_or_default();
        format!("`{name}` on {}:{}", self.0.get_host(), self.0.get_port())
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

    /// Returns options of a connection that writes.
    pub fn to_write(&self) -> PgConnectOptions {
        self.options("attache")
    }

    /// Returns options of a connection by which a node writes. Others find its sessions by their name.
    pub fn to_write_as_node(&self, epoch: i64) -> PgConnectOptions {
        self.options(&format!("attache node {epoch}"))
    }

    /// Returns options of a connection that reads: every write there is an error.
    pub fn to_read(&self) -> PgConnectOptions {
        self.options("attache (reads)")
            .options([("default_transaction_read_only", "on")])
    }

    fn options(&self, name: &str) -> PgConnectOptions {
        self.0
            .clone()
            .application_name(name)
            .statement_cache_capacity(STATEMENTS_CACHED)
            .options([
                // Compiling a plan took fifty times as long as executing it.
                ("jit", "off"),
                // Plans do not depend on values here, as in SQLite.
                ("plan_cache_mode", "force_generic_plan"),
                // A lock that is not had by then is a write that hangs elsewhere.
                ("lock_timeout", "30s"),
                // A process that was stopped in a transaction holds its locks no longer than this.
                ("idle_in_transaction_session_timeout", "60s"),
            ])
            .disable_statement_logging()
    }
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
        ] {
            let refusal = DatabaseUrl::parse(bad).map(|_| ()).expect_err(bad);
            assert!(!format!("{refusal:?} {refusal}").contains("hunter2"));
        }
    }
}
