-- Use of entries: contexts and searches that were given one. An entry that nobody needed for long expires, unless it is pinned.
ALTER TABLE memory ADD COLUMN uses INTEGER NOT NULL DEFAULT 0;
ALTER TABLE memory ADD COLUMN last_used_at TEXT;
ALTER TABLE memory ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
CREATE INDEX memory_ending ON memory (valid_to) WHERE status IN ('proposed', 'active') AND valid_to IS NOT NULL;
CREATE INDEX memory_unused ON memory (coalesce(last_used_at, created_at)) WHERE status = 'active' AND pinned = 0;
