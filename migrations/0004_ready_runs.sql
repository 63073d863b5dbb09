-- Which queued runs may be claimed is kept with the row, so that a claim looks at the free ones only: with a
-- thousand letters waiting in one thread, asking each of them for its predecessors cost more than answering them.
-- `behind` is 1 while another open run of the same thread comes first. Triggers keep it, because runs end, come back
-- and move between threads in several places.

ALTER TABLE runs ADD COLUMN behind INTEGER NOT NULL DEFAULT 0;

CREATE INDEX runs_ready ON runs (seq) WHERE behind = 0 AND state IN ('queued', 'waiting_retry');

CREATE TRIGGER runs_queue_up AFTER INSERT ON runs
  WHEN EXISTS (SELECT 1 FROM runs o WHERE o.thread_id = new.thread_id AND o.seq < new.seq
    AND o.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry'))
BEGIN
  UPDATE runs SET behind = 1 WHERE seq = new.seq;
END;

CREATE TRIGGER runs_move_up AFTER UPDATE OF state ON runs
  WHEN new.state IN ('succeeded', 'failed', 'cancelled') AND old.state NOT IN ('succeeded', 'failed', 'cancelled')
BEGIN
  UPDATE runs SET behind = 0 WHERE seq = (
    SELECT o.seq FROM runs o WHERE o.thread_id = new.thread_id
      AND o.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')
    ORDER BY o.state <> 'running', o.seq LIMIT 1);
END;

-- A run that is opened again waits for whatever is open in its thread.
CREATE TRIGGER runs_come_back AFTER UPDATE OF state ON runs
  WHEN old.state IN ('succeeded', 'failed', 'cancelled') AND new.state NOT IN ('succeeded', 'failed', 'cancelled')
BEGIN
  UPDATE runs SET behind = EXISTS (SELECT 1 FROM runs o WHERE o.thread_id = new.thread_id AND o.seq <> new.seq
    AND o.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')) WHERE seq = new.seq;
END;

-- Two threads became one: what was first in the younger one may now have somebody before it.
CREATE TRIGGER runs_change_thread AFTER UPDATE OF thread_id ON runs
  WHEN new.thread_id <> old.thread_id
BEGIN
  UPDATE runs SET behind = (seq <> (
      SELECT o.seq FROM runs o WHERE o.thread_id = new.thread_id
        AND o.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')
      ORDER BY o.state <> 'running', o.seq LIMIT 1))
    WHERE thread_id = new.thread_id AND state IN ('queued', 'waiting_retry');
END;

-- The answers of a thread, for its history: a run sees all of them, but not the letters after its own.
CREATE INDEX messages_outbound ON messages (thread_id, seq) WHERE direction = 'outbound';

-- Every change of a run's row asks whether something refers to it.
CREATE INDEX approvals_by_run ON approvals (run_id);

-- Folding two threads into one moves their traces.
CREATE INDEX thread_tool_events_by_thread ON thread_tool_events (thread_id);
