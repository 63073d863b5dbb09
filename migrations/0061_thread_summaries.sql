-- Rolling summaries of threads. The table existed and was never written.
DROP TABLE thread_memory;
CREATE TABLE thread_memory (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  persona_id TEXT NOT NULL,
  thread_id TEXT NOT NULL REFERENCES threads (id),
  run_id TEXT NOT NULL REFERENCES runs (id), -- the run that made it
  model TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('usable', 'flagged')),
  problems_json TEXT NOT NULL,      -- what the check found; nothing in one that is usable
  text TEXT NOT NULL,
  text_sha256 TEXT NOT NULL,
  from_seq INTEGER NOT NULL,        -- the first message that stands in it or in those before it
  upto_seq INTEGER NOT NULL,        -- the last one: the cursor
  upto_message_id TEXT NOT NULL,
  inputs_json TEXT NOT NULL,        -- [[number, digest of the text], …] of the messages that it was made from itself
  previous_id TEXT,                 -- the summary that it was made from, too
  generation INTEGER NOT NULL,
  messages INTEGER NOT NULL,        -- how many messages stand in it and in those before it
  label_json TEXT NOT NULL,         -- the lowest trust of all inputs, and who may be told of them
  readers_json TEXT NOT NULL,       -- participants who may read every input
  created_at TEXT NOT NULL
) STRICT;
CREATE INDEX thread_memory_by_thread ON thread_memory (thread_id, state, upto_seq);
CREATE INDEX thread_memory_by_run ON thread_memory (run_id);

-- What was made from a message goes with it. The next run of the thread makes another from what is left.
CREATE TRIGGER thread_memory_forgets AFTER DELETE ON messages BEGIN
  DELETE FROM thread_memory WHERE thread_id = old.thread_id AND upto_seq >= old.seq AND from_seq <= old.seq;
END;

-- A run that makes a summary stands in no line: no letter waits for it, and it waits for none.
DROP TRIGGER runs_queue_up;
CREATE TRIGGER runs_queue_up AFTER INSERT ON runs
  WHEN new.trigger <> 'summary' AND EXISTS (SELECT 1 FROM runs o WHERE o.thread_id = new.thread_id AND o.seq < new.seq
    AND o.trigger <> 'summary' AND o.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry'))
BEGIN
  UPDATE runs SET behind = 1 WHERE seq = new.seq;
END;

DROP TRIGGER runs_move_up;
CREATE TRIGGER runs_move_up AFTER UPDATE OF state ON runs
  WHEN new.trigger <> 'summary'
    AND new.state IN ('succeeded', 'failed', 'cancelled') AND old.state NOT IN ('succeeded', 'failed', 'cancelled')
BEGIN
  UPDATE runs SET behind = 0 WHERE seq = (
    SELECT o.seq FROM runs o WHERE o.thread_id = new.thread_id AND o.trigger <> 'summary'
      AND o.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')
    ORDER BY o.state <> 'running', o.seq LIMIT 1);
END;

DROP TRIGGER runs_come_back;
CREATE TRIGGER runs_come_back AFTER UPDATE OF state ON runs
  WHEN new.trigger <> 'summary'
    AND old.state IN ('succeeded', 'failed', 'cancelled') AND new.state NOT IN ('succeeded', 'failed', 'cancelled')
BEGIN
  UPDATE runs SET behind = EXISTS (SELECT 1 FROM runs o WHERE o.thread_id = new.thread_id AND o.seq <> new.seq
    AND o.trigger <> 'summary' AND o.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry'))
    WHERE seq = new.seq;
END;

DROP TRIGGER runs_change_thread;
CREATE TRIGGER runs_change_thread AFTER UPDATE OF thread_id ON runs
  WHEN new.thread_id <> old.thread_id AND new.trigger <> 'summary'
BEGIN
  UPDATE runs SET behind = (seq <> (
      SELECT o.seq FROM runs o WHERE o.thread_id = new.thread_id AND o.trigger <> 'summary'
        AND o.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')
      ORDER BY o.state <> 'running', o.seq LIMIT 1))
    WHERE thread_id = new.thread_id AND trigger <> 'summary' AND state IN ('queued', 'waiting_retry');
END;
