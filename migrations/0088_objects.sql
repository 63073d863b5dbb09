-- Bytes in an object store (D-132): a row that names an object has no bytes of its own. Without an object store no row does.
ALTER TABLE raw_letters ADD COLUMN object TEXT;          -- below the prefix of the object store
ALTER TABLE raw_letters ADD COLUMN object_bytes INTEGER; -- size of the object
ALTER TABLE attachments ADD COLUMN object TEXT;          -- its size is `size_bytes`
ALTER TABLE run_turns ADD COLUMN packed_object TEXT;     -- of what `packed` would be
ALTER TABLE run_turns ADD COLUMN object_bytes INTEGER;   -- size of that object
CREATE UNIQUE INDEX raw_letters_object ON raw_letters (object) WHERE object IS NOT NULL;
CREATE UNIQUE INDEX attachments_object ON attachments (object) WHERE object IS NOT NULL;
CREATE UNIQUE INDEX run_turns_object ON run_turns (packed_object) WHERE packed_object IS NOT NULL;

-- Objects that no row names any more, until they are deleted.
CREATE TABLE dropped_objects (
  name TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
-- In the transaction that prunes or erases, whichever it is, so that a crash before the deletion forgets none.
CREATE TRIGGER raw_letters_object_dropped AFTER UPDATE OF object ON raw_letters
WHEN old.object IS NOT NULL AND new.object IS NOT old.object
BEGIN
  INSERT INTO dropped_objects (name) VALUES (old.object) ON CONFLICT DO NOTHING;
END;
CREATE TRIGGER attachments_object_dropped AFTER UPDATE OF object ON attachments
WHEN old.object IS NOT NULL AND new.object IS NOT old.object
BEGIN
  INSERT INTO dropped_objects (name) VALUES (old.object) ON CONFLICT DO NOTHING;
END;
CREATE TRIGGER run_turns_object_dropped AFTER UPDATE OF packed_object ON run_turns
WHEN old.packed_object IS NOT NULL AND new.packed_object IS NOT old.packed_object
BEGIN
  INSERT INTO dropped_objects (name) VALUES (old.packed_object) ON CONFLICT DO NOTHING;
END;
