-- The form that a responsibility's answers must have, as JSON Schema; a slot keeps the one that its run is held to.
ALTER TABLE responsibilities ADD COLUMN output_schema TEXT;
ALTER TABLE responsibility_slots ADD COLUMN output_schema TEXT;

-- The answers that fit their schema, as canonical JSON.
CREATE TABLE run_outputs (
  run_id TEXT PRIMARY KEY REFERENCES runs (id),
  persona_id TEXT NOT NULL,
  schema_sha256 TEXT NOT NULL,
  json TEXT NOT NULL,
  repairs INTEGER NOT NULL,         -- times that the model was asked again
  created_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- How each provider fared, one row each, so that looking costs the same however many calls there were. A call that
-- was cancelled says nothing about its provider.
CREATE TABLE provider_calls (
  provider TEXT PRIMARY KEY,
  calls INTEGER NOT NULL DEFAULT 0,
  failures INTEGER NOT NULL DEFAULT 0,
  last_success_at TEXT,
  last_model TEXT,                  -- of the last success, as is its time
  last_latency_ms INTEGER,
  last_failure_at TEXT,
  last_failure_class TEXT,
  last_failure_message TEXT
) STRICT, WITHOUT ROWID;

INSERT INTO provider_calls (provider, calls, failures, last_success_at, last_failure_at)
  SELECT provider, count(*), sum(state = 'failed' AND error_class <> 'cancelled'),
    max(CASE WHEN state = 'answered' THEN finished_at END),
    max(CASE WHEN state = 'failed' AND error_class <> 'cancelled' THEN finished_at END)
  FROM run_turns WHERE state <> 'started' GROUP BY provider;
UPDATE provider_calls SET
  (last_model, last_latency_ms) = (SELECT t.model,
      CAST(round((julianday(t.finished_at) - julianday(t.started_at)) * 86400000) AS INTEGER)
    FROM run_turns t WHERE t.provider = provider_calls.provider AND t.state = 'answered'
      AND t.finished_at = last_success_at LIMIT 1),
  (last_failure_class, last_failure_message) = (SELECT t.error_class, t.error_message
    FROM run_turns t WHERE t.provider = provider_calls.provider AND t.state = 'failed'
      AND t.error_class <> 'cancelled' AND t.finished_at = last_failure_at LIMIT 1);

CREATE TRIGGER provider_answers AFTER UPDATE OF state ON run_turns
  WHEN new.state = 'answered' AND old.state <> 'answered'
BEGIN
  INSERT INTO provider_calls (provider, calls, last_success_at, last_model, last_latency_ms)
  VALUES (new.provider, 1, new.finished_at, new.model,
    CAST(round((julianday(new.finished_at) - julianday(new.started_at)) * 86400000) AS INTEGER))
  ON CONFLICT (provider) DO UPDATE SET calls = calls + 1, last_success_at = excluded.last_success_at,
    last_model = excluded.last_model, last_latency_ms = excluded.last_latency_ms;
END;

CREATE TRIGGER provider_fails AFTER UPDATE OF state ON run_turns
  WHEN new.state = 'failed' AND old.state <> 'failed' AND new.error_class <> 'cancelled'
BEGIN
  INSERT INTO provider_calls (provider, calls, failures, last_failure_at, last_failure_class, last_failure_message)
  VALUES (new.provider, 1, 1, new.finished_at, new.error_class, new.error_message)
  ON CONFLICT (provider) DO UPDATE SET calls = calls + 1, failures = failures + 1,
    last_failure_at = excluded.last_failure_at, last_failure_class = excluded.last_failure_class,
    last_failure_message = excluded.last_failure_message;
END;
