-- The account of the engine is one row here; on PostgreSQL it is divided among the last digits of the ids of runs, so that
-- nodes do not wait for each other's commits. A part may spend what was granted to it, as long as the bound is that one.
ALTER TABLE budget_accounts ADD COLUMN granted_micros INTEGER;
ALTER TABLE budget_accounts ADD COLUMN granted_tokens INTEGER;
ALTER TABLE budget_accounts ADD COLUMN grant_bound_micros INTEGER; -- of the whole account, when the grant was made
ALTER TABLE budget_accounts ADD COLUMN grant_bound_tokens INTEGER;

-- So are the counts of a provider. Here there is one row for each, of the part without a name.
DROP TRIGGER provider_answers;
DROP TRIGGER provider_fails;
ALTER TABLE provider_calls RENAME TO provider_calls_before;
CREATE TABLE provider_calls (
  provider TEXT NOT NULL,
  part TEXT NOT NULL DEFAULT '',
  calls INTEGER NOT NULL DEFAULT 0,
  failures INTEGER NOT NULL DEFAULT 0,
  last_success_at TEXT,
  last_model TEXT,                  -- of the last success, as is its time
  last_latency_ms INTEGER,
  last_failure_at TEXT,
  last_failure_class TEXT,
  last_failure_message TEXT,
  PRIMARY KEY (provider, part)
) STRICT, WITHOUT ROWID;
INSERT INTO provider_calls (provider, calls, failures, last_success_at, last_model, last_latency_ms, last_failure_at,
    last_failure_class, last_failure_message)
  SELECT provider, calls, failures, last_success_at, last_model, last_latency_ms, last_failure_at, last_failure_class,
    last_failure_message FROM provider_calls_before;
DROP TABLE provider_calls_before;

CREATE TRIGGER provider_answers AFTER UPDATE OF state ON run_turns
  WHEN new.state = 'answered' AND old.state <> 'answered'
BEGIN
  INSERT INTO provider_calls (provider, calls, last_success_at, last_model, last_latency_ms)
  VALUES (new.provider, 1, new.finished_at, new.model,
    CAST(round((julianday(new.finished_at) - julianday(new.started_at)) * 86400000) AS INTEGER))
  ON CONFLICT (provider, part) DO UPDATE SET calls = calls + 1, last_success_at = excluded.last_success_at,
    last_model = excluded.last_model, last_latency_ms = excluded.last_latency_ms;
END;

CREATE TRIGGER provider_fails AFTER UPDATE OF state ON run_turns
  WHEN new.state = 'failed' AND old.state <> 'failed' AND new.error_class <> 'cancelled'
BEGIN
  INSERT INTO provider_calls (provider, calls, failures, last_failure_at, last_failure_class, last_failure_message)
  VALUES (new.provider, 1, 1, new.finished_at, new.error_class, new.error_message)
  ON CONFLICT (provider, part) DO UPDATE SET calls = calls + 1, failures = failures + 1,
    last_failure_at = excluded.last_failure_at, last_failure_class = excluded.last_failure_class,
    last_failure_message = excluded.last_failure_message;
END;
