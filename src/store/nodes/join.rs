//! The row of a node, which is made when its engine opens the database.

/// On SQLite: the engine before has no lock any more, so that this one is alone.
pub(in crate::store) const JOIN_ALONE: &str = "
    DELETE FROM leases;
    DELETE FROM nodes;
    INSERT INTO nodes (epoch, host, workspace, pid, version, started_at) VALUES ($1, $2, $3, $4, $5, $6)";
/// On PostgreSQL: the node before of this workspace has no lock any more, and those whose lease has expired are gone, too. What
/// they left is recovered at the start of this one.
pub(in crate::store) static JOIN: &str = "
    DELETE FROM nodes WHERE host = $2 AND workspace = $3;
    DELETE FROM nodes WHERE expires_ms <= server_ms();
    DELETE FROM leases WHERE epoch NOT IN (SELECT epoch FROM nodes);
    INSERT INTO nodes (epoch, host, workspace, pid, version, started_at, expires_ms)
      VALUES ($1, $2, $3, $4, $5, $6, server_ms() + $7)";
/// At an orderly end.
pub(in crate::store) static LEAVE: &str = "
    DELETE FROM leases WHERE epoch = $1;
    DELETE FROM nodes WHERE epoch = $1";
