-- An answer may be read by those who could read its question, unless its run had read what is for fewer: then it is for the
-- people it was sent to, and for those who may read all that (D-96).
DROP VIEW readable;
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
