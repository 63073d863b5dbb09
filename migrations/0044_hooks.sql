-- Programs of the owner that were asked about what a run did, and what they said.
CREATE TABLE hook_calls (
  seq INTEGER PRIMARY KEY,
  persona_id TEXT NOT NULL,
  run_id TEXT NOT NULL REFERENCES runs (id),
  event TEXT NOT NULL CHECK (event IN ('before_run', 'before_call', 'after_call', 'before_send', 'after_run')),
  tool TEXT NOT NULL,               -- empty for an occasion of the run
  hook_id TEXT NOT NULL,
  hook_sha256 TEXT NOT NULL,        -- over its command line and the files of the workspace that it names
  decision TEXT NOT NULL CHECK (decision IN ('allow', 'deny', 'ask', 'failed')),
  reason TEXT NOT NULL,
  took_ms INTEGER NOT NULL,
  asked_at TEXT NOT NULL
) STRICT;
CREATE INDEX hook_calls_by_run ON hook_calls (run_id, seq);
