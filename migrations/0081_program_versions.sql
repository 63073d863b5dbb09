-- The versions of the program that have written this database: when each was first and last started on it, and the newest
-- migration that it had applied.
CREATE TABLE program_versions (
  version TEXT PRIMARY KEY,
  first_seen_at TEXT NOT NULL,
  last_seen_at TEXT NOT NULL,
  migration INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
