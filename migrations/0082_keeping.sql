-- Backups that were tried: the newest rows say how old the last good one is.
CREATE TABLE backups (
  seq INTEGER PRIMARY KEY,
  started_at TEXT NOT NULL,
  finished_at TEXT,                 -- NULL: it is being made, or its maker died
  is_scheduled INTEGER NOT NULL CHECK (is_scheduled IN (0, 1)),
  path TEXT NOT NULL,
  bytes INTEGER NOT NULL DEFAULT 0,
  failure TEXT                      -- NULL: it is good
) STRICT;
CREATE INDEX backups_good ON backups (seq) WHERE finished_at IS NOT NULL AND failure IS NULL;
CREATE INDEX backups_scheduled ON backups (seq) WHERE is_scheduled = 1;

-- Where the engine is with each kind that it throws away by age, and what went.
CREATE TABLE retention (
  kind TEXT PRIMARY KEY,
  before TEXT NOT NULL,             -- rows that are older go in this pass
  position INTEGER,                 -- of the last row that was looked at; NULL: the pass is over
  started_at TEXT NOT NULL,
  finished_at TEXT,
  pass_rows INTEGER NOT NULL DEFAULT 0,
  pass_bytes INTEGER NOT NULL DEFAULT 0,
  total_rows INTEGER NOT NULL DEFAULT 0,
  total_bytes INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
