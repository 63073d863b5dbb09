-- What was spent, call by call and model by model, and what may be: purses are sums, so that asking whether there is
-- money left does not cost what was spent.

CREATE TABLE usage_ledger_0015 (
  run_id TEXT NOT NULL REFERENCES runs (id),
  turn_index INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  model TEXT NOT NULL,              -- as it served; the one that was asked for when the call was lost
  persona_id TEXT NOT NULL,
  provider TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('answered', 'lost')), -- lost: it failed or never came back, and may be billed
  input_tokens INTEGER NOT NULL,
  cache_read_tokens INTEGER NOT NULL,
  cache_write_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  reasoning_tokens INTEGER NOT NULL, -- part of output_tokens
  estimated INTEGER NOT NULL,       -- the tokens are ours, the provider said none
  cost_micros INTEGER,              -- NULL is unknown, never zero
  cost_source TEXT NOT NULL,        -- provider | price_table | unknown
  price_version TEXT,
  held_micros INTEGER,              -- where the cost is unknown: what the purses keep as spent for it
  day TEXT NOT NULL,                -- in the zone of the budgets
  created_at TEXT NOT NULL,
  PRIMARY KEY (run_id, turn_index, attempt, model)
) STRICT, WITHOUT ROWID;
INSERT INTO usage_ledger_0015 (run_id, turn_index, attempt, model, persona_id, provider, state, input_tokens,
  cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens, estimated, cost_micros, cost_source, day,
  created_at)
SELECT l.run_id, l.turn_index, l.attempt, l.model, l.persona_id, l.provider, 'answered', l.input_tokens,
  l.cache_read_tokens, l.cache_write_tokens, l.output_tokens, t.reasoning_tokens, 0, l.cost_micros, l.cost_source,
  substr(l.created_at, 1, 10), l.created_at
FROM usage_ledger l JOIN run_turns t ON t.run_id = l.run_id AND t.turn_index = l.turn_index AND t.attempt = l.attempt;
DROP TABLE usage_ledger;
ALTER TABLE usage_ledger_0015 RENAME TO usage_ledger;

CREATE TABLE purses (
  scope TEXT NOT NULL CHECK (scope IN ('engine', 'persona', 'thread', 'run')),
  owner TEXT NOT NULL,              -- persona, thread or run; empty for the engine
  period TEXT NOT NULL,             -- 2026-11-20, 2026-11, or empty for a run
  spent_micros INTEGER NOT NULL DEFAULT 0,
  reserved_micros INTEGER NOT NULL DEFAULT 0,
  spent_tokens INTEGER NOT NULL DEFAULT 0,
  reserved_tokens INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (scope, owner, period)
) STRICT, WITHOUT ROWID;
-- What was spent before there were purses.
INSERT INTO purses (scope, owner, period, spent_micros, spent_tokens)
SELECT w.scope, w.owner, w.period, sum(w.micros), sum(w.tokens) FROM (
  SELECT 'engine' AS scope, '' AS owner, day AS period, coalesce(cost_micros, 0) AS micros,
    input_tokens + cache_read_tokens + cache_write_tokens + output_tokens AS tokens FROM usage_ledger
  UNION ALL SELECT 'engine', '', substr(day, 1, 7), coalesce(cost_micros, 0),
    input_tokens + cache_read_tokens + cache_write_tokens + output_tokens FROM usage_ledger
  UNION ALL SELECT 'persona', persona_id, day, coalesce(cost_micros, 0),
    input_tokens + cache_read_tokens + cache_write_tokens + output_tokens FROM usage_ledger
  UNION ALL SELECT 'persona', persona_id, substr(day, 1, 7), coalesce(cost_micros, 0),
    input_tokens + cache_read_tokens + cache_write_tokens + output_tokens FROM usage_ledger
  UNION ALL SELECT 'thread', r.thread_id, l.day, coalesce(l.cost_micros, 0),
    l.input_tokens + l.cache_read_tokens + l.cache_write_tokens + l.output_tokens
    FROM usage_ledger l JOIN runs r ON r.id = l.run_id
  UNION ALL SELECT 'run', l.run_id, '', coalesce(l.cost_micros, 0),
    l.input_tokens + l.cache_read_tokens + l.cache_write_tokens + l.output_tokens
    FROM usage_ledger l JOIN runs r ON r.id = l.run_id WHERE r.state NOT IN ('succeeded', 'failed', 'cancelled')) w
GROUP BY w.scope, w.owner, w.period;

-- What calls in flight may cost at most; a row lives as long as its call.
CREATE TABLE purse_reservations (
  run_id TEXT NOT NULL REFERENCES runs (id),
  turn_index INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  purses_json TEXT NOT NULL,        -- the purses that it was taken from
  day TEXT NOT NULL,
  micros INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  PRIMARY KEY (run_id, turn_index, attempt)
) STRICT, WITHOUT ROWID;

-- What an operator allows one thread; NULL says nothing.
CREATE TABLE thread_budgets (
  thread_id TEXT PRIMARY KEY REFERENCES threads (id),
  run_micros_max INTEGER,
  run_tokens_max INTEGER,
  day_micros_max INTEGER,
  day_tokens_max INTEGER
) STRICT, WITHOUT ROWID;

-- What a responsibility allows each of its runs.
ALTER TABLE responsibilities ADD COLUMN budget_micros INTEGER;
ALTER TABLE runs ADD COLUMN budget_micros INTEGER;
-- The bounds that a run began with, and where each was said.
ALTER TABLE runs ADD COLUMN limits_json TEXT;
