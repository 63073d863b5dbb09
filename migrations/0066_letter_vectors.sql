-- Vectors of letters, one of each model (`PROVIDER/MODEL`, with `@DIMENSIONS` where the configuration names them). Made by the
-- engine beside the letters; they can be made again at any time.
CREATE TABLE letter_vectors (
  seq INTEGER NOT NULL,             -- of the message
  model TEXT NOT NULL,
  persona_id TEXT NOT NULL,         -- of the message
  text_sha256 TEXT NOT NULL,        -- of the text that the vector stands for
  vector BLOB NOT NULL,             -- f32, little-endian, of length 1
  PRIMARY KEY (seq, model)
) STRICT;
CREATE INDEX letter_vectors_of_persona ON letter_vectors (persona_id, model, seq);
CREATE INDEX letter_vectors_by_text ON letter_vectors (model, text_sha256);
CREATE TRIGGER letter_vectors_gone AFTER DELETE ON messages BEGIN
  DELETE FROM letter_vectors WHERE seq = old.seq;
END;
CREATE TRIGGER letter_vectors_changed AFTER UPDATE OF subject, text_body, fresh_text ON messages
WHEN old.subject IS NOT new.subject OR old.text_body IS NOT new.text_body OR old.fresh_text IS NOT new.fresh_text BEGIN
  DELETE FROM letter_vectors WHERE seq = old.seq;
END;

-- Personas whose search uses vectors, because a measurement on their own letters has shown a gain. Counts for that model alone.
CREATE TABLE vector_switches (
  persona_id TEXT PRIMARY KEY,
  provider TEXT NOT NULL,
  model TEXT NOT NULL,              -- as in `letter_vectors`
  gain_points REAL NOT NULL,        -- of recall at 10, in points of a hundred
  letters INTEGER NOT NULL,         -- that had a vector when it was measured
  measured_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The second ledger: calls that make vectors. They are of no turn of a run, and most of no run at all.
CREATE TABLE embedding_calls (
  id TEXT PRIMARY KEY,
  persona_id TEXT NOT NULL,
  purpose TEXT NOT NULL CHECK (purpose IN ('letters', 'question', 'bench')),
  run_id TEXT,                      -- that asked the question
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  texts INTEGER NOT NULL,
  tokens INTEGER NOT NULL,          -- while it is open, the most that it may use
  estimated INTEGER NOT NULL,       -- 1: the provider did not say how many
  state TEXT NOT NULL CHECK (state IN ('open', 'answered', 'lost')),
  cost_micros INTEGER,              -- NULL: unknown
  cost_source TEXT NOT NULL,
  price_version TEXT,
  held_micros INTEGER,              -- what the accounts count where the cost is unknown; while it is open, what is reserved
  accounts_json TEXT NOT NULL,      -- the accounts that it is taken from
  day TEXT NOT NULL,
  created_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX embedding_calls_open ON embedding_calls (state) WHERE state = 'open';
CREATE INDEX embedding_calls_by_time ON embedding_calls (created_at);
