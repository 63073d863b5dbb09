-- Runs that ended without an answer on purpose are counted, and an owner dismisses a notice (D-154, D-157).
CREATE INDEX runs_without_answer ON runs (finished_at) WHERE stop_reason = 'no_answer';
ALTER TABLE notices ADD COLUMN dismissed_at TEXT;
