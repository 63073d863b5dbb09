-- The account of the engine is divided among the last digits of the ids of runs, so that nodes do not wait for each other's
-- commits. A part may spend what was granted to it, as long as the bound is that one.
ALTER TABLE budget_accounts ADD COLUMN granted_micros BIGINT;
ALTER TABLE budget_accounts ADD COLUMN granted_tokens BIGINT;
ALTER TABLE budget_accounts ADD COLUMN grant_bound_micros BIGINT; -- of the whole account, when the grant was made
ALTER TABLE budget_accounts ADD COLUMN grant_bound_tokens BIGINT;

-- So are the counts of a provider.
CREATE TABLE provider_calls_by_part (
  provider TEXT NOT NULL,
  part TEXT NOT NULL DEFAULT '',
  calls BIGINT NOT NULL DEFAULT 0,
  failures BIGINT NOT NULL DEFAULT 0,
  last_success_at TEXT,
  last_model TEXT,                  -- of the last success, as is its time
  last_latency_ms BIGINT,
  last_failure_at TEXT,
  last_failure_class TEXT,
  last_failure_message TEXT,
  PRIMARY KEY (provider, part)
);
INSERT INTO provider_calls_by_part (provider, calls, failures, last_success_at, last_model, last_latency_ms, last_failure_at,
    last_failure_class, last_failure_message)
  SELECT provider, calls, failures, last_success_at, last_model, last_latency_ms, last_failure_at, last_failure_class,
    last_failure_message FROM provider_calls;
DROP TABLE provider_calls;
ALTER TABLE provider_calls_by_part RENAME TO provider_calls;
ALTER INDEX provider_calls_by_part_pkey RENAME TO provider_calls_pkey;

CREATE OR REPLACE FUNCTION provider_answers() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO provider_calls AS p (provider, part, calls, last_success_at, last_model, last_latency_ms)
  VALUES (new.provider, right(new.run_id, 1), 1, new.finished_at, new.model, unix_ms(new.finished_at) - unix_ms(new.started_at))
  ON CONFLICT (provider, part) DO UPDATE SET calls = p.calls + 1, last_success_at = excluded.last_success_at,
    last_model = excluded.last_model, last_latency_ms = excluded.last_latency_ms;
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION provider_fails() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO provider_calls AS p (provider, part, calls, failures, last_failure_at, last_failure_class, last_failure_message)
  VALUES (new.provider, right(new.run_id, 1), 1, 1, new.finished_at, new.error_class, new.error_message)
  ON CONFLICT (provider, part) DO UPDATE SET calls = p.calls + 1, failures = p.failures + 1,
    last_failure_at = excluded.last_failure_at, last_failure_class = excluded.last_failure_class,
    last_failure_message = excluded.last_failure_message;
  RETURN NULL;
END $$;
