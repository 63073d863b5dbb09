-- Only ends of turns are told, and a row without an end cannot refuse the transaction of its turn.
DROP TRIGGER feed_turn;
CREATE TRIGGER feed_turn AFTER UPDATE OF state ON run_turns
  WHEN new.state <> old.state AND new.state IN ('answered', 'failed')
BEGIN
  INSERT INTO feed (kind, persona_id, thread_id, run_id, item, at)
  SELECT 'turn.' || new.state, new.persona_id, r.thread_id, new.run_id, json_array(new.turn_index, new.attempt),
    coalesce(new.finished_at, new.started_at) FROM runs r WHERE r.id = new.run_id;
END;
