-- Engines that work on this database. On SQLite there is one, and its row stays when it has ended: whether it lives, the lock of the
-- workspace says. On PostgreSQL there are as many as there are machines, and a row whose lease has expired is deleted by another
-- node, which takes the work over.
CREATE TABLE nodes (
  epoch INTEGER PRIMARY KEY,            -- of its start; rows of an epoch that is not here are orphans
  host TEXT NOT NULL,
  workspace TEXT NOT NULL,              -- absolute path there
  pid INTEGER NOT NULL,
  version TEXT NOT NULL,
  roles TEXT NOT NULL DEFAULT '',       -- what it does, divided by commas; empty: everything
  started_at TEXT NOT NULL,
  expires_ms INTEGER,                   -- end of its lease, in milliseconds since 1970 by the server's clock; NULL on SQLite
  clock_off_ms INTEGER NOT NULL DEFAULT 0, -- its clock less that of the server
  drain_asked_at TEXT                   -- since when it is to end, because an operator asked
);

-- Work that one node does for all. A lease lasts as long as its node has a row.
CREATE TABLE leases (
  name TEXT PRIMARY KEY,
  epoch INTEGER NOT NULL,
  since TEXT NOT NULL
);

ALTER TABLE embedding_calls ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0; -- of the engine that makes it
