-- The tables of the road. Times are RFC 3339 UTC text with milliseconds; ids are UUIDv7 text.
-- `seq` is the order of arrival in this database. Migrations are never edited, only added.

CREATE TABLE engine (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  epoch INTEGER NOT NULL            -- grows with every start; rows of an older epoch are orphans
) STRICT;
INSERT INTO engine (id, epoch) VALUES (1, 0);

CREATE TABLE conversations (
  id TEXT PRIMARY KEY,
  persona_id TEXT NOT NULL,
  subject TEXT NOT NULL,
  root_message_id TEXT,             -- RFC Message-ID of the oldest known letter
  created_at TEXT NOT NULL
) STRICT;
CREATE INDEX conversations_by_persona ON conversations (persona_id, id);

CREATE TABLE threads (
  id TEXT PRIMARY KEY,
  conversation_id TEXT NOT NULL REFERENCES conversations (id),
  persona_id TEXT NOT NULL,
  subject TEXT NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL
) STRICT;
CREATE INDEX threads_by_conversation ON threads (conversation_id, updated_at);
CREATE INDEX threads_by_persona ON threads (persona_id, updated_at);

CREATE TABLE thread_participants (
  thread_id TEXT NOT NULL REFERENCES threads (id),
  address TEXT NOT NULL,            -- lower-case address, or `list:<List-Id>` for list mail
  PRIMARY KEY (thread_id, address)
) STRICT, WITHOUT ROWID;

CREATE TABLE raw_letters (
  id TEXT PRIMARY KEY,
  persona_id TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  envelope_json TEXT NOT NULL,
  bytes BLOB NOT NULL
) STRICT;

CREATE TABLE messages (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  thread_id TEXT NOT NULL REFERENCES threads (id),
  persona_id TEXT NOT NULL,
  direction TEXT NOT NULL CHECK (direction IN ('inbound', 'outbound', 'synthetic')),
  message_id TEXT NOT NULL,         -- RFC Message-ID without brackets; generated when the letter had none
  in_reply_to TEXT,
  references_json TEXT NOT NULL DEFAULT '[]',
  sender TEXT NOT NULL,             -- the From header as a person reads it
  recipients_json TEXT NOT NULL DEFAULT '{}', -- {"to": [..], "cc": [..], "reply_to": [..]}
  subject TEXT NOT NULL,
  text_body TEXT NOT NULL,          -- the whole readable body
  fresh_text TEXT,                  -- the body without quoted history; NULL when equal to text_body
  html_body TEXT,
  received_at TEXT NOT NULL,
  trust TEXT NOT NULL,
  raw_id TEXT REFERENCES raw_letters (id),
  run_id TEXT,                      -- the run that wrote an outbound message
  dedup_key TEXT,
  ack_confirmed INTEGER NOT NULL DEFAULT 1,
  disposition TEXT NOT NULL DEFAULT 'run',  -- run | filed:<rule> | withheld:<rule> | sent
  metadata_json TEXT NOT NULL DEFAULT '{}'
) STRICT;
CREATE INDEX messages_by_thread ON messages (thread_id, seq);
CREATE INDEX messages_by_dedup ON messages (persona_id, dedup_key) WHERE dedup_key IS NOT NULL;
CREATE INDEX messages_by_rfc_id ON messages (persona_id, message_id);
CREATE INDEX messages_by_run ON messages (run_id) WHERE run_id IS NOT NULL;

CREATE VIRTUAL TABLE messages_fts USING fts5(
  subject, sender, text_body,
  content = 'messages', content_rowid = 'seq', tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE TRIGGER messages_fts_insert AFTER INSERT ON messages BEGIN
  INSERT INTO messages_fts (rowid, subject, sender, text_body)
  VALUES (new.seq, new.subject, new.sender, new.text_body);
END;
CREATE TRIGGER messages_fts_delete AFTER DELETE ON messages BEGIN
  INSERT INTO messages_fts (messages_fts, rowid, subject, sender, text_body)
  VALUES ('delete', old.seq, old.subject, old.sender, old.text_body);
END;

CREATE TABLE attachments (
  id TEXT PRIMARY KEY,
  message_id TEXT NOT NULL REFERENCES messages (id),
  persona_id TEXT NOT NULL,
  filename TEXT NOT NULL,
  declared_name TEXT NOT NULL,
  content_type TEXT NOT NULL,
  size_bytes INTEGER NOT NULL,
  sha256 TEXT NOT NULL,
  content_id TEXT,
  bytes BLOB NOT NULL
) STRICT;
CREATE INDEX attachments_by_message ON attachments (message_id);

CREATE TABLE message_links (
  persona_id TEXT NOT NULL,
  rfc_message_id TEXT NOT NULL,
  conversation_id TEXT NOT NULL REFERENCES conversations (id),
  PRIMARY KEY (persona_id, rfc_message_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX message_links_by_conversation ON message_links (conversation_id);

CREATE TABLE runs (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  persona_id TEXT NOT NULL,
  thread_id TEXT NOT NULL REFERENCES threads (id),
  trigger TEXT NOT NULL,
  trigger_message_id TEXT NOT NULL REFERENCES messages (id),
  profile TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN
    ('queued', 'running', 'waiting_approval', 'waiting_retry', 'succeeded', 'failed', 'cancelled')),
  attempt INTEGER NOT NULL DEFAULT 0,
  next_attempt_at TEXT,
  epoch INTEGER NOT NULL DEFAULT 0,
  cancel_requested_at TEXT,
  provider TEXT,
  model TEXT,
  stop_reason TEXT,
  error_class TEXT,
  error_message TEXT,
  input_tokens INTEGER NOT NULL DEFAULT 0,
  cache_read_tokens INTEGER NOT NULL DEFAULT 0,
  cache_write_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  reasoning_tokens INTEGER NOT NULL DEFAULT 0,
  cost_micros INTEGER,              -- NULL is unknown, never zero
  context_report_json TEXT,
  created_at TEXT NOT NULL,
  started_at TEXT,
  finished_at TEXT
) STRICT;
CREATE INDEX runs_open ON runs (seq) WHERE state IN ('queued', 'running', 'waiting_approval', 'waiting_retry');
CREATE INDEX runs_open_by_thread ON runs (thread_id, seq)
  WHERE state IN ('queued', 'running', 'waiting_approval', 'waiting_retry');
CREATE INDEX runs_by_thread ON runs (thread_id, seq);
CREATE INDEX runs_running ON runs (persona_id) WHERE state = 'running';
CREATE INDEX runs_by_persona ON runs (persona_id, seq);
CREATE INDEX runs_by_trigger_message ON runs (trigger_message_id);

CREATE TABLE run_turns (
  run_id TEXT NOT NULL REFERENCES runs (id),
  turn_index INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  persona_id TEXT NOT NULL,
  request_json TEXT NOT NULL,       -- the exact body that was sent
  request_sha256 TEXT NOT NULL,
  context_json TEXT,                -- first turn: the normalised request, from which a resumed run goes on
  response_json TEXT,               -- the normalised response; NULL while open or after an error
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  input_tokens INTEGER NOT NULL DEFAULT 0,
  cache_read_tokens INTEGER NOT NULL DEFAULT 0,
  cache_write_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  reasoning_tokens INTEGER NOT NULL DEFAULT 0,
  cost_micros INTEGER,
  state TEXT NOT NULL CHECK (state IN ('started', 'answered', 'failed')),
  error_class TEXT,
  error_message TEXT,
  started_at TEXT NOT NULL,
  finished_at TEXT,
  PRIMARY KEY (run_id, turn_index, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE thread_tool_events (
  id TEXT PRIMARY KEY,
  thread_id TEXT NOT NULL REFERENCES threads (id),
  persona_id TEXT NOT NULL,
  parent_message_id TEXT NOT NULL,
  run_id TEXT NOT NULL REFERENCES runs (id),
  step_index INTEGER NOT NULL,
  event_type TEXT NOT NULL CHECK (event_type IN ('tool_call', 'tool_result')),
  tool_name TEXT NOT NULL,
  tool_call_id TEXT NOT NULL,
  payload_json TEXT NOT NULL,
  created_at TEXT NOT NULL,
  UNIQUE (run_id, step_index)
) STRICT;
CREATE INDEX thread_tool_events_by_message ON thread_tool_events (parent_message_id, run_id, step_index);

CREATE TABLE deliveries (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  persona_id TEXT NOT NULL,
  message_id TEXT NOT NULL REFERENCES messages (id),
  run_id TEXT,
  envelope_from TEXT NOT NULL,      -- empty is the null reverse-path
  bytes BLOB NOT NULL,              -- frozen: every attempt sends exactly these
  state TEXT NOT NULL CHECK (state IN ('queued', 'sending', 'committing', 'done', 'failed', 'held', 'cancelled')),
  epoch INTEGER NOT NULL DEFAULT 0,
  attempts INTEGER NOT NULL DEFAULT 0,
  next_attempt_at TEXT,
  possible_duplicate INTEGER NOT NULL DEFAULT 0,
  created_at TEXT NOT NULL,
  finished_at TEXT
) STRICT;
CREATE INDEX deliveries_open ON deliveries (next_attempt_at, seq)
  WHERE state IN ('queued', 'sending', 'committing');
CREATE INDEX deliveries_by_message ON deliveries (message_id);
CREATE INDEX deliveries_by_run ON deliveries (run_id) WHERE run_id IS NOT NULL;

CREATE TABLE delivery_recipients (
  delivery_id TEXT NOT NULL REFERENCES deliveries (id),
  recipient TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('queued', 'deferred', 'delivered', 'failed', 'cancelled')),
  attempts INTEGER NOT NULL DEFAULT 0,
  next_attempt_at TEXT,
  last_code INTEGER,
  last_reply TEXT,
  PRIMARY KEY (delivery_id, recipient)
) STRICT, WITHOUT ROWID;

CREATE TABLE responsibilities (
  id TEXT PRIMARY KEY,
  persona_id TEXT NOT NULL,
  file TEXT NOT NULL,               -- path below the persona's folder
  name TEXT NOT NULL,
  schedule TEXT NOT NULL,           -- five-field cron expression
  timezone TEXT NOT NULL,           -- IANA name
  enabled INTEGER NOT NULL,
  prompt TEXT NOT NULL,
  prompt_sha256 TEXT NOT NULL,
  revision INTEGER NOT NULL DEFAULT 1,
  cursor_at TEXT NOT NULL,          -- no slot at or before this instant fires again
  next_slot_at TEXT,                -- NULL when disabled or never due
  removed_at TEXT,
  error TEXT,                       -- why the file cannot be used now
  updated_at TEXT NOT NULL,
  UNIQUE (persona_id, file)
) STRICT;
CREATE INDEX responsibilities_due ON responsibilities (next_slot_at) WHERE enabled = 1 AND removed_at IS NULL;

CREATE TABLE responsibility_slots (
  responsibility_id TEXT NOT NULL REFERENCES responsibilities (id),
  slot_at TEXT NOT NULL,
  persona_id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('scheduled', 'manual')),
  state TEXT NOT NULL CHECK (state IN ('fired', 'skipped_overlap', 'missed', 'paused')),
  missed_count INTEGER NOT NULL DEFAULT 0,
  run_id TEXT,
  prompt_snapshot TEXT,
  prompt_sha256 TEXT,
  created_at TEXT NOT NULL,
  PRIMARY KEY (responsibility_id, slot_at, kind)
) STRICT, WITHOUT ROWID;

CREATE TABLE approvals (
  id TEXT PRIMARY KEY,
  persona_id TEXT NOT NULL,
  run_id TEXT NOT NULL REFERENCES runs (id),
  step_index INTEGER NOT NULL,
  payload_json TEXT NOT NULL,
  payload_sha256 TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('open', 'approved', 'denied', 'expired')),
  created_at TEXT NOT NULL,
  expires_at TEXT NOT NULL,
  decided_at TEXT
) STRICT;

CREATE TABLE thread_memory (
  thread_id TEXT PRIMARY KEY REFERENCES threads (id),
  persona_id TEXT NOT NULL,
  summary TEXT NOT NULL,
  through_seq INTEGER NOT NULL,
  updated_at TEXT NOT NULL
) STRICT;

CREATE TABLE knowledge_files (
  persona_id TEXT NOT NULL,
  path TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  modified_ms INTEGER NOT NULL,
  size_bytes INTEGER NOT NULL,
  PRIMARY KEY (persona_id, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE knowledge_chunks (
  seq INTEGER PRIMARY KEY,
  persona_id TEXT NOT NULL,
  path TEXT NOT NULL,
  chunk_index INTEGER NOT NULL,
  heading TEXT NOT NULL,
  body TEXT NOT NULL,
  UNIQUE (persona_id, path, chunk_index)
) STRICT;
CREATE VIRTUAL TABLE knowledge_fts USING fts5(
  heading, body, content = 'knowledge_chunks', content_rowid = 'seq',
  tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE TRIGGER knowledge_fts_insert AFTER INSERT ON knowledge_chunks BEGIN
  INSERT INTO knowledge_fts (rowid, heading, body) VALUES (new.seq, new.heading, new.body);
END;
CREATE TRIGGER knowledge_fts_delete AFTER DELETE ON knowledge_chunks BEGIN
  INSERT INTO knowledge_fts (knowledge_fts, rowid, heading, body)
  VALUES ('delete', old.seq, old.heading, old.body);
END;

CREATE TABLE usage_ledger (
  run_id TEXT NOT NULL REFERENCES runs (id),
  persona_id TEXT NOT NULL,
  turn_index INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  input_tokens INTEGER NOT NULL,
  cache_read_tokens INTEGER NOT NULL,
  cache_write_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  cost_micros INTEGER,
  cost_source TEXT NOT NULL,
  created_at TEXT NOT NULL,
  PRIMARY KEY (run_id, turn_index, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE audit_log (
  seq INTEGER PRIMARY KEY,
  persona_id TEXT,
  subject_kind TEXT NOT NULL,       -- message | run | delivery | recipient
  subject_id TEXT NOT NULL,
  decision TEXT NOT NULL,
  rule TEXT NOT NULL,
  detail TEXT NOT NULL DEFAULT '',
  created_at TEXT NOT NULL
) STRICT;
CREATE INDEX audit_log_by_subject ON audit_log (subject_id);
