-- Who may read what in a thread: those to whom a letter was written, from when they joined.
ALTER TABLE thread_participants ADD COLUMN joined_after INTEGER; -- number of the last message before; NULL: from the start
ALTER TABLE messages ADD COLUMN readers_json TEXT; -- keys of those whom a letter is known to be by and to; NULL: all of its thread

-- Who joined an older thread late is told from its messages: the first that names them brought them in.
UPDATE thread_participants SET joined_after = (
    SELECT CASE WHEN max(earlier.seq) < 0 THEN 0 ELSE max(earlier.seq) END FROM messages earlier
    WHERE earlier.thread_id = thread_participants.thread_id AND earlier.seq < (
      SELECT min(m.seq) FROM messages m WHERE m.thread_id = thread_participants.thread_id
        AND instr(lower(m.sender || ' ' || m.recipients_json), replace(address, 'unverified:', '')) > 0))
  WHERE address NOT LIKE 'list:%';

-- Which participant may read which message of their thread. A run's mails are for those whom they went to, and for those
-- who may read what they answer. A proven name reads what was written to and by the same name before it was proven.
CREATE VIEW readable (seq, address) AS
  SELECT m.seq, p.address FROM messages m JOIN thread_participants p ON p.thread_id = m.thread_id
  WHERE m.seq > coalesce(p.joined_after, -9223372036854775808) AND CASE
    WHEN m.direction <> 'outbound' THEN m.readers_json IS NULL OR EXISTS (SELECT 1 FROM json_each(m.readers_json) reader
      WHERE reader.value IN (p.address, 'unverified:' || p.address))
    WHEN m.run_id IS NULL THEN 1
    ELSE EXISTS (SELECT 1 FROM json_each(m.recipients_json, '$.to') named WHERE lower(named.value) = p.address)
      OR EXISTS (SELECT 1 FROM json_each(m.recipients_json, '$.cc') named WHERE lower(named.value) = p.address)
      OR EXISTS (SELECT 1 FROM runs r JOIN messages t ON t.id = r.trigger_message_id
        WHERE r.id = m.run_id AND t.thread_id = m.thread_id AND t.seq > coalesce(p.joined_after, -9223372036854775808)
          AND (t.readers_json IS NULL OR EXISTS (SELECT 1 FROM json_each(t.readers_json) reader
            WHERE reader.value IN (p.address, 'unverified:' || p.address))))
    END;
