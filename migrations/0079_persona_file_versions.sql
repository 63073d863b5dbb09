-- What a file of a persona was before its owner replaced it on a page, by the API or by `attache persona restore`.
CREATE TABLE persona_file_versions (
  seq INTEGER PRIMARY KEY,
  persona_id TEXT NOT NULL,
  name TEXT NOT NULL,               -- below the persona's folder
  bytes INTEGER NOT NULL,           -- of the text
  sha256 TEXT NOT NULL,             -- of the text; empty: there was no file
  replaced_at TEXT NOT NULL,
  replaced_by TEXT NOT NULL,        -- the user of the machine who did it, or who asked for the session's code
  session_id TEXT,                  -- the session of the browser; NULL: a command on the machine
  replaced_with TEXT NOT NULL,      -- digest of the text that came in its place
  text TEXT NOT NULL
) STRICT;
CREATE INDEX persona_file_versions_by_name ON persona_file_versions (persona_id, name, seq);
