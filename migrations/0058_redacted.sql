-- When an owner erased a text that the turn held; what is left of it is its digests.
ALTER TABLE run_turns ADD COLUMN redacted_at TEXT;
CREATE INDEX memory_by_superseded ON memory (supersedes) WHERE supersedes IS NOT NULL;
