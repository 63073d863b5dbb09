-- Signed requests of mail providers that were let in, so that a signature that does not cover its letter brings no second one.
CREATE TABLE ingest_tokens (
  digest TEXT PRIMARY KEY,          -- of the provider's token
  body_sha256 TEXT NOT NULL,        -- of the letter that came with it
  ends_at TEXT NOT NULL             -- from when on a request with it is too old anyway
) STRICT, WITHOUT ROWID;
