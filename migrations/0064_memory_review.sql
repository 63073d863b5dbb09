-- What a proposal would put in place of which entries; NULL: it is an entry that a run remembered.
ALTER TABLE memory ADD COLUMN proposes TEXT CHECK (proposes IN ('merge', 'correct', 'expire'));
CREATE TABLE memory_replaces (
  memory_id TEXT NOT NULL REFERENCES memory (id),
  replaced_id TEXT NOT NULL REFERENCES memory (id),
  PRIMARY KEY (memory_id, replaced_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_replaces_by_replaced ON memory_replaces (replaced_id);
CREATE INDEX memory_by_replacement ON memory (superseded_by) WHERE superseded_by IS NOT NULL;

-- Digests: entries that wait, numbered and shown to the owners in one mail. One at a time is open for a persona.
CREATE TABLE memory_digests (
  id TEXT PRIMARY KEY,
  persona_id TEXT NOT NULL,
  asked_at TEXT NOT NULL,
  closed_at TEXT                    -- when nothing of it waited any more, or a later one took its place
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX memory_digests_open ON memory_digests (persona_id) WHERE closed_at IS NULL;
CREATE INDEX memory_digests_by_persona ON memory_digests (persona_id, asked_at);
CREATE TABLE memory_digest_entries (
  digest_id TEXT NOT NULL REFERENCES memory_digests (id),
  place INTEGER NOT NULL,           -- from 1 on
  memory_id TEXT NOT NULL REFERENCES memory (id),
  PRIMARY KEY (digest_id, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_digest_entries_by_entry ON memory_digest_entries (memory_id);
-- Addresses to which an owner may answer, as `approval_tokens` has them for questions.
CREATE TABLE memory_digest_tokens (
  token TEXT PRIMARY KEY,
  digest_id TEXT NOT NULL REFERENCES memory_digests (id),
  owner TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_digest_tokens_by_digest ON memory_digest_tokens (digest_id);
-- An answer to a digest: what became of the entries that were not changed as it says.
ALTER TABLE approval_answers ADD COLUMN digest_id TEXT REFERENCES memory_digests (id);
ALTER TABLE approval_answers ADD COLUMN report TEXT NOT NULL DEFAULT '';
CREATE INDEX approval_answers_by_digest ON approval_answers (digest_id) WHERE digest_id IS NOT NULL;

-- Digests tell what single notices told.
DELETE FROM notices WHERE kind = 'memory_proposed';
