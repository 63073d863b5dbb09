-- What somebody stopped at once: the runs of every persona (`''`) or of one, and their mail. Letters are still taken; they wait.
CREATE TABLE halts (
  persona_id TEXT PRIMARY KEY,
  reason TEXT NOT NULL,
  halted_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
