-- How often in a row a run was in the engine's hands when the engine died, without having come any further.

ALTER TABLE runs ADD COLUMN crashes INTEGER NOT NULL DEFAULT 0;
-- How far it had come then: answered turns, and steps of our own loop.
ALTER TABLE runs ADD COLUMN crashed_at INTEGER NOT NULL DEFAULT 0;
-- It was the only one in the engine's hands when it was last claimed.
ALTER TABLE runs ADD COLUMN alone INTEGER NOT NULL DEFAULT 0;
CREATE INDEX runs_suspect ON runs (seq) WHERE crashes >= 2 AND state IN ('queued', 'running');
