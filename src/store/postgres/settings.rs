//! Settings of the server that promises need, read back at every start.

use crate::store::OpenError;
use crate::store::db::Connection;

/// Earliest version that is supported, as `server_version_num`.
const VERSION_MIN: i64 = 150_000;

/// Times are stored as texts and compared as texts, so the order must be that of their bytes.
static SETTINGS: &str = "
    SELECT current_setting('server_version_num')::bigint AS version, current_setting('fsync') AS fsync,
      current_setting('full_page_writes') AS full_page_writes, current_setting('synchronous_commit') AS synchronous_commit,
      d.datcollate AS collation, pg_encoding_to_char(d.encoding) AS encoding, d.datname AS name
    FROM pg_database d WHERE d.datname = current_database()";

/// Refuses a server on which a stored letter might be lost, or found in another order.
///
/// Errors: [`OpenError::Server`] with the statement that mends it.
pub async fn require(conn: &mut Connection) -> Result<(), OpenError> {
    let row = conn.row(SETTINGS, ()).await?;
    let version: i64 = row.get("version");
    if version < VERSION_MIN {
        return Err(OpenError::Server {
            setting: "version",
            found: (version / 10_000).to_string(),
            wanted: "15 or newer".to_owned(),
            remedy: "use a newer PostgreSQL".to_owned(),
        });
    }
    let name: String = row.get("name");
    let anew = format!(
        "make the database anew: CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'"
    );
    let reload = |setting: &str| {
        format!("as its administrator: ALTER SYSTEM SET {setting} = on, then restart the server")
    };
    let on = ["on"].as_slice();
    let commit = ["on", "remote_apply"].as_slice();
    for (setting, good, remedy) in [
        ("encoding", ["UTF8"].as_slice(), anew.clone()),
        ("collation", ["C", "POSIX"].as_slice(), anew),
        ("fsync", on, reload("fsync")),
        ("full_page_writes", on, reload("full_page_writes")),
        ("synchronous_commit", commit, reload("synchronous_commit")),
    ] {
        let found: String = row.get(setting);
        if !good.contains(&found.as_str()) {
            return Err(OpenError::Server {
                setting,
                found,
                wanted: good[0].to_owned(),
                remedy,
            });
        }
    }
    Ok(())
}
