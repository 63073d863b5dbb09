-- When a run was queued again, taken up or began to wait, when a delivery was held or is to be tried again, and when a
-- slot that waited fired or was given up. What ended has `finished_at`.
ALTER TABLE runs ADD COLUMN state_at TEXT;
ALTER TABLE deliveries ADD COLUMN state_at TEXT;
ALTER TABLE responsibility_slots ADD COLUMN state_at TEXT;

-- What happens, in the order of commits: kinds and ids, no text. Its rows are written by the triggers below, so that no
-- transaction can forget them; `item` names what the kind is about where no other column does.
CREATE TABLE feed (
  seq INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,               -- what it is about, a dot, its new state
  persona_id TEXT,
  thread_id TEXT,
  run_id TEXT,
  message_id TEXT,
  delivery_id TEXT,
  approval_id TEXT,
  item TEXT,                        -- turn and attempt, a call, a notice, a responsibility and its slot, an entry of memory
  at TEXT NOT NULL
) STRICT;

-- The newest 100,000 rows stay, whoever writes. The newest row of all is never deleted, so that no number comes twice.
CREATE TRIGGER feed_is_bounded AFTER INSERT ON feed WHEN new.seq % 1000 = 0 BEGIN
  DELETE FROM feed WHERE seq <= new.seq - 100000;
END;

-- A letter that got a run is said once, with the run.
CREATE TRIGGER feed_letter_filed AFTER INSERT ON messages
  WHEN new.direction = 'inbound' AND new.disposition NOT IN ('run', 'filed:import')
BEGIN
  INSERT INTO feed (kind, persona_id, thread_id, message_id, at)
  VALUES ('letter.filed', new.persona_id, new.thread_id, new.id, new.received_at);
END;
CREATE TRIGGER feed_letter_held AFTER INSERT ON held_letters BEGIN
  INSERT INTO feed (kind, persona_id, message_id, at) VALUES ('letter.held', new.persona_id, new.id, new.held_at);
END;

CREATE TRIGGER feed_run_queued AFTER INSERT ON runs WHEN new.state = 'queued' BEGIN
  INSERT INTO feed (kind, persona_id, thread_id, run_id, message_id, at)
  VALUES (iif(new.trigger = 'email', 'letter.run', 'run.queued'), new.persona_id, new.thread_id, new.id,
    new.trigger_message_id, new.created_at);
END;
CREATE TRIGGER feed_run_state AFTER UPDATE OF state ON runs WHEN new.state <> old.state BEGIN
  INSERT INTO feed (kind, persona_id, thread_id, run_id, message_id, at)
  VALUES ('run.' || new.state, new.persona_id, new.thread_id, new.id, new.trigger_message_id,
    coalesce(new.finished_at, new.state_at, new.created_at));
END;

CREATE TRIGGER feed_turn AFTER UPDATE OF state ON run_turns WHEN new.state <> old.state BEGIN
  INSERT INTO feed (kind, persona_id, thread_id, run_id, item, at)
  SELECT 'turn.' || new.state, new.persona_id, r.thread_id, new.run_id, json_array(new.turn_index, new.attempt),
    new.finished_at FROM runs r WHERE r.id = new.run_id;
END;
CREATE TRIGGER feed_call AFTER INSERT ON thread_tool_events BEGIN
  INSERT INTO feed (kind, persona_id, thread_id, run_id, item, at)
  VALUES (iif(new.event_type = 'tool_call', 'call.begun', 'call.finished'), new.persona_id, new.thread_id, new.run_id,
    new.tool_call_id, new.created_at);
END;

-- Being sent is no outcome.
CREATE TRIGGER feed_delivery AFTER UPDATE OF state ON deliveries
  WHEN new.state <> old.state AND new.state NOT IN ('sending', 'committing')
BEGIN
  INSERT INTO feed (kind, persona_id, thread_id, run_id, message_id, delivery_id, at)
  SELECT 'delivery.' || new.state, new.persona_id, m.thread_id, new.run_id, new.message_id, new.id,
    coalesce(new.finished_at, new.state_at, new.created_at) FROM messages m WHERE m.id = new.message_id;
END;

CREATE TRIGGER feed_approval_asked AFTER INSERT ON approvals BEGIN
  INSERT INTO feed (kind, persona_id, thread_id, run_id, approval_id, at)
  SELECT 'approval.asked', new.persona_id, r.thread_id, new.run_id, new.id, new.requested_at
  FROM runs r WHERE r.id = new.run_id;
END;
CREATE TRIGGER feed_approval_decided AFTER UPDATE OF state ON approvals WHEN new.state <> old.state BEGIN
  INSERT INTO feed (kind, persona_id, thread_id, run_id, approval_id, at)
  SELECT 'approval.' || new.state, new.persona_id, r.thread_id, new.run_id, new.id,
    coalesce(new.decided_at, new.requested_at) FROM runs r WHERE r.id = new.run_id;
END;

CREATE TRIGGER feed_notice AFTER INSERT ON notices BEGIN
  INSERT INTO feed (kind, persona_id, run_id, delivery_id, item, at)
  VALUES ('notice.opened', new.persona_id, iif(new.subject_kind = 'run', new.subject_id, NULL),
    iif(new.subject_kind = 'delivery', new.subject_id, NULL), new.id, new.emitted_at);
END;

CREATE TRIGGER feed_slot AFTER INSERT ON responsibility_slots BEGIN
  INSERT INTO feed (kind, persona_id, run_id, item, at)
  VALUES ('slot.' || new.state, new.persona_id, new.run_id, json_array(new.responsibility_id, new.slot_at), new.created_at);
END;
CREATE TRIGGER feed_slot_state AFTER UPDATE OF state ON responsibility_slots WHEN new.state <> old.state BEGIN
  INSERT INTO feed (kind, persona_id, run_id, item, at)
  VALUES ('slot.' || new.state, new.persona_id, new.run_id, json_array(new.responsibility_id, new.slot_at),
    coalesce(new.state_at, new.created_at));
END;

CREATE TRIGGER feed_memory_proposed AFTER INSERT ON memory WHEN new.status = 'proposed' BEGIN
  INSERT INTO feed (kind, persona_id, run_id, item, at)
  VALUES ('memory.proposed', new.persona_id, new.created_run, new.id, new.created_at);
END;
