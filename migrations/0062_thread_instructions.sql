-- Instructions of an owner for one conversation (thread_id) or one correspondent (contact).
CREATE TABLE thread_instructions (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  persona_id TEXT NOT NULL,
  thread_id TEXT REFERENCES threads (id),
  contact TEXT,
  text TEXT NOT NULL,
  given_by TEXT NOT NULL,
  given_at TEXT NOT NULL,
  removed_at TEXT,
  removed_by TEXT,
  CHECK ((thread_id IS NULL) <> (contact IS NULL))
) STRICT;
CREATE INDEX thread_instructions_by_scope ON thread_instructions (persona_id, thread_id, contact);
CREATE INDEX thread_instructions_by_thread ON thread_instructions (thread_id);
