-- Keys of programs for the API. Only digests are kept. No scope lets a key decide on an approval.
CREATE TABLE web_tokens (
  id TEXT PRIMARY KEY,
  secret_sha256 TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  scopes_json TEXT NOT NULL,        -- array of `read`, `admin`
  created_by TEXT NOT NULL,
  created_at TEXT NOT NULL,
  expires_at TEXT NOT NULL,
  used_at TEXT,                     -- to within some minutes
  revoked_at TEXT
) STRICT;
