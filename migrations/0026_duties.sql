-- What a responsibility says beside its schedule, and how it fares.
ALTER TABLE responsibilities ADD COLUMN slot_terms_json TEXT NOT NULL DEFAULT '{}'; -- what is not said is as usual
ALTER TABLE responsibilities ADD COLUMN run_terms_json TEXT NOT NULL DEFAULT '{}';
ALTER TABLE responsibilities ADD COLUMN fire_at TEXT;            -- next_slot_at and its jitter
ALTER TABLE responsibilities ADD COLUMN is_done INTEGER NOT NULL DEFAULT 0; -- no further slot will come
ALTER TABLE responsibilities ADD COLUMN paused_at TEXT;
ALTER TABLE responsibilities ADD COLUMN paused_by TEXT CHECK (paused_by IN ('owner', 'failures'));
ALTER TABLE responsibilities ADD COLUMN failures INTEGER NOT NULL DEFAULT 0; -- of its runs, since the last that succeeded
ALTER TABLE responsibilities ADD COLUMN thread_id TEXT;          -- where its newest run stands
ALTER TABLE responsibilities ADD COLUMN own_thread_id TEXT;      -- made for its runs; not theirs while they stand elsewhere
ALTER TABLE responsibilities ADD COLUMN mark TEXT;               -- how the file looked when it was read
UPDATE responsibilities SET fire_at = next_slot_at,
  thread_id = (SELECT r.thread_id FROM responsibility_slots s JOIN runs r ON r.id = s.run_id
    WHERE s.responsibility_id = responsibilities.id ORDER BY s.slot_at DESC LIMIT 1);
UPDATE responsibilities SET own_thread_id = thread_id;
DROP INDEX responsibilities_due;
CREATE INDEX responsibilities_due ON responsibilities (coalesce(fire_at, ''), id)
  WHERE enabled = 1 AND removed_at IS NULL AND error IS NULL AND is_done = 0;
CREATE INDEX responsibilities_by_thread ON responsibilities (thread_id) WHERE thread_id IS NOT NULL;
CREATE INDEX responsibilities_by_own_thread ON responsibilities (own_thread_id) WHERE own_thread_id IS NOT NULL;
CREATE INDEX responsibilities_failing ON responsibilities (failures) WHERE failures > 0;

-- A slot may wait: for the end of the run before it, or for its turn after a downtime.
CREATE TABLE slots_anew (
  responsibility_id TEXT NOT NULL REFERENCES responsibilities (id),
  slot_at TEXT NOT NULL,
  persona_id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('scheduled', 'manual')),
  state TEXT NOT NULL CHECK (state IN ('waiting', 'fired', 'skipped_overlap', 'missed', 'paused')),
  missed_count INTEGER NOT NULL DEFAULT 0,
  run_id TEXT,
  prompt_snapshot TEXT,
  prompt_sha256 TEXT,
  created_at TEXT NOT NULL,
  missed_until TEXT,                -- last slot of the row, when it stands for several
  note TEXT,                        -- why the slot did not fire, when there is more to say
  output_schema TEXT,
  run_terms_json TEXT,              -- those of its run
  is_late INTEGER NOT NULL DEFAULT 0, -- found after a downtime
  overdue_at TEXT,                  -- when the owner is told that it has not ended; NULL once that is settled
  catching_up INTEGER NOT NULL DEFAULT 0, -- late, and its run is queued or at work
  revision INTEGER,                 -- of the responsibility, when the row was made
  PRIMARY KEY (responsibility_id, slot_at, kind)
) STRICT, WITHOUT ROWID;
INSERT INTO slots_anew (responsibility_id, slot_at, persona_id, kind, state, missed_count, run_id, prompt_snapshot,
    prompt_sha256, created_at, missed_until, note, output_schema)
  SELECT responsibility_id, slot_at, persona_id, kind, state, missed_count, run_id, prompt_snapshot,
    prompt_sha256, created_at, missed_until, note, output_schema FROM responsibility_slots;
DROP TABLE responsibility_slots;
ALTER TABLE slots_anew RENAME TO responsibility_slots;
CREATE INDEX responsibility_slots_by_run ON responsibility_slots (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX responsibility_slots_waiting ON responsibility_slots (is_late, created_at, slot_at) WHERE state = 'waiting';
CREATE INDEX responsibility_slots_waiting_of ON responsibility_slots (responsibility_id, slot_at) WHERE state = 'waiting';
CREATE INDEX responsibility_slots_catching_up ON responsibility_slots (catching_up) WHERE catching_up = 1;
CREATE INDEX responsibility_slots_watched ON responsibility_slots (overdue_at) WHERE overdue_at IS NOT NULL;

-- What came in for a persona of late, in the order of its coming.
CREATE INDEX messages_inbox ON messages (persona_id, id) WHERE direction = 'inbound' AND disposition = 'run';

-- How often a run may be tried; NULL: as the configuration says.
ALTER TABLE runs ADD COLUMN attempts_max INTEGER;

-- Whatever ends a run of a responsibility counts for it; what was cancelled counts for nothing.
CREATE TRIGGER duties_fail AFTER UPDATE OF state ON runs
  WHEN new.trigger IN ('schedule', 'manual') AND new.state = 'failed' AND old.state <> 'failed'
BEGIN
  UPDATE responsibilities SET failures = failures + 1
    WHERE id = (SELECT responsibility_id FROM responsibility_slots WHERE run_id = new.id);
END;
CREATE TRIGGER duties_succeed AFTER UPDATE OF state ON runs
  WHEN new.trigger IN ('schedule', 'manual') AND new.state = 'succeeded' AND old.state <> 'succeeded'
BEGIN
  UPDATE responsibilities SET failures = 0
    WHERE failures > 0 AND id = (SELECT responsibility_id FROM responsibility_slots WHERE run_id = new.id);
END;
CREATE TRIGGER duties_caught_up AFTER UPDATE OF state ON runs
  WHEN new.trigger = 'schedule' AND new.state NOT IN ('queued', 'running') AND old.state IN ('queued', 'running')
BEGIN
  UPDATE responsibility_slots SET catching_up = 0 WHERE run_id = new.id AND catching_up = 1;
END;

-- A claim asks each persona for its oldest runs, so that no backlog hides those of others.
DROP INDEX runs_ready;
CREATE INDEX runs_ready ON runs (persona_id, seq) WHERE behind = 0 AND state IN ('queued', 'waiting_retry');
