-- What contexts were assembled from, so that each can be assembled again as it was. Texts are kept once, by digest.
CREATE TABLE contents (
  sha256 TEXT PRIMARY KEY,          -- of `bytes`, in hexadecimal
  bytes BLOB NOT NULL
) STRICT;
-- Beside `context_json`: what was read for it, as the harness wrote it; NULL where nobody wrote it down yet.
ALTER TABLE run_turns ADD COLUMN sources_json TEXT;
