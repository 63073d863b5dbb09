-- Words of new letters go into their indexes behind the commit, some at a time (`store/search/index_merge.rs`): one segment of the
-- index for each letter cost a tenth of all bytes that an answered letter writes. PostgreSQL makes them in the commit.

-- Number of the newest letter whose words are in the index. One that gets a lower number, as the letters of an import do, has its
-- words at once.
CREATE TABLE letter_words_through (
  id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  seq INTEGER NOT NULL
) STRICT;
INSERT INTO letter_words_through (id, seq) SELECT 1, coalesce(max(seq), 0) FROM messages;

DROP VIEW letter_texts;
CREATE VIEW letter_texts (seq, thread, subject, sender, own) AS
  SELECT seq, replace(thread_id, '-', ''), subject, sender, coalesce(fresh_text, text_body) FROM messages
  WHERE seq <= (SELECT seq FROM letter_words_through);

DROP TRIGGER letter_words_insert;
CREATE TRIGGER letter_words_insert AFTER INSERT ON messages WHEN new.seq <= (SELECT seq FROM letter_words_through) BEGIN
  INSERT INTO letter_words (rowid, thread, subject, sender, own)
  VALUES (new.seq, replace(new.thread_id, '-', ''), new.subject, new.sender, coalesce(new.fresh_text, new.text_body));
END;

-- Letters with a digit, or with Chinese, Japanese or Korean, have parts.
DROP TRIGGER messages_new;
CREATE TRIGGER messages_new AFTER INSERT ON messages BEGIN
  INSERT OR IGNORE INTO letter_parts_pending (seq) SELECT new.seq
    WHERE new.seq <= (SELECT seq FROM letter_words_through)
      AND (new.subject GLOB '*[0-9ᄀ-ᇿぁ-ヿㇰ-ㇿ々㐀-鿿가-힣豈-﫿ｦ-ﾝ𠀀-𲎯]*'
      OR new.sender GLOB '*[ᄀ-ᇿぁ-ヿㇰ-ㇿ々㐀-鿿가-힣豈-﫿ｦ-ﾝ𠀀-𲎯]*'
      OR coalesce(new.fresh_text, new.text_body) GLOB '*[0-9ᄀ-ᇿぁ-ヿㇰ-ㇿ々㐀-鿿가-힣豈-﫿ｦ-ﾝ𠀀-𲎯]*');
  INSERT INTO feed (kind, persona_id, thread_id, message_id, at)
  SELECT 'letter.filed', new.persona_id, new.thread_id, new.id, new.received_at
    WHERE new.direction = 'inbound' AND new.disposition NOT IN ('run', 'filed:import');
END;

-- What is not in the index need not be taken from it.
DROP TRIGGER messages_changed;
CREATE TRIGGER messages_changed AFTER UPDATE OF thread_id, subject, sender, text_body, fresh_text ON messages BEGIN
  INSERT INTO letter_words (letter_words, rowid, thread, subject, sender, own)
  SELECT 'delete', old.seq, replace(old.thread_id, '-', ''), old.subject, old.sender, coalesce(old.fresh_text, old.text_body)
    WHERE old.seq <= (SELECT seq FROM letter_words_through);
  INSERT INTO letter_words (rowid, thread, subject, sender, own)
  SELECT new.seq, replace(new.thread_id, '-', ''), new.subject, new.sender, coalesce(new.fresh_text, new.text_body)
    WHERE new.seq <= (SELECT seq FROM letter_words_through);
  INSERT OR IGNORE INTO letter_parts_pending (seq) SELECT new.seq WHERE new.seq <= (SELECT seq FROM letter_words_through);
  DELETE FROM letter_vectors WHERE seq = old.seq
    AND (old.subject IS NOT new.subject OR old.text_body IS NOT new.text_body OR old.fresh_text IS NOT new.fresh_text);
END;
DROP TRIGGER messages_gone;
CREATE TRIGGER messages_gone AFTER DELETE ON messages BEGIN
  INSERT INTO letter_words (letter_words, rowid, thread, subject, sender, own)
  SELECT 'delete', old.seq, replace(old.thread_id, '-', ''), old.subject, old.sender, coalesce(old.fresh_text, old.text_body)
    WHERE old.seq <= (SELECT seq FROM letter_words_through);
  DELETE FROM letter_part_texts WHERE seq = old.seq;
  DELETE FROM letter_parts_pending WHERE seq = old.seq;
  DELETE FROM letter_vectors WHERE seq = old.seq;
  DELETE FROM thread_memory WHERE thread_id = old.thread_id AND upto_seq >= old.seq AND from_seq <= old.seq;
END;
