-- Erasures of everything that a person wrote: what is under way, so that one that was interrupted is finished, and what was done.
CREATE TABLE erasures (
  id TEXT PRIMARY KEY,
  contact_sha256 TEXT NOT NULL,     -- of the address that was named
  addresses_json TEXT NOT NULL,     -- all addresses of the person; empty when it is done
  with_quotes INTEGER NOT NULL CHECK (with_quotes IN (0, 1)),
  state TEXT NOT NULL CHECK (state IN ('begun', 'rows_erased', 'done')),
  started_by TEXT NOT NULL,
  started_at TEXT NOT NULL,
  finished_at TEXT,
  counts_json TEXT NOT NULL DEFAULT '{}' -- rows by kind, and letters of others that quote
) STRICT, WITHOUT ROWID;
