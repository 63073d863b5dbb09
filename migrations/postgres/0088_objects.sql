-- Bytes in an object store (D-132): a row that names an object has no bytes of its own. Without an object store no row does.
ALTER TABLE raw_letters ADD COLUMN object TEXT;          -- below the prefix of the object store
ALTER TABLE raw_letters ADD COLUMN object_bytes BIGINT;  -- size of the object
ALTER TABLE attachments ADD COLUMN object TEXT;          -- its size is `size_bytes`
ALTER TABLE run_turns ADD COLUMN packed_object TEXT;     -- of what `packed` would be
ALTER TABLE run_turns ADD COLUMN object_bytes BIGINT;    -- size of that object
CREATE UNIQUE INDEX raw_letters_object ON raw_letters (object) WHERE object IS NOT NULL;
CREATE UNIQUE INDEX attachments_object ON attachments (object) WHERE object IS NOT NULL;
CREATE UNIQUE INDEX run_turns_object ON run_turns (packed_object) WHERE packed_object IS NOT NULL;

-- Objects that no row names any more, until they are deleted.
CREATE TABLE dropped_objects (
  name TEXT PRIMARY KEY
);
-- In the transaction that prunes or erases, whichever it is, so that a crash before the deletion forgets none.
CREATE FUNCTION object_dropped() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO dropped_objects (name) VALUES (old.object) ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
CREATE FUNCTION packed_object_dropped() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO dropped_objects (name) VALUES (old.packed_object) ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
CREATE TRIGGER raw_letters_object_dropped AFTER UPDATE OF object ON raw_letters
  FOR EACH ROW WHEN (old.object IS NOT NULL AND new.object IS DISTINCT FROM old.object) EXECUTE FUNCTION object_dropped();
CREATE TRIGGER attachments_object_dropped AFTER UPDATE OF object ON attachments
  FOR EACH ROW WHEN (old.object IS NOT NULL AND new.object IS DISTINCT FROM old.object) EXECUTE FUNCTION object_dropped();
CREATE TRIGGER run_turns_object_dropped AFTER UPDATE OF packed_object ON run_turns
  FOR EACH ROW WHEN (old.packed_object IS NOT NULL AND new.packed_object IS DISTINCT FROM old.packed_object)
  EXECUTE FUNCTION packed_object_dropped();
