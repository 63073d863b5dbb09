-- Letters that were taken while no name server could say who sent them: no message and no run yet, until they are verified.
CREATE TABLE held_letters (
  id TEXT PRIMARY KEY,              -- the message that it becomes
  persona_id TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  envelope_json TEXT NOT NULL,      -- all that is known of its arrival: whoever verifies it again has nothing else
  bytes BLOB NOT NULL,
  held_at TEXT NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  next_attempt_at TEXT NOT NULL,
  UNIQUE (persona_id, sha256)
) STRICT;
CREATE INDEX held_letters_due ON held_letters (next_attempt_at, id);
