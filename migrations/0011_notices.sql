-- What the owner is to be told. One row is one fact; facts of one cause share a mail, at most one an hour.
CREATE TABLE notices (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  persona_id TEXT,                  -- NULL: the engine's own affair
  kind TEXT NOT NULL,
  cause TEXT NOT NULL,              -- what is folded: kind, what distinguishes it, persona
  subject_kind TEXT NOT NULL,       -- what the fact is about, and its id there
  subject_id TEXT NOT NULL,
  occurrence TEXT NOT NULL,         -- tells two facts about one subject apart; empty when there is only one
  summary TEXT NOT NULL,
  hint TEXT NOT NULL,
  raised_at TEXT NOT NULL,
  told_at TEXT,                     -- when the mail that tells it was queued
  delivery_id TEXT REFERENCES deliveries (id),
  UNIQUE (kind, subject_id, occurrence),
  CHECK ((told_at IS NULL) = (delivery_id IS NULL))
) STRICT;
CREATE INDEX notices_by_cause ON notices (cause, seq);
CREATE INDEX notices_by_delivery ON notices (delivery_id) WHERE delivery_id IS NOT NULL;
CREATE INDEX notices_untold ON notices (cause, seq) WHERE told_at IS NULL;
CREATE INDEX notices_told ON notices (cause, told_at) WHERE told_at IS NOT NULL;

-- A notice that cannot be delivered is not told about: the worker must know one when it sees it.
ALTER TABLE deliveries ADD COLUMN kind TEXT NOT NULL DEFAULT 'mail' CHECK (kind IN ('mail', 'notice'));
