-- What was thrown away on purpose: the row stays, its bytes are empty, and this says since when. Whoever finds bytes
-- that do not fit their hash can tell age from damage.
ALTER TABLE raw_letters ADD COLUMN pruned_at TEXT;
ALTER TABLE attachments ADD COLUMN pruned_at TEXT;
ALTER TABLE deliveries ADD COLUMN pruned_at TEXT;
ALTER TABLE run_turns ADD COLUMN pruned_at TEXT;

-- When the installation was last looked after, one row for each kind of care.
CREATE TABLE upkeep (
  kind TEXT PRIMARY KEY CHECK (kind IN ('backup', 'gc')),
  at TEXT NOT NULL,
  detail TEXT NOT NULL
) STRICT, WITHOUT ROWID;
