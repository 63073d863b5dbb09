-- How many automatic mails somebody was sent, in buckets of a minute: what is counted must not cost what was sent.
-- `counterparty` is a lower-case address, or `thread:<id>` for the answers of one thread since its owner last wrote.
CREATE TABLE correspondence (
  persona_id TEXT NOT NULL,
  counterparty TEXT NOT NULL,
  minute TEXT NOT NULL,             -- the bucket's first instant
  mails INTEGER NOT NULL,
  PRIMARY KEY (persona_id, counterparty, minute)
) STRICT, WITHOUT ROWID;

-- Mails in a row that personas wrote, this one included; 0 is what a person wrote.
ALTER TABLE messages ADD COLUMN hops INTEGER NOT NULL DEFAULT 0;

-- The key of the note by which our own mail is known again, made once for each database.
ALTER TABLE engine ADD COLUMN loop_key BLOB;
UPDATE engine SET loop_key = randomblob(32);
