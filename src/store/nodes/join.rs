//! The row of a node, which is made when its engine opens the database.

/// On SQLite: the engine before has no lock any more, so that this one is alone.
pub const JOIN_ALONE: &str = "
    DELETE FROM leases;
    DELETE FROM nodes;
    INSERT INTO nodes (epoch, host, workspace, pid, version, started_at) VALUES ($1, $2, $3, $4, $5, $6)";
/// On PostgreSQL: the node before of this folder had the lock that this one has, and what it left is recovered at the start of this one.
/// Whether another whose lease has expired is gone is not known yet: the server may have been away.
pub static JOIN: &str = "
    DELETE FROM nodes WHERE identity = $8;
    DELETE FROM leases WHERE epoch NOT IN (SELECT epoch FROM nodes);
    INSERT INTO nodes (epoch, host, workspace, pid, version, started_at, expires_ms, identity)
      VALUES ($1, $2, $3, $4, $5, $6, server_ms() + $7, $8)";
/// Gives the node of this identity whose lease lasts and whose process is not the one that had the lock of the workspace before,
/// and the end of its lease.
pub static HOLDER: &str = "
    SELECT host, workspace, pid, expires_ms FROM nodes
    WHERE identity = $1 AND pid <> $2 AND expires_ms > server_ms() ORDER BY epoch DESC LIMIT 1";
/// Ends the sessions of the node of this identity; with `$2`, of all whose lease has expired: one that was stopped in a
/// transaction, by a signal or with its machine, keeps the locks that burial needs. Its names are those of `postgres/url.rs`.
pub static END_SESSIONS: &str = "
    SELECT count(pg_terminate_backend(a.pid)) AS ended FROM pg_stat_activity a
    JOIN nodes n ON a.application_name = 'attache node ' || n.epoch
    WHERE a.datname = current_database() AND (n.identity = $1 OR ($2 = 1 AND n.expires_ms <= server_ms()))";
/// At an orderly end.
pub static LEAVE: &str = "
    DELETE FROM leases WHERE epoch = $1;
    DELETE FROM nodes WHERE epoch = $1";
