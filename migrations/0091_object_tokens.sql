-- Tokens that this database has put into its object store, to tell itself from its copies (D-135).
CREATE TABLE object_tokens (
  token TEXT PRIMARY KEY,
  database TEXT NOT NULL -- identity of the database that put it there: of its file, or of its server and itself
) STRICT, WITHOUT ROWID;
