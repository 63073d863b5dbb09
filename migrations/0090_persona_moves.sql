-- Personas that go to another cell's database, or came from one (D-134). While a move is begun, no engine starts here.
CREATE TABLE persona_moves (
  id TEXT PRIMARY KEY,              -- the same in both databases
  persona_id TEXT NOT NULL,
  direction TEXT NOT NULL CHECK (direction IN ('out', 'in')),
  place TEXT NOT NULL,              -- folder of the other cell's workspace
  state TEXT NOT NULL CHECK (state IN ('begun', 'ended', 'cancelled')),
  begun_at TEXT NOT NULL,
  ended_at TEXT,
  counts_json TEXT NOT NULL DEFAULT '[]' -- tables with their rows and the digest of these
) STRICT, WITHOUT ROWID;
CREATE INDEX persona_moves_open ON persona_moves (state) WHERE state = 'begun';
