-- Letters that a rule keeps without a run, in the order in which they came. Imported history is not among them.
CREATE INDEX messages_filed ON messages (seq, disposition)
  WHERE disposition >= 'filed:' AND disposition < 'filed:~' AND disposition <> 'filed:import';

-- How far the owners were told of them. What lies there from before this was known is not told.
CREATE TABLE filed_told (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  through_seq INTEGER NOT NULL,     -- of the last message that was looked at
  told_at TEXT                      -- when they were last told; NULL: never
) STRICT;
INSERT INTO filed_told (id, through_seq) SELECT 1, coalesce(max(seq), 0) FROM messages;
