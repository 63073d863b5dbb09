-- Texts read from attachments, so that the bytes are decoded once. A cache: whatever is missing is read again.
CREATE TABLE attachment_texts (
  attachment_id TEXT PRIMARY KEY REFERENCES attachments (id),
  version INTEGER NOT NULL,         -- of the decoders
  document_json TEXT NOT NULL,      -- kind, text, notes
  read_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
-- What was read goes with the bytes that it was read from.
CREATE TRIGGER attachment_texts_pruned AFTER UPDATE OF pruned_at ON attachments WHEN new.pruned_at IS NOT NULL BEGIN
  DELETE FROM attachment_texts WHERE attachment_id = new.id;
END;
