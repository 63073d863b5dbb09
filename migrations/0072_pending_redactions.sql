-- Runs that were at work with a text when their owner erased it: their records are emptied whole when they have ended, since by
-- then nobody knows the words any more.
CREATE TABLE pending_redactions (
  run_id TEXT PRIMARY KEY REFERENCES runs (id),
  since TEXT NOT NULL
) STRICT, WITHOUT ROWID;
