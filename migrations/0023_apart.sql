-- Runs that stand apart from those of the road: brought from elsewhere, or forked from one of ours.

-- A database with this row holds runs of another engine for people to look at. No engine starts in it.
CREATE TABLE archive (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  header_json TEXT NOT NULL,        -- of the file that the runs came from
  imported_at TEXT NOT NULL
) STRICT;

-- A run that went on otherwise from one of its turns. It is no row of `runs`, so that no history, claim or sum of a run
-- knows of it; what it cost stands in `usage_ledger` under the run that it was forked from.
CREATE TABLE forks (
  id TEXT PRIMARY KEY,
  run_id TEXT NOT NULL REFERENCES runs (id),
  persona_id TEXT NOT NULL,
  at_turn INTEGER NOT NULL,
  change_json TEXT NOT NULL,        -- what is other than in the run
  state TEXT NOT NULL CHECK (state IN ('running', 'succeeded', 'failed', 'cancelled')),
  record_json TEXT NOT NULL,        -- what it did, in the form of a run's record
  created_at TEXT NOT NULL,
  finished_at TEXT
) STRICT;
CREATE INDEX forks_by_run ON forks (run_id);

-- Which fork made a call of the ledger; NULL: the run itself did.
ALTER TABLE usage_ledger ADD COLUMN fork_id TEXT;
