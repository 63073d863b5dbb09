-- Memory: entries with the letter that each rests on. A text stands in its row until it is erased; its digest stays.
CREATE TABLE memory (
  id TEXT PRIMARY KEY,
  persona_id TEXT NOT NULL,
  scope TEXT NOT NULL CHECK (scope IN ('contact', 'thread', 'persona')),
  scope_key TEXT NOT NULL,          -- key of the proved address, id of the thread, or ''
  number INTEGER NOT NULL,          -- within its scope, so that it says nothing of others
  kind TEXT NOT NULL CHECK (kind IN ('fact', 'preference', 'commitment', 'event', 'procedure')),
  text TEXT NOT NULL,               -- '' once it is erased
  text_sha256 TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('proposed', 'active', 'rejected', 'superseded', 'expired', 'forgotten')),
  trust TEXT NOT NULL,              -- lowest trust of what its run had read
  readers_json TEXT NOT NULL,       -- who may read all that its run had read
  audience_json TEXT NOT NULL,      -- who read along, besides the owners; `null`: everybody may
  said_by TEXT NOT NULL,            -- who wrote its source
  said_at TEXT NOT NULL,            -- when that arrived
  valid_to TEXT,
  created_at TEXT NOT NULL,
  created_run TEXT,
  created_by TEXT NOT NULL CHECK (created_by IN ('model', 'owner')),
  confirmed_at TEXT NOT NULL,
  confirmations INTEGER NOT NULL DEFAULT 0,
  supersedes TEXT,
  superseded_by TEXT,
  erased_at TEXT,
  UNIQUE (persona_id, scope, scope_key, number)
) STRICT;
CREATE INDEX memory_open ON memory (persona_id, scope, scope_key) WHERE status IN ('proposed', 'active');
CREATE INDEX memory_rejected ON memory (persona_id, scope, scope_key, text_sha256) WHERE status = 'rejected';
CREATE INDEX memory_by_run ON memory (created_run) WHERE created_run IS NOT NULL;
CREATE INDEX memory_proposed ON memory (persona_id, created_at) WHERE status = 'proposed';

-- What an entry rests on: a quote in the new text of a letter. Places are characters.
CREATE TABLE memory_sources (
  memory_id TEXT NOT NULL REFERENCES memory (id),
  message_id TEXT NOT NULL REFERENCES messages (id),
  part TEXT NOT NULL CHECK (part IN ('fresh', 'body')), -- `messages.fresh_text` or `messages.text_body`
  quote_start INTEGER NOT NULL,
  quote_end INTEGER NOT NULL,
  quote TEXT NOT NULL,              -- '' once the entry is erased
  quote_sha256 TEXT NOT NULL,
  PRIMARY KEY (memory_id, message_id, quote_start)
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_sources_by_message ON memory_sources (message_id);

-- Every change of an entry, in order. Only a reason can be emptied, when its entry is erased.
CREATE TABLE memory_events (
  seq INTEGER PRIMARY KEY,
  memory_id TEXT NOT NULL REFERENCES memory (id),
  act TEXT NOT NULL,
  actor TEXT NOT NULL CHECK (actor IN ('model', 'owner', 'engine')),
  who TEXT NOT NULL,                -- run or user
  why TEXT NOT NULL,
  before_json TEXT,                 -- what a restore brings back
  at TEXT NOT NULL
) STRICT;
CREATE INDEX memory_events_by_entry ON memory_events (memory_id, seq);
CREATE TRIGGER memory_events_change BEFORE UPDATE ON memory_events
WHEN new.why <> '' OR new.seq <> old.seq OR new.memory_id <> old.memory_id OR new.act <> old.act OR new.actor <> old.actor
  OR new.who <> old.who OR new.before_json IS NOT old.before_json OR new.at <> old.at BEGIN
  SELECT RAISE(ABORT, 'events of memory are not changed');
END;
CREATE TRIGGER memory_events_delete BEFORE DELETE ON memory_events BEGIN
  SELECT RAISE(ABORT, 'events of memory are not deleted');
END;
