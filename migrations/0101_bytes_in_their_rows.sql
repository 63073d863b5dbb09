-- The object store went (D-161): bytes are in their rows. A database whose bytes are elsewhere is refused by the name of this check.
CREATE TABLE bytes_elsewhere (
  count INTEGER NOT NULL CONSTRAINT large_bytes_are_in_an_object_store_which_this_version_does_not_read CHECK (count = 0)
) STRICT;
INSERT INTO bytes_elsewhere (count) SELECT (SELECT count(*) FROM raw_letters WHERE object IS NOT NULL)
  + (SELECT count(*) FROM attachments WHERE object IS NOT NULL) + (SELECT count(*) FROM run_turns WHERE packed_object IS NOT NULL);
DROP TABLE bytes_elsewhere;
DROP TRIGGER raw_letters_object_dropped;
DROP TRIGGER attachments_object_dropped;
DROP TRIGGER run_turns_object_dropped;
DROP INDEX raw_letters_object;
DROP INDEX attachments_object;
DROP INDEX run_turns_object;
ALTER TABLE raw_letters DROP COLUMN object;
ALTER TABLE raw_letters DROP COLUMN object_bytes;
ALTER TABLE attachments DROP COLUMN object;
ALTER TABLE run_turns DROP COLUMN packed_object;
ALTER TABLE run_turns DROP COLUMN object_bytes;
DROP TABLE dropped_objects;
DROP TABLE object_tokens;
