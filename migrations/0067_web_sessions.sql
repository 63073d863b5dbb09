-- One-time codes by which a browser logs in at a listener of the pages. Only digests are kept.
CREATE TABLE web_logins (
  code_sha256 TEXT PRIMARY KEY,
  listener TEXT NOT NULL,           -- address for which the code was made; no other takes it
  asked_by TEXT NOT NULL,           -- user of the machine
  created_at TEXT NOT NULL,
  expires_at TEXT NOT NULL,
  used_at TEXT
) STRICT, WITHOUT ROWID;

-- Sessions of browsers. A cookie holds a secret of 256 bits; here is its digest.
CREATE TABLE web_sessions (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  secret_sha256 TEXT NOT NULL UNIQUE,
  form_token TEXT NOT NULL,         -- every form of the session carries it; worth nothing without the cookie
  listener TEXT NOT NULL,
  asked_by TEXT NOT NULL,           -- user of the machine who made the code
  browser TEXT NOT NULL,            -- User-Agent, as sent
  created_at TEXT NOT NULL,
  used_at TEXT NOT NULL,            -- to within some minutes: reading a page writes nothing
  expires_at TEXT NOT NULL,         -- seven days after the login, however often it is used
  ended_at TEXT
) STRICT;
