-- What SQLite alone has: triggers, views and the indexes of words. `postgres/0201_words_and_triggers.sql` has the same for PostgreSQL;
-- a test compares the rows that they make.

-- By an expression, which each database writes in its own way.
CREATE INDEX messages_said ON messages (persona_id, metadata_json ->> '$.said_sha256')
  WHERE direction = 'synthetic' AND metadata_json ->> '$.said_sha256' IS NOT NULL;

UPDATE engine SET loop_key = randomblob(32);

-- Views

-- Texts that the context of a turn was made from, by digest.
-- Entries of memory are named there, too, by their ids.
CREATE VIEW turn_texts (run_id, turn_index, attempt, pruned_at, sha256) AS
  SELECT t.run_id, t.turn_index, t.attempt, t.pruned_at, n.value FROM run_turns t, json_each(t.named_json) n
  WHERE length(n.value) = 64
  UNION ALL SELECT t.run_id, t.turn_index, t.attempt, t.pruned_at, f.value
  FROM run_turns t JOIN contents c ON c.sha256 = t.packed_with,
    json_each(CASE WHEN json_valid(CAST(c.bytes AS TEXT)) THEN CAST(c.bytes AS TEXT) ELSE '{}' END, '$.files') f
  WHERE t.named_json IS NOT NULL;

-- Who may read which message. A letter: who was there when it came and is known to be one of its readers. An answer: whom it was
-- written to, and who may read the letter that it answers unless a call of its run read something narrower.
CREATE VIEW readable (seq, address) AS
  SELECT m.seq, p.address FROM messages m JOIN thread_participants p ON p.thread_id = m.thread_id
  WHERE m.seq > coalesce(p.joined_after, -9223372036854775808) AND CASE
    WHEN m.direction <> 'outbound' OR m.run_id IS NULL THEN m.readers_json IS NULL OR EXISTS (SELECT 1 FROM json_each(m.readers_json) reader
      WHERE reader.value IN (p.address, 'unverified:' || p.address))
    ELSE EXISTS (SELECT 1 FROM json_each(m.recipients_json, '$.to') named WHERE lower(named.value) = p.address)
      OR EXISTS (SELECT 1 FROM json_each(m.recipients_json, '$.cc') named WHERE lower(named.value) = p.address)
      OR (EXISTS (SELECT 1 FROM runs r JOIN messages t ON t.id = r.trigger_message_id
        WHERE r.id = m.run_id AND t.thread_id = m.thread_id AND t.seq > coalesce(p.joined_after, -9223372036854775808)
          AND (t.readers_json IS NULL OR EXISTS (SELECT 1 FROM json_each(t.readers_json) reader
            WHERE reader.value IN (p.address, 'unverified:' || p.address))))
        AND NOT EXISTS (SELECT 1 FROM thread_tool_events e WHERE e.run_id = m.run_id AND e.event_type = 'tool_result'
          AND CASE WHEN instr(e.payload_json, '"readers":{') > 0 AND json_valid(e.payload_json)
            THEN e.payload_json ->> '$.label.readers.only' IS NOT NULL AND NOT EXISTS (
              SELECT 1 FROM json_each(e.payload_json, '$.label.readers.only') allowed WHERE allowed.value = p.address)
            ELSE 0 END))
    END;

-- What the index of words has of each letter.
CREATE VIEW letter_texts (seq, thread, subject, sender, own) AS
  SELECT seq, replace(thread_id, '-', ''), subject, sender, coalesce(fresh_text, text_body) FROM messages;

-- The indexes of words

-- What is new in each letter, without quotations. A letter's thread is a word of it, so that a search for one correspondent reads
-- the letters of their threads only.
CREATE VIRTUAL TABLE letter_words USING fts5(
  thread, subject, sender, own,
  content = 'letter_texts', content_rowid = 'seq', tokenize = 'porter unicode61 remove_diacritics 2'
);
INSERT INTO letter_words (letter_words, rank) VALUES ('usermerge', 8);
INSERT INTO letter_words (letter_words, rank) VALUES ('automerge', 12);
-- Words of a letter that is deleted go at once, and not when their segment is merged.
INSERT INTO letter_words (letter_words, rank) VALUES ('secure-delete', 1);
CREATE TRIGGER letter_words_insert AFTER INSERT ON messages BEGIN
  INSERT INTO letter_words (rowid, thread, subject, sender, own)
  VALUES (new.seq, replace(new.thread_id, '-', ''), new.subject, new.sender, coalesce(new.fresh_text, new.text_body));
END;

-- Parts of words: pairs of Chinese, Japanese and Korean characters, and the ends of codes such as 4711AB.
CREATE VIRTUAL TABLE letter_parts USING fts5(
  thread, words,
  content = 'letter_part_texts', content_rowid = 'seq', detail = 'column', tokenize = 'unicode61 remove_diacritics 0'
);
INSERT INTO letter_parts (letter_parts, rank) VALUES ('usermerge', 8);
INSERT INTO letter_parts (letter_parts, rank) VALUES ('automerge', 12);
INSERT INTO letter_parts (letter_parts, rank) VALUES ('secure-delete', 1);
CREATE TRIGGER letter_part_texts_insert AFTER INSERT ON letter_part_texts BEGIN
  INSERT INTO letter_parts (rowid, thread, words) VALUES (new.seq, new.thread, new.words);
END;
CREATE TRIGGER letter_part_texts_delete AFTER DELETE ON letter_part_texts BEGIN
  INSERT INTO letter_parts (letter_parts, rowid, thread, words) VALUES ('delete', old.seq, old.thread, old.words);
END;

CREATE VIRTUAL TABLE knowledge_fts USING fts5(
  heading, body, content = 'knowledge_chunks', content_rowid = 'seq',
  tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE TRIGGER knowledge_fts_insert AFTER INSERT ON knowledge_chunks BEGIN
  INSERT INTO knowledge_fts (rowid, heading, body) VALUES (new.seq, new.heading, new.body);
END;
CREATE TRIGGER knowledge_fts_delete AFTER DELETE ON knowledge_chunks BEGIN
  INSERT INTO knowledge_fts (knowledge_fts, rowid, heading, body)
  VALUES ('delete', old.seq, old.heading, old.body);
END;

-- Messages

-- Letters with a digit, or with Chinese, Japanese or Korean, have parts, which the engine makes before the commit. A letter that
-- got a run is told once, with the run.
CREATE TRIGGER messages_new AFTER INSERT ON messages BEGIN
  INSERT OR IGNORE INTO letter_parts_pending (seq) SELECT new.seq
    WHERE new.subject GLOB '*[0-9ᄀ-ᇿぁ-ヿㇰ-ㇿ々㐀-鿿가-힣豈-﫿ｦ-ﾝ𠀀-𲎯]*'
      OR new.sender GLOB '*[ᄀ-ᇿぁ-ヿㇰ-ㇿ々㐀-鿿가-힣豈-﫿ｦ-ﾝ𠀀-𲎯]*'
      OR coalesce(new.fresh_text, new.text_body) GLOB '*[0-9ᄀ-ᇿぁ-ヿㇰ-ㇿ々㐀-鿿가-힣豈-﫿ｦ-ﾝ𠀀-𲎯]*';
  INSERT INTO feed (kind, persona_id, thread_id, message_id, at)
  SELECT 'letter.filed', new.persona_id, new.thread_id, new.id, new.received_at
    WHERE new.direction = 'inbound' AND new.disposition NOT IN ('run', 'filed:import');
END;
CREATE TRIGGER messages_changed AFTER UPDATE OF thread_id, subject, sender, text_body, fresh_text ON messages BEGIN
  INSERT INTO letter_words (letter_words, rowid, thread, subject, sender, own)
  VALUES ('delete', old.seq, replace(old.thread_id, '-', ''), old.subject, old.sender, coalesce(old.fresh_text, old.text_body));
  INSERT INTO letter_words (rowid, thread, subject, sender, own)
  VALUES (new.seq, replace(new.thread_id, '-', ''), new.subject, new.sender, coalesce(new.fresh_text, new.text_body));
  INSERT OR IGNORE INTO letter_parts_pending (seq) VALUES (new.seq);
  DELETE FROM letter_vectors WHERE seq = old.seq
    AND (old.subject IS NOT new.subject OR old.text_body IS NOT new.text_body OR old.fresh_text IS NOT new.fresh_text);
END;
CREATE TRIGGER messages_gone AFTER DELETE ON messages BEGIN
  INSERT INTO letter_words (letter_words, rowid, thread, subject, sender, own)
  VALUES ('delete', old.seq, replace(old.thread_id, '-', ''), old.subject, old.sender, coalesce(old.fresh_text, old.text_body));
  DELETE FROM letter_part_texts WHERE seq = old.seq;
  DELETE FROM letter_parts_pending WHERE seq = old.seq;
  DELETE FROM letter_vectors WHERE seq = old.seq;
  DELETE FROM thread_memory WHERE thread_id = old.thread_id AND upto_seq >= old.seq AND from_seq <= old.seq;
END;
CREATE TRIGGER attachment_texts_pruned AFTER UPDATE OF pruned_at ON attachments WHEN new.pruned_at IS NOT NULL BEGIN
  DELETE FROM attachment_texts WHERE attachment_id = new.id;
END;

-- Runs

-- Runs of one thread come one after the other: `behind` is 1 while another open run of the thread comes first. Summaries stand in
-- no queue.
CREATE TRIGGER runs_new AFTER INSERT ON runs BEGIN
  UPDATE runs SET behind = 1 WHERE seq = new.seq AND new.trigger <> 'summary'
    AND EXISTS (SELECT 1 FROM runs o WHERE o.thread_id = new.thread_id AND o.seq < new.seq
      AND o.trigger <> 'summary' AND o.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry'));
  INSERT INTO feed (kind, persona_id, thread_id, run_id, message_id, at)
  SELECT iif(new.trigger = 'email', 'letter.run', 'run.queued'), new.persona_id, new.thread_id, new.id,
    new.trigger_message_id, new.created_at WHERE new.state = 'queued';
END;
-- One that ends lets the next come first; one that comes back stands behind what is open.
CREATE TRIGGER runs_state AFTER UPDATE OF state ON runs WHEN new.state <> old.state BEGIN
  UPDATE runs SET behind = 0 WHERE seq = (
    SELECT o.seq FROM runs o WHERE o.thread_id = new.thread_id AND o.trigger <> 'summary'
      AND o.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')
    ORDER BY o.state <> 'running', o.seq LIMIT 1)
    AND new.trigger <> 'summary' AND new.state IN ('succeeded', 'failed', 'cancelled')
    AND old.state NOT IN ('succeeded', 'failed', 'cancelled');
  UPDATE runs SET behind = EXISTS (SELECT 1 FROM runs o WHERE o.thread_id = new.thread_id AND o.seq <> new.seq
    AND o.trigger <> 'summary' AND o.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry'))
    WHERE seq = new.seq AND new.trigger <> 'summary'
      AND old.state IN ('succeeded', 'failed', 'cancelled') AND new.state NOT IN ('succeeded', 'failed', 'cancelled');
  INSERT INTO feed (kind, persona_id, thread_id, run_id, message_id, at)
  VALUES ('run.' || new.state, new.persona_id, new.thread_id, new.id, new.trigger_message_id,
    coalesce(new.finished_at, new.state_at, new.created_at));
END;
CREATE TRIGGER runs_change_thread AFTER UPDATE OF thread_id ON runs
  WHEN new.thread_id <> old.thread_id AND new.trigger <> 'summary'
BEGIN
  UPDATE runs SET behind = (seq <> (
      SELECT o.seq FROM runs o WHERE o.thread_id = new.thread_id AND o.trigger <> 'summary'
        AND o.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')
      ORDER BY o.state <> 'running', o.seq LIMIT 1))
    WHERE thread_id = new.thread_id AND trigger <> 'summary' AND state IN ('queued', 'waiting_retry');
END;

-- Responsibilities fare as their runs do.
CREATE TRIGGER responsibilities_follow AFTER UPDATE OF state ON runs
  WHEN new.trigger IN ('schedule', 'manual') AND new.state <> old.state
BEGIN
  UPDATE responsibilities SET failures = failures + 1
    WHERE new.state = 'failed' AND id = (SELECT responsibility_id FROM responsibility_slots WHERE run_id = new.id);
  UPDATE responsibilities SET failures = 0 WHERE new.state = 'succeeded'
    AND failures > 0 AND id = (SELECT responsibility_id FROM responsibility_slots WHERE run_id = new.id);
  UPDATE responsibility_slots SET catching_up = 0 WHERE run_id = new.id AND catching_up = 1 AND new.trigger = 'schedule'
    AND new.state NOT IN ('queued', 'running') AND old.state IN ('queued', 'running');
END;

-- Turns: how providers fare. A call that was cancelled says nothing about its provider.
CREATE TRIGGER run_turns_state AFTER UPDATE OF state ON run_turns
  WHEN new.state <> old.state AND new.state IN ('answered', 'failed')
BEGIN
  INSERT INTO feed (kind, persona_id, thread_id, run_id, item, at)
  SELECT 'turn.' || new.state, new.persona_id, r.thread_id, new.run_id, json_array(new.turn_index, new.attempt),
    coalesce(new.finished_at, new.started_at) FROM runs r WHERE r.id = new.run_id;
  INSERT INTO provider_calls (provider, calls, last_success_at, last_model, last_latency_ms)
  SELECT new.provider, 1, new.finished_at, new.model,
    CAST(round((julianday(new.finished_at) - julianday(new.started_at)) * 86400000) AS INTEGER) WHERE new.state = 'answered'
  ON CONFLICT (provider, part) DO UPDATE SET calls = calls + 1, last_success_at = excluded.last_success_at,
    last_model = excluded.last_model, last_latency_ms = excluded.last_latency_ms;
  INSERT INTO provider_calls (provider, calls, failures, last_failure_at, last_failure_class, last_failure_message)
  SELECT new.provider, 1, 1, new.finished_at, new.error_class, new.error_message
    WHERE new.state = 'failed' AND new.error_class <> 'cancelled'
  ON CONFLICT (provider, part) DO UPDATE SET calls = calls + 1, failures = failures + 1,
    last_failure_at = excluded.last_failure_at, last_failure_class = excluded.last_failure_class,
    last_failure_message = excluded.last_failure_message;
END;

-- Sums of both ledgers by day. A call that several models served counts with the first.
CREATE TRIGGER usage_days_of_call AFTER INSERT ON usage_ledger BEGIN
  INSERT INTO usage_days (day, persona_id, provider, model, source, calls, lines, input_tokens, cache_read_tokens,
    cache_write_tokens, output_tokens, reasoning_tokens, cost_micros, unknown_cost, lost, held_micros, estimated)
  VALUES (new.day, new.persona_id, new.provider, new.model,
    new.cost_source || coalesce(' ' || new.price_version, ''),
    NOT EXISTS (SELECT 1 FROM usage_ledger o WHERE o.run_id = new.run_id AND o.turn_index = new.turn_index
      AND o.attempt = new.attempt AND o.model <> new.model),
    1, new.input_tokens, new.cache_read_tokens, new.cache_write_tokens, new.output_tokens, new.reasoning_tokens,
    new.cost_micros, new.cost_micros IS NULL AND new.state = 'answered', new.state = 'lost', coalesce(new.held_micros, 0),
    new.estimated)
  ON CONFLICT (day, persona_id, provider, model, source) DO UPDATE SET calls = usage_days.calls + excluded.calls,
    lines = usage_days.lines + 1, input_tokens = usage_days.input_tokens + excluded.input_tokens,
    cache_read_tokens = usage_days.cache_read_tokens + excluded.cache_read_tokens,
    cache_write_tokens = usage_days.cache_write_tokens + excluded.cache_write_tokens,
    output_tokens = usage_days.output_tokens + excluded.output_tokens,
    reasoning_tokens = usage_days.reasoning_tokens + excluded.reasoning_tokens,
    cost_micros = coalesce(usage_days.cost_micros + excluded.cost_micros, excluded.cost_micros, usage_days.cost_micros),
    unknown_cost = usage_days.unknown_cost + excluded.unknown_cost, lost = usage_days.lost + excluded.lost,
    held_micros = usage_days.held_micros + excluded.held_micros, estimated = usage_days.estimated + excluded.estimated;
END;
CREATE TRIGGER usage_days_of_vectors AFTER UPDATE OF state ON embedding_calls
WHEN old.state = 'open' AND new.state <> 'open' BEGIN
  INSERT INTO usage_days (day, persona_id, provider, model, source, calls, lines, input_tokens, cache_read_tokens,
    cache_write_tokens, output_tokens, reasoning_tokens, cost_micros, unknown_cost, lost, held_micros, estimated)
  VALUES (new.day, new.persona_id, new.provider, new.model,
    new.cost_source || coalesce(' ' || new.price_version, ''),
    1, 1, new.tokens, 0, 0, 0, 0, new.cost_micros, new.cost_micros IS NULL AND new.state = 'answered', new.state = 'lost',
    coalesce(new.held_micros, 0), new.estimated)
  ON CONFLICT (day, persona_id, provider, model, source) DO UPDATE SET calls = usage_days.calls + 1,
    lines = usage_days.lines + 1, input_tokens = usage_days.input_tokens + excluded.input_tokens,
    cost_micros = coalesce(usage_days.cost_micros + excluded.cost_micros, excluded.cost_micros, usage_days.cost_micros),
    unknown_cost = usage_days.unknown_cost + excluded.unknown_cost, lost = usage_days.lost + excluded.lost,
    held_micros = usage_days.held_micros + excluded.held_micros, estimated = usage_days.estimated + excluded.estimated;
END;

-- Events of memory are kept: only a reason can be emptied, when its entry is erased.
CREATE TRIGGER memory_events_change BEFORE UPDATE ON memory_events
WHEN new.why <> '' OR new.seq <> old.seq OR new.memory_id <> old.memory_id OR new.act <> old.act OR new.actor <> old.actor
  OR new.who <> old.who OR new.before_json IS NOT old.before_json OR new.at <> old.at BEGIN
  SELECT RAISE(ABORT, 'events of memory are not changed');
END;
CREATE TRIGGER memory_events_delete BEFORE DELETE ON memory_events BEGIN
  SELECT RAISE(ABORT, 'events of memory are not deleted');
END;

-- The feed: what is not told above

CREATE TRIGGER feed_is_bounded AFTER INSERT ON feed WHEN new.seq % 1000 = 0 BEGIN
  DELETE FROM feed WHERE seq <= new.seq - 100000;
END;
CREATE TRIGGER webhook_deliveries_are_bounded AFTER INSERT ON webhook_deliveries WHEN new.n % 1000 = 0 BEGIN
  DELETE FROM webhook_deliveries WHERE n <= new.n - 10000 AND state <> 'queued';
END;
CREATE TRIGGER feed_letter_held AFTER INSERT ON held_letters BEGIN
  INSERT INTO feed (kind, persona_id, message_id, at) VALUES ('letter.held', new.persona_id, new.id, new.held_at);
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
