-- Requests of the API that carry an `Idempotency-Key`, with their answers, for a day: sent again, they do nothing again.
CREATE TABLE api_calls (
  caller TEXT NOT NULL,             -- id of the key or session that sent it
  key TEXT NOT NULL,                -- the `Idempotency-Key`
  request_sha256 TEXT NOT NULL,     -- of method, path and body
  answer TEXT,                      -- NULL: at work, or the engine stopped before it could answer
  created_at TEXT NOT NULL,
  PRIMARY KEY (caller, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX api_calls_by_age ON api_calls (created_at);
