-- What decided beside the rows, so that a run can be re-executed: as the harness wrote it, NULL in rows of before.
ALTER TABLE run_turns ADD COLUMN begun_json TEXT;  -- of the call's beginning: which attempt, at what working time, after what
ALTER TABLE run_turns ADD COLUMN ended_json TEXT;  -- of its end: at what working time, with what error
