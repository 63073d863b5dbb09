-- Commands that owners gave by mail: stored with their letters, carried out once, answered once.
CREATE TABLE mail_commands (
  seq INTEGER PRIMARY KEY,
  message_id TEXT NOT NULL UNIQUE REFERENCES messages (id),
  persona_id TEXT NOT NULL,
  rfc_message_id TEXT NOT NULL,     -- a letter that comes again has the same
  owner TEXT NOT NULL,              -- the address of the owner who sent it
  command TEXT NOT NULL,
  argument TEXT NOT NULL,
  refusal TEXT,                     -- why it does nothing
  sent_at TEXT NOT NULL,            -- by its signature
  received_at TEXT NOT NULL,
  acted_at TEXT,
  outcome_json TEXT,
  answered_at TEXT,                 -- without a delivery: no answer may or can be sent
  delivery_id TEXT
) STRICT;
CREATE UNIQUE INDEX mail_commands_once ON mail_commands (persona_id, rfc_message_id);
CREATE INDEX mail_commands_open ON mail_commands (answered_at) WHERE answered_at IS NULL;
CREATE INDEX mail_commands_answered ON mail_commands (persona_id, answered_at) WHERE delivery_id IS NOT NULL;
CREATE INDEX mail_commands_halts ON mail_commands (persona_id, sent_at) WHERE command IN ('pause', 'resume') AND acted_at IS NOT NULL;

-- Where the history of a thread begins for later runs: after this message.
CREATE TABLE thread_resets (
  thread_id TEXT NOT NULL REFERENCES threads (id),
  after_seq INTEGER NOT NULL,
  reset_at TEXT NOT NULL,
  PRIMARY KEY (thread_id, after_seq)
) STRICT, WITHOUT ROWID;

-- One note to the sender of a letter: that it could not be answered, or that it takes long.
CREATE TABLE sender_notes (
  run_id TEXT PRIMARY KEY REFERENCES runs (id),
  kind TEXT NOT NULL CHECK (kind IN ('failed', 'slow')),
  created_at TEXT NOT NULL,
  withheld TEXT,                    -- the rule that withheld it
  delivery_id TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_failed ON runs (finished_at) WHERE state = 'failed' AND trigger = 'email';

-- A mail of the engine in a thread with others may be for some of them only.
DROP VIEW readable;
CREATE VIEW readable (seq, address) AS
  SELECT m.seq, p.address FROM messages m JOIN thread_participants p ON p.thread_id = m.thread_id
  WHERE m.seq > coalesce(p.joined_after, -9223372036854775808) AND CASE
    WHEN m.direction <> 'outbound' OR m.run_id IS NULL THEN m.readers_json IS NULL OR EXISTS (SELECT 1 FROM json_each(m.readers_json) reader
      WHERE reader.value IN (p.address, 'unverified:' || p.address))
    ELSE EXISTS (SELECT 1 FROM json_each(m.recipients_json, '$.to') named WHERE lower(named.value) = p.address)
      OR EXISTS (SELECT 1 FROM json_each(m.recipients_json, '$.cc') named WHERE lower(named.value) = p.address)
      OR EXISTS (SELECT 1 FROM runs r JOIN messages t ON t.id = r.trigger_message_id
        WHERE r.id = m.run_id AND t.thread_id = m.thread_id AND t.seq > coalesce(p.joined_after, -9223372036854775808)
          AND (t.readers_json IS NULL OR EXISTS (SELECT 1 FROM json_each(t.readers_json) reader
            WHERE reader.value IN (p.address, 'unverified:' || p.address))))
    END;
