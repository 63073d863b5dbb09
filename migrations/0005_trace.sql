-- The `Received` field that we would have written in front of a letter (RFC 5321 section 4.4). The letter's bytes stay
-- as they came.
ALTER TABLE raw_letters ADD COLUMN trace TEXT;
