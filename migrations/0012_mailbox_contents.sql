-- Every letter that was ever taken out of a mailbox, by its bytes: under a new number it is no new letter, also when
-- what its sender could prove then cannot be proven any more.
CREATE TABLE mailbox_contents (
  mailbox TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  PRIMARY KEY (mailbox, sha256)
) STRICT, WITHOUT ROWID;
