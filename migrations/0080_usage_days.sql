-- Sums of both ledgers by day, persona, model and source of the price, so that what a month cost is read from some hundred
-- rows and not from a million. Triggers keep them, in the transaction of the call.
CREATE TABLE usage_days (
  day TEXT NOT NULL,                -- in the zone of the budgets
  persona_id TEXT NOT NULL,
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  source TEXT NOT NULL,             -- of the price: provider | price_table VERSION | unknown
  calls INTEGER NOT NULL,           -- a call that several models served counts with one of them
  lines INTEGER NOT NULL,           -- and here with each
  input_tokens INTEGER NOT NULL,
  cache_read_tokens INTEGER NOT NULL,
  cache_write_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  reasoning_tokens INTEGER NOT NULL, -- part of output_tokens
  cost_micros INTEGER,              -- NULL: no cost is known
  unknown_cost INTEGER NOT NULL,    -- answers whose cost is unknown
  lost INTEGER NOT NULL,
  held_micros INTEGER NOT NULL,
  estimated INTEGER NOT NULL,
  PRIMARY KEY (day, persona_id, provider, model, source)
) STRICT, WITHOUT ROWID;

INSERT INTO usage_days (day, persona_id, provider, model, source, calls, lines, input_tokens, cache_read_tokens,
  cache_write_tokens, output_tokens, reasoning_tokens, cost_micros, unknown_cost, lost, held_micros, estimated)
SELECT l.day, l.persona_id, l.provider, l.model, l.source, sum(l.is_first), count(*), sum(l.input_tokens),
  sum(l.cache_read_tokens), sum(l.cache_write_tokens), sum(l.output_tokens), sum(l.reasoning_tokens), sum(l.cost_micros),
  sum(l.cost_micros IS NULL AND l.state = 'answered'), sum(l.state = 'lost'), sum(coalesce(l.held_micros, 0)),
  sum(l.estimated)
FROM (
  SELECT u.day, u.persona_id, u.provider, u.model,
    u.cost_source || CASE WHEN u.price_version IS NULL THEN '' ELSE ' ' || u.price_version END AS source,
    u.model = (SELECT min(o.model) FROM usage_ledger o
      WHERE o.run_id = u.run_id AND o.turn_index = u.turn_index AND o.attempt = u.attempt) AS is_first,
    u.input_tokens, u.cache_read_tokens, u.cache_write_tokens, u.output_tokens, u.reasoning_tokens, u.cost_micros, u.state,
    u.held_micros, u.estimated
  FROM usage_ledger u
  UNION ALL
  SELECT e.day, e.persona_id, e.provider, e.model,
    e.cost_source || CASE WHEN e.price_version IS NULL THEN '' ELSE ' ' || e.price_version END, 1,
    e.tokens, 0, 0, 0, 0, e.cost_micros, e.state, e.held_micros, e.estimated
  FROM embedding_calls e WHERE e.state <> 'open') l
GROUP BY l.day, l.persona_id, l.provider, l.model, l.source;

CREATE TRIGGER usage_days_of_call AFTER INSERT ON usage_ledger BEGIN
  INSERT INTO usage_days (day, persona_id, provider, model, source, calls, lines, input_tokens, cache_read_tokens,
    cache_write_tokens, output_tokens, reasoning_tokens, cost_micros, unknown_cost, lost, held_micros, estimated)
  VALUES (NEW.day, NEW.persona_id, NEW.provider, NEW.model,
    NEW.cost_source || CASE WHEN NEW.price_version IS NULL THEN '' ELSE ' ' || NEW.price_version END,
    NOT EXISTS (SELECT 1 FROM usage_ledger o WHERE o.run_id = NEW.run_id AND o.turn_index = NEW.turn_index
      AND o.attempt = NEW.attempt AND o.model <> NEW.model),
    1, NEW.input_tokens, NEW.cache_read_tokens, NEW.cache_write_tokens, NEW.output_tokens, NEW.reasoning_tokens,
    NEW.cost_micros, NEW.cost_micros IS NULL AND NEW.state = 'answered', NEW.state = 'lost', coalesce(NEW.held_micros, 0),
    NEW.estimated)
  ON CONFLICT (day, persona_id, provider, model, source) DO UPDATE SET calls = usage_days.calls + excluded.calls,
    lines = usage_days.lines + 1, input_tokens = usage_days.input_tokens + excluded.input_tokens,
    cache_read_tokens = usage_days.cache_read_tokens + excluded.cache_read_tokens,
    cache_write_tokens = usage_days.cache_write_tokens + excluded.cache_write_tokens,
    output_tokens = usage_days.output_tokens + excluded.output_tokens,
    reasoning_tokens = usage_days.reasoning_tokens + excluded.reasoning_tokens,
    cost_micros = coalesce(usage_days.cost_micros + excluded.cost_micros, excluded.cost_micros, usage_days.cost_micros),
    unknown_cost = usage_days.unknown_cost + excluded.unknown_cost, lost = usage_days.lost + excluded.lost,
    held_micros = usage_days.held_micros + excluded.held_micros, estimated = usage_days.estimated + excluded.estimated;
END;

-- A call for vectors is settled once: while it is open, its tokens are what it may use at most.
CREATE TRIGGER usage_days_of_vectors AFTER UPDATE OF state ON embedding_calls
WHEN OLD.state = 'open' AND NEW.state <> 'open' BEGIN
  INSERT INTO usage_days (day, persona_id, provider, model, source, calls, lines, input_tokens, cache_read_tokens,
    cache_write_tokens, output_tokens, reasoning_tokens, cost_micros, unknown_cost, lost, held_micros, estimated)
  VALUES (NEW.day, NEW.persona_id, NEW.provider, NEW.model,
    NEW.cost_source || CASE WHEN NEW.price_version IS NULL THEN '' ELSE ' ' || NEW.price_version END,
    1, 1, NEW.tokens, 0, 0, 0, 0, NEW.cost_micros, NEW.cost_micros IS NULL AND NEW.state = 'answered', NEW.state = 'lost',
    coalesce(NEW.held_micros, 0), NEW.estimated)
  ON CONFLICT (day, persona_id, provider, model, source) DO UPDATE SET calls = usage_days.calls + 1,
    lines = usage_days.lines + 1, input_tokens = usage_days.input_tokens + excluded.input_tokens,
    cost_micros = coalesce(usage_days.cost_micros + excluded.cost_micros, excluded.cost_micros, usage_days.cost_micros),
    unknown_cost = usage_days.unknown_cost + excluded.unknown_cost, lost = usage_days.lost + excluded.lost,
    held_micros = usage_days.held_micros + excluded.held_micros, estimated = usage_days.estimated + excluded.estimated;
END;
