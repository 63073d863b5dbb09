-- IMAP mailboxes: how far each is read, how it fares, and the letters whose fate is not said by that alone.
CREATE TABLE mailboxes (
  name TEXT PRIMARY KEY,
  source TEXT NOT NULL,             -- user, host and folder: another source is another mailbox of that name
  uid_validity INTEGER NOT NULL DEFAULT 0, -- 0: never selected
  last_uid INTEGER NOT NULL DEFAULT 0,     -- every letter up to here has its fate
  history_until TEXT,               -- letters that came before are history and are left alone; NULL: none
  resync_uid INTEGER NOT NULL DEFAULT 0,   -- up to here the server gave old letters new numbers
  backlog INTEGER,                  -- letters that were still to be fetched, at last count
  last_fetch_at TEXT,               -- when the server last answered everything
  last_error TEXT,
  last_error_at TEXT
) STRICT, WITHOUT ROWID;

-- A row is written with the letter's own commit. It goes when the letter is flagged or moved and the cursor is past it;
-- refused letters keep theirs.
CREATE TABLE mailbox_letters (
  mailbox TEXT NOT NULL,
  uid_validity INTEGER NOT NULL,
  uid INTEGER NOT NULL,
  fate TEXT NOT NULL CHECK (fate IN ('taken', 'refused')),
  reason TEXT,                      -- why it was refused
  marked INTEGER NOT NULL,          -- flagged or moved, or never to be
  noted_at TEXT NOT NULL,
  PRIMARY KEY (mailbox, uid_validity, uid)
) STRICT, WITHOUT ROWID;
CREATE INDEX mailbox_letters_refused ON mailbox_letters (mailbox, noted_at) WHERE fate = 'refused';
