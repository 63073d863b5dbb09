-- Questions to the owner: a call or an answer that waits until somebody has decided on exactly these bytes. The table of
-- 0001 was never used.
DROP TABLE approvals;
CREATE TABLE approvals (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  persona_id TEXT NOT NULL,
  run_id TEXT NOT NULL REFERENCES runs (id),
  call_id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('call', 'reply', 'question', 'plan')),
  tool TEXT NOT NULL,
  call_json TEXT NOT NULL,          -- the canonical form of what is asked for, whose digest is call_sha256
  call_sha256 TEXT NOT NULL,
  fold_sha256 TEXT NOT NULL,        -- the same without the run and the call, by which a repeated question is known
  view_text TEXT NOT NULL,          -- what the owner reads
  reason_json TEXT NOT NULL,        -- the rule or the row of the table, its code, its sentence
  label_json TEXT NOT NULL,         -- what the run had read
  result_json TEXT,                 -- the result of a call whose effect commits with the decision
  mail_json TEXT,                   -- the frozen mail without its bytes
  mail_bytes BLOB,
  parks INTEGER NOT NULL,           -- 1: the run waits for the decision
  requested_at TEXT NOT NULL,
  expires_at TEXT NOT NULL,
  asked_at TEXT,                    -- when the mail to the owners was queued
  remind_at TEXT NOT NULL,
  reminded_at TEXT,
  state TEXT NOT NULL CHECK (state IN ('open', 'approved', 'rejected', 'edited', 'answered', 'expired', 'superseded', 'cancelled')),
  decided_at TEXT,
  decided_by TEXT,
  via TEXT,
  words TEXT,                       -- the owner's own words: a reason, an instruction, an answer
  evidence_json TEXT,
  begun_json TEXT,                  -- an approved call that has begun: its expected effects
  begun_at TEXT
) STRICT;
CREATE INDEX approvals_by_run ON approvals (run_id, seq);
CREATE INDEX approvals_open ON approvals (expires_at) WHERE state = 'open';
CREATE INDEX approvals_open_by_persona ON approvals (persona_id) WHERE state = 'open';
CREATE INDEX approvals_unasked ON approvals (seq) WHERE state = 'open' AND asked_at IS NULL;
CREATE INDEX approvals_to_remind ON approvals (remind_at) WHERE state = 'open' AND reminded_at IS NULL;

-- Addresses to which an owner may answer: one for each owner and question.
CREATE TABLE approval_tokens (
  token TEXT PRIMARY KEY,
  approval_id TEXT NOT NULL REFERENCES approvals (id),
  owner TEXT NOT NULL,
  created_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX approval_tokens_by_approval ON approval_tokens (approval_id);

-- Letters that came to such an address, and what they decided.
CREATE TABLE approval_answers (
  message_id TEXT PRIMARY KEY REFERENCES messages (id),
  approval_id TEXT REFERENCES approvals (id),
  owner TEXT,                       -- the owner who is known to have written it
  outcome TEXT NOT NULL,
  created_at TEXT NOT NULL,
  explain INTEGER NOT NULL,         -- 1: the owner is to be told what came of it
  explained_at TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX approval_answers_to_explain ON approval_answers (created_at) WHERE explain = 1 AND explained_at IS NULL;
CREATE INDEX approval_answers_by_approval ON approval_answers (approval_id);

-- Calls that rules with `uses_max` have decided.
CREATE TABLE policy_uses (
  rule_id TEXT PRIMARY KEY,
  uses INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
